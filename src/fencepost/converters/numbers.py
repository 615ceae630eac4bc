"""Floating-point numbers as text, for whole columns."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fencepost.converters.text import with_suffix, wrap


def json_floats(values: pa.Array) -> pa.Array:
    """Return JSON numbers that read back as the same double, with a fraction or an exponent, as Jackson writes them.

    JSON has no numbers for NaN and the infinities: they become the strings "NaN", "Infinity" and "-Infinity".
    """
    return _floats(values, quote='"')


def java_floats(values: pa.Array) -> pa.Array:
    """Return the results of Java's Float.toString and Double.toString (JDK 19 and later)."""
    texts = _floats(values, quote="")
    numbers = _numpy(values)
    size = np.abs(numbers)
    scientific = np.isfinite(numbers) & (size != 0) & ((size < 1e-3) | (size >= 1e7))
    if scientific.any():
        mask = pa.array(scientific)
        # Numbers of this size are rare, so they are converted one by one.
        replaced = [None if text is None else _scientific(text) for text in texts.filter(mask).to_pylist()]
        texts = pc.replace_with_mask(texts, mask, pa.array(replaced, pa.string()))
    return texts


def _floats(values: pa.Array, quote: str) -> pa.Array:
    numbers = _numpy(values)
    finite = np.isfinite(numbers)
    whole = finite & (numbers == np.rint(numbers))
    if whole.all() and _plain_integers(numbers):
        nulls = values.is_null().to_numpy(zero_copy_only=False) if values.null_count else None
        return wrap(pa.array(numbers.astype(np.int64), mask=nulls).cast(pa.string()), "", ".0")
    texts = values.cast(pa.string())
    if whole.any():
        rows = np.flatnonzero(whole)
        short = pc.invert(pc.match_substring(texts.take(pa.array(rows)), "e")).fill_null(False)
        texts = with_suffix(texts, rows[short.to_numpy(zero_copy_only=False)], ".0")
    if not finite.all():
        for mask, name in (
            (np.isnan(numbers), "NaN"),
            (np.isposinf(numbers), "Infinity"),
            (np.isneginf(numbers), "-Infinity"),
        ):
            texts = pc.if_else(pa.array(mask), f"{quote}{name}{quote}", texts)
    return texts


def _plain_integers(numbers: np.ndarray[Any, Any]) -> bool:
    """Whether all numbers have the same digits when they are written as integers."""
    limit = 1e7  # from here on, an exponent may be shorter, and a float's text may have fewer digits than the integer
    return bool((np.abs(numbers) < limit).all()) and not bool(((numbers == 0) & np.signbit(numbers)).any())


def _numpy(values: pa.Array) -> np.ndarray[Any, Any]:
    filled = values.fill_null(0.0) if values.null_count else values
    result: np.ndarray[Any, Any] = filled.to_numpy(zero_copy_only=False)
    return result


def _scientific(text: str) -> str:
    sign, digits, exponent = Decimal(text).normalize().as_tuple()
    whole, fraction = digits[0], "".join(map(str, digits[1:])) or "0"
    power = int(exponent) + len(digits) - 1
    return f"{'-' if sign else ''}{whole}.{fraction}E{power}"
