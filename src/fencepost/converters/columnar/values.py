"""Extracts numbers, bytes and items from Arrow's values, for the pieces of rows."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from fencepost.api.errors import DataError
from fencepost.converters.columnar.pieces import Array, RowPiece, padded
from fencepost.converters.render import UnsupportedTypeError

_PER_SECOND: Final = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}


def check_text(values: pa.Array) -> None:
    """Raise DataError for texts that are not UTF-8, which Spark casts from BINARY to STRING unchecked."""
    try:
        values.validate(full=True)
    except pa.ArrowInvalid as error:
        raise DataError("A STRING has bytes that are not UTF-8: leave it BINARY, or decode it") from error


def counts_of(offsets: Array, rows: Array | None) -> tuple[Array, Array | None]:
    """Return the number of items of each list, and which items belong to lists among `rows`; None means all items."""
    counts = np.diff(offsets).astype(np.int64)
    if rows is None:
        return counts, None
    # Arrow may store items where a list, or the struct that contains it, is null.
    kept = np.repeat(rows, counts) if counts[~rows].any() else None
    return counts * rows, kept


def kept_items(items: pa.Array, kept: Array | None) -> pa.Array:
    """Return the items that `kept` marks; see `counts_of`."""
    return items if kept is None else items.filter(pa.array(kept))


def bytes_of(values: pa.Array, rows: Array | None) -> RowPiece:
    """Return the bytes of a `string` or `binary` array as a piece."""
    count = len(values)
    if not count:
        return RowPiece.of(np.zeros(0, np.int64), np.zeros(16, np.uint8), np.zeros(0, np.int64))
    _, offset_buffer, data_buffer = values.buffers()
    offsets = np.frombuffer(offset_buffer, np.int32)[values.offset : values.offset + count + 1].astype(np.int64)
    data = np.zeros(0, np.uint8) if data_buffer is None else np.frombuffer(data_buffer, np.uint8)
    source, moved = padded(data, int(offsets[0]), int(offsets[-1]))
    lengths = np.diff(offsets)
    return RowPiece.of(lengths if rows is None else lengths * rows, source, offsets[:-1] - moved)


def numbers_of(values: pa.Array) -> Array:
    """Return the numbers or booleans of an array, with 0 for nulls."""
    filled = values.fill_null(pa.scalar(0).cast(values.type)) if values.null_count else values
    return np.asarray(filled.to_numpy(zero_copy_only=False))


def whole_numbers(values: pa.Array, per_second: int, place: str) -> Array:
    """Return whole numbers, days or times as 64-bit numbers.

    `per_second` is the number of units per second in which times are returned; 0 if times are not allowed.

    Raises UnsupportedTypeError, DataError.
    """
    kind = values.type
    if per_second and (pt.is_timestamp(kind) or pt.is_time(kind)):
        stored = values.view(pa.int32() if pt.is_time32(kind) else pa.int64())
        numbers = numbers_of(stored).astype(np.int64)
        given = _PER_SECOND[kind.unit]
        if given > per_second:
            return np.floor_divide(numbers, given // per_second)
        factor = per_second // given
        if factor > 1 and (np.abs(numbers) > (2**63 - 1) // factor).any():
            raise DataError(f"{place or 'The record'} has a time that does not fit 64 bits in the units of the schema")
        return numbers * factor
    if pt.is_date(kind):
        return numbers_of(values.view(pa.int32())).astype(np.int64)
    if not pt.is_integer(kind):
        raise UnsupportedTypeError(kind, place)
    return numbers_of(values).astype(np.int64, copy=False)


def widened(values: pa.Array) -> pa.Array:
    """Return decimals with 128 or 256 bits: narrower ones are widened."""
    kind = values.type
    if pt.is_decimal32(kind) or pt.is_decimal64(kind):
        return values.cast(pa.decimal128(kind.precision, kind.scale))
    return values
