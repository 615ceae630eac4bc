"""Suggests a plain Python value that can replace a refused value, for error messages."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import is_dataclass
from datetime import date, time
from typing import Any, Final

from fencepost.api.plugin_calls import kind_of

_PLAIN: Final = (str, int, bytes, bytearray, memoryview, type(None))
_NAMES: Final = (str, int, float, type(None))
# Types of pandas and numpy are recognised by their names, so that neither is imported for a message.
_MISSING: Final = frozenset({"NaTType", "NAType"})
# What pandas and polars have beside data frames.
_FRAME_LIKE: Final = {"LazyFrame": "value.collect().to_dicts()", "Series": "list(value)"}
_NUMPY_TIMES: Final = frozenset({"datetime64", "timedelta64"})


def instead_of(value: Any) -> str:
    """Return a replacement for a value that is not plain, as a Python expression.

    The replacement is `None` for NaN, infinities and missing values.
    """
    kind = type(value)
    if isinstance(value, float) or kind.__name__ in _MISSING:
        return "None"
    if isinstance(value, set | frozenset | range):
        return "list(value)"
    if isinstance(value, date | time):
        return "value.isoformat()"
    if kind.__module__ == "numpy":
        return _instead_of_numpy(value, kind.__name__)
    if is_dataclass(value) and not isinstance(value, type):
        return "dataclasses.asdict(value)"
    return _FRAME_LIKE.get(kind.__name__, "str(value)")


def _instead_of_numpy(value: Any, name: str) -> str:
    if name in _NUMPY_TIMES:
        return "None" if str(value) == "NaT" else "str(value)"
    return "value.tolist()" if name == "ndarray" else "value.item()"


def why_no_json(value: Any) -> str | None:
    """Describe the first value in a structure that JSON cannot represent, with its path and a replacement.

    Returns None if there is no such value, or if the structure is too deep.
    """
    try:
        return _unfit(value, "")
    except RecursionError:
        return None


def _unfit(value: Any, path: str) -> str | None:
    here = path or "it"
    if isinstance(value, Mapping):
        for name, member in value.items():
            if not isinstance(name, _NAMES):
                return f"{here} has the name {name!r}, which is {kind_of(name)}. Give a text in its place"
            if found := _unfit(member, f"{path}.{name}" if path else str(name)):
                return found
        return None
    if isinstance(value, list | tuple):
        return next((found for item in value if (found := _unfit(item, path))), None)
    if isinstance(value, _PLAIN) or (isinstance(value, float) and math.isfinite(value)):
        return None
    shown = repr(float(value)) if isinstance(value, float) else kind_of(value)
    return f"{here} is {shown}, which JSON does not have. Give {instead_of(value)} in its place"
