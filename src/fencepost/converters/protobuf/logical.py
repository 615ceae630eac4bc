"""Writes decimals, dates and times as messages of Google and Confluent, for whole columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from fencepost.api.errors import DataError
from fencepost.converters.binary import unscaled_bytes
from fencepost.converters.columnar.pieces import Array, RowPiece, unsigned_varints
from fencepost.converters.columnar.values import bytes_of, whole_numbers, widened
from fencepost.converters.protobuf.steps import LENGTH, VARINT, StepColumn, ValueStep, tag, with_length
from fencepost.converters.render import UnsupportedTypeError

_MILLISECONDS: Final = 1_000
_NANOSECONDS: Final = 1_000_000
"""The number of nanoseconds in a millisecond."""
_POWERS: Final = np.array([10**digits for digits in range(1, 19)], np.int64)
_LONGEST_128: Final = 38
_SECONDS: Final = (-62_135_596_800, 253_402_300_799)
_DAYS: Final = (-719_162, 2_932_896)
"""The first and the last day that the messages can hold, counted from 1970-01-01: 0001-01-01 and 9999-12-31."""


@dataclass(frozen=True)
class DecimalStep(ValueStep):
    """confluent.type.Decimal: value (bytes) = 1, precision (uint32) = 2, scale (int32) = 3."""

    def column(self, values: pa.Array, place: str) -> StepColumn:
        """Return the unscaled value in as few bytes as possible, its number of digits, and the scale of its type."""
        if not pt.is_decimal(values.type):
            raise UnsupportedTypeError(values.type, place)
        values = widened(values)
        scale = np.full(len(values), values.type.scale, np.int64)

        def pieces(before: bytes, rows: Array | None) -> list[RowPiece]:
            unscaled = bytes_of(unscaled_bytes(values), rows)
            whole = [
                unsigned_varints(unscaled.lengths.view(np.uint64), rows, tag(1, LENGTH)),
                unscaled,
                _number(2, _digits(values), rows),
                _number(3, scale, rows),
            ]
            return with_length(whole, len(values), rows, before)

        return StepColumn(None, pieces)


@dataclass(frozen=True)
class DateStep(ValueStep):
    """google.type.Date: year = 1, month = 2, day = 3."""

    def column(self, values: pa.Array, place: str) -> StepColumn:
        """Return dates of the Gregorian calendar. Raises DataError for years that the message cannot hold."""
        if not pt.is_date(values.type):
            raise UnsupportedTypeError(values.type, place)
        days = whole_numbers(values, 0, place)

        def pieces(before: bytes, rows: Array | None) -> list[RowPiece]:
            _check_range(days, rows, _DAYS, f"{place or 'The value'} has a date")
            dates = days.astype("datetime64[D]")
            months = dates.astype("datetime64[M]")
            years = dates.astype("datetime64[Y]").astype(np.int64) + 1970
            parts = (years, months.astype(np.int64) % 12 + 1, (dates - months).astype(np.int64) + 1)
            return _message(parts, rows, before)

        return StepColumn(None, pieces)


@dataclass(frozen=True)
class TimeStep(ValueStep):
    """google.type.TimeOfDay: hours = 1, minutes = 2, seconds = 3, nanos = 4."""

    def column(self, values: pa.Array, place: str) -> StepColumn:
        """Return times of day in milliseconds, the precision that Connect has."""
        if not pt.is_time(values.type):
            raise UnsupportedTypeError(values.type, place)
        millis = whole_numbers(values, _MILLISECONDS, place)
        seconds = millis // 1000
        parts = (seconds // 3600, seconds // 60 % 60, seconds % 60, millis % 1000 * _NANOSECONDS)
        return StepColumn(None, lambda before, rows: _message(parts, rows, before))


@dataclass(frozen=True)
class TimestampStep(ValueStep):
    """google.protobuf.Timestamp: seconds = 1, nanos = 2."""

    def column(self, values: pa.Array, place: str) -> StepColumn:
        """Return times in milliseconds, the precision that Connect has.

        Raises DataError for years that the message cannot hold.
        """
        if not pt.is_timestamp(values.type):
            raise UnsupportedTypeError(values.type, place)
        millis = whole_numbers(values, _MILLISECONDS, place)
        seconds = np.floor_divide(millis, 1000)

        def pieces(before: bytes, rows: Array | None) -> list[RowPiece]:
            _check_range(seconds, rows, _SECONDS, f"{place or 'The value'} has a time")
            return _message((seconds, (millis - seconds * 1000) * _NANOSECONDS), rows, before)

        return StepColumn(None, pieces)


def _message(numbers: tuple[Array, ...], rows: Array | None, before: bytes) -> list[RowPiece]:
    """Return a message of whole numbers: the fields 1, 2 and so on."""
    pieces = [_number(number, values, rows) for number, values in enumerate(numbers, 1)]
    return with_length(pieces, len(numbers[0]), rows, before)


def _number(number: int, values: Array, rows: Array | None) -> RowPiece:
    """Return a field without presence: it is absent where the value is 0."""
    filled = values != 0
    written = rows if filled.all() else filled if rows is None else filled & rows
    return unsigned_varints(values.view(np.uint64), written, tag(number, VARINT))


def _check_range(values: Array, rows: Array | None, bounds: tuple[int, int], what: str) -> None:
    wrong = (values < bounds[0]) | (values > bounds[1])
    if (wrong if rows is None else wrong & rows).any():
        raise DataError(f"{what} outside of the years 1 to 9999, which its message does not have: write it as text")


def _digits(values: pa.Array) -> Array:
    """Return the number of digits of each unscaled value, like Java's BigDecimal.precision: at least one."""
    if pt.is_decimal128(values.type):
        words = np.frombuffer(values.buffers()[1], np.int64).reshape(-1, 2)[values.offset :][: len(values)]
        low = words[:, 0]
        # The smallest 64-bit number has no positive counterpart.
        if (words[:, 1] == low >> 63).all() and (low != np.iinfo(np.int64).min).all():
            return np.asarray(np.searchsorted(_POWERS, np.abs(low), side="right") + 1, np.int64)
    filled = values.fill_null(pa.scalar(0, pa.int8()).cast(values.type)) if values.null_count else values
    width = pa.decimal128(_LONGEST_128, 0) if pt.is_decimal128(values.type) else pa.decimal256(76, 0)
    whole = pa.Array.from_buffers(width, len(filled), [None, filled.buffers()[1]], 0, filled.offset)
    texts = whole.cast(pa.string())
    return np.asarray(bytes_of(texts, None).lengths - _negative(whole), np.int64)


def _negative(whole: pa.Array) -> Array:
    width = whole.type.byte_width
    raw = np.frombuffer(whole.buffers()[1], np.uint8).reshape(-1, width)[whole.offset :][: len(whole)]
    return (raw[:, -1] >= 128).astype(np.int64)
