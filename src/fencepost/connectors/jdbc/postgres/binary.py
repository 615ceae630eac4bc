"""Columns in PostgreSQL's binary format: which types can be transferred in it, and how a block of rows is decoded.

Compared with text, the binary format takes two thirds of the CPU time in the server, and one third in the reader. It is
used for large reads if every column has one of the forms below; values of other types, such as arrays, are only read as
text. A row is the number of its fields (int16) and then each field: its length (int32, -1 for null) and its bytes, in
network byte order. The first field is a null that is not part of the row: it marks the start of a row, at the lowest
cost for the server.

numeric     number of digits, weight, sign, scale (int16 each), and the digits to base 10,000 (int16 each): the first
            digit is multiplied by 10,000 ** weight
timestamp   microseconds since 2000; date: days since 2000; the ends of the value range stand for infinity

https://www.postgresql.org/docs/current/sql-copy.html#SQL-COPY-BINARY-FORMAT
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import types as t

from fencepost.api.errors import DataError
from fencepost.connectors.jdbc.pg_types import slow_column
from fencepost.connectors.jdbc.tables import JdbcColumn
from fencepost.connectors.postgres.server.copy_blocks import HEADER, Marks, Messages, Positions, gathered
from fencepost.connectors.rows.row_types import arrow_type

_COUNT: Final = 2
_LENGTH: Final = 4
_WINDOW: Final = 20
"""The size of a window: a field's length and its first 16 bytes, which are copied together. Most values are not longer.

Numpy copies parts of this size twice as fast as parts of 4, 8 or 16 bytes, which it treats specially.
"""

_LONGEST_NUMBER: Final = 18
"""The number of decimal digits that always fit into 64 bits."""

_NUMERIC_HEADER: Final = 8
_NEGATIVE: Final = 0x4000
_LEAST_SPECIAL: Final = 0xC000
_SPECIAL: Final = {0xC000: "NaN", 0xD000: "Infinity", 0xF000: "-Infinity"}
_BASE_DIGITS: Final = 4
_DIGITS_OF_A_WORD: Final = 4
_FIRST_DIGITS: Final = np.array([0, 0xFFFF << 48, 0xFFFFFFFF << 32, 0xFFFFFFFFFFFF << 16, (1 << 64) - 1], np.uint64)
"""Masks for a 64-bit word of four digits to base 10,000: the mask at index n keeps the first n digits."""

_FACTORS: Final = [
    np.array([0 if beyond else 1, *(10 ** min(4 * place - beyond, _LONGEST_NUMBER) for place in range(1, 6))], np.int64)
    for beyond in range(_BASE_DIGITS)
]
"""The weights of digits to base 10,000, as `_FACTORS[beyond][place]`.

`beyond` is the number of decimal places, up to three, that the last digit has beyond the scale. Such a digit has place
0 and weight 0, because it is divided instead.
"""

_DAYS_TO_2000: Final = 10_957
_MICROSECONDS_TO_2000: Final = 946_684_800_000_000
_DAYS_IN_400_YEARS: Final = 146_097

_HEX: Final = np.frombuffer(b"0123456789abcdef", np.uint8)
_UUID_HYPHENS: Final = (8, 13, 18, 23)
_UUID_BYTES, _UUID_LENGTH = 16, 36


@dataclass(frozen=True, slots=True)
class BinaryField:
    """One field of the rows of a block: where its bytes start and end in each row, and whether it is not null.

    `valid` is None if no value is null. `windows` has a window for each row. `data` continues after the last row for at
    least the length of a window.
    """

    data: bytearray
    windows: NDArray[np.void]
    starts: Positions
    ends: Positions
    valid: NDArray[np.bool_] | None

    def numbers(self, kind: str, offset: int = 0) -> NDArray[Any]:
        """Return the number at an offset in each row's value, in native byte order; for nulls, arbitrary numbers."""
        windows, begin = self.windows, _LENGTH + offset
        if begin + np.dtype(kind).itemsize > _WINDOW:
            windows, begin = windows_at(self.data, self.starts + offset), 0
        return numbers_of(windows, begin, kind)

    def array(self, kind: pa.DataType, numbers: NDArray[Any]) -> pa.Array:
        """Return the memory of `numbers` as an Arrow array of the type `kind`, with the nulls of the field."""
        return pa.Array.from_buffers(
            kind, len(self.starts), [self.bitmap(), pa.py_buffer(np.ascontiguousarray(numbers))]
        )

    def bitmap(self) -> pa.Buffer | None:
        """Return Arrow's validity bitmap."""
        return None if self.valid is None else pa.py_buffer(np.packbits(self.valid, bitorder="little"))

    def first(self, found: NDArray[np.bool_]) -> int | None:
        """Return the index of the first non-null row that `found` marks; None without such a row."""
        rows = np.flatnonzero(found if self.valid is None else found & self.valid)
        return int(rows[0]) if len(rows) else None


class UnusualError(Exception):
    """The column's type cannot represent a value. The argument is the value as PostgreSQL writes it."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text


Decode = Callable[[BinaryField, t.DataType], pa.Array]


def windows_at(data: bytearray, positions: Positions) -> NDArray[np.void]:
    """Return the windows at these positions of a block.

    For positions beyond the last window, the result is arbitrary.
    """
    last = len(data) - _WINDOW
    found: NDArray[np.void] = np.ndarray((last + 1,), f"V{_WINDOW}", data, 0, (1,))[np.minimum(positions, last)]
    return found


def numbers_of(windows: NDArray[np.void], offset: int, kind: str) -> NDArray[Any]:
    """Return the number at an offset in each window.

    `kind` is the dtype of the numbers, such as `>i4`; the result has native byte order.
    """
    found: NDArray[Any] = np.ndarray(len(windows), kind, windows, offset, (_WINDOW,))
    return found.astype(kind.replace(">", "="))


def _whole(kind: str) -> Decode:
    return lambda field, becomes: field.array(arrow_type(becomes), field.numbers(kind))


def _unsigned(field: BinaryField, becomes: t.DataType) -> pa.Array:
    return field.array(arrow_type(becomes), field.numbers(">u4").astype(np.int64))


def _unsigned_64(field: BinaryField, becomes: t.DataType) -> pa.Array:
    numbers = field.numbers(">u8")
    row = field.first(numbers >> np.uint64(63) != 0)
    if row is not None:
        raise UnusualError(str(numbers[row]))
    return field.array(arrow_type(becomes), numbers.view(np.int64))


def _boolean(field: BinaryField, _: t.DataType) -> pa.Array:
    bits = np.packbits(field.numbers("u1") != 0, bitorder="little")
    return pa.Array.from_buffers(pa.bool_(), len(field.starts), [field.bitmap(), pa.py_buffer(bits)])


def _date(field: BinaryField, becomes: t.DataType) -> pa.Array:
    days = field.numbers(">i4")
    _refuse_infinity(field, days)
    return field.array(arrow_type(becomes), days + np.int32(_DAYS_TO_2000))


def _moment(field: BinaryField, becomes: t.DataType) -> pa.Array:
    moments = field.numbers(">i8")
    _refuse_infinity(field, moments)
    latest = np.iinfo(np.int64).max - _MICROSECONDS_TO_2000
    row = field.first(moments > latest)
    if row is not None:
        raise UnusualError(_moment_text(int(moments[row])))
    return field.array(arrow_type(becomes), moments + np.int64(_MICROSECONDS_TO_2000))


def _refuse_infinity(field: BinaryField, numbers: NDArray[Any]) -> None:
    ends = np.iinfo(numbers.dtype)
    row = field.first((numbers == ends.max) | (numbers == ends.min))
    if row is not None:
        raise UnusualError("infinity" if numbers[row] > 0 else "-infinity")


def _moment_text(since_2000: int) -> str:
    """Return a timestamp as PostgreSQL writes it in UTC. `since_2000` is in microseconds; any year is possible."""
    seconds, fraction = divmod(since_2000, 1_000_000)
    days, second = divmod(seconds, 86_400)
    cycles, day = divmod(days, _DAYS_IN_400_YEARS)
    start = np.datetime64("2000-01-01") + day
    year, rest = str(start).split("-", 1)
    clock = f"{second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}"
    after = f".{fraction:06}".rstrip("0") if fraction else ""
    return f"{int(year) + 400 * cycles}-{rest} {clock}{after}+00"


def _numeric(field: BinaryField, becomes: t.DataType) -> pa.Array:
    """Decode numbers of at most 18 digits, as decimals or whole numbers."""
    scale = becomes.scale if isinstance(becomes, t.DecimalType) else 0
    unscaled = _unscaled(field, scale)
    if isinstance(becomes, t.DecimalType):
        return field.array(arrow_type(becomes), np.stack([unscaled, unscaled >> 63], axis=1))
    kind = arrow_type(becomes)
    return field.array(kind, unscaled.astype(kind.to_pandas_dtype()))


def _unscaled(field: BinaryField, scale: int) -> NDArray[np.int64]:
    header = field.numbers(">u8")
    signs = header >> np.uint64(16) & np.uint64(0xFFFF)
    row = field.first(signs >= _LEAST_SPECIAL)
    if row is not None:
        raise UnusualError(_SPECIAL.get(int(signs[row]), "NaN"))
    counts = (header >> np.uint64(48)).astype(np.int64)
    if field.valid is not None:
        counts[~field.valid] = 0
    # The number of decimal places beyond the scale that the last digit to base 10,000 may have.
    beyond = -scale % _BASE_DIGITS
    factors = _FACTORS[beyond]
    places = (header >> np.uint64(32)).astype(np.int16).astype(np.int64) + (scale + beyond) // _BASE_DIGITS
    total = np.zeros(len(header), np.int64)
    for number, digits in enumerate(_digits(field, counts)):
        total += digits * factors.take(places - number, mode="clip")
        if beyond:
            total += np.where(places == number, digits // 10**beyond, 0)
    return np.where(signs == _NEGATIVE, -total, total)


def _digits(field: BinaryField, counts: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
    """Yield the first digits (base 10,000) of all numbers, then the second digits, and so on; 0 for a missing digit."""
    for first in range(0, int(counts.max(initial=0)), _DIGITS_OF_A_WORD):
        left = counts - first
        words = field.numbers(">u8", _NUMERIC_HEADER + 2 * first) & _FIRST_DIGITS.take(left, mode="clip")
        for bits in range(48, 48 - 16 * min(int(left.max()), _DIGITS_OF_A_WORD), -16):
            yield (words >> np.uint64(bits) & np.uint64(0xFFFF)).view(np.int64)


def _bytes(field: BinaryField, becomes: t.DataType) -> pa.Array:
    return _slots(field, arrow_type(becomes))


def _text_after_version(field: BinaryField, becomes: t.DataType) -> pa.Array:
    starts = field.starts + (1 if field.valid is None else field.valid)
    return _slots(replace(field, starts=starts), arrow_type(becomes))


def _slots(field: BinaryField, kind: pa.DataType) -> pa.Array:
    _, offsets, content = gathered(field.data, field.starts, field.ends).buffers()
    return pa.Array.from_buffers(kind, len(field.starts), [field.bitmap(), offsets, content])


def _decimal_text(field: BinaryField, becomes: t.DataType) -> pa.Array:
    """Decode numbers of more than 18 decimal digits, which the server writes as text."""
    texts = _slots(field, pa.string())
    try:
        return texts.cast(arrow_type(becomes))
    except pa.ArrowInvalid:
        for text in texts.drop_null().to_pylist():
            if not Decimal(text).is_finite():
                raise UnusualError(text) from None
        raise


def _uuid(field: BinaryField, _: t.DataType) -> pa.Array:
    count = len(field.starts)
    octets = np.ndarray((count, _UUID_BYTES), np.uint8, field.windows, _LENGTH, (_WINDOW, 1))
    text = np.full((count, _UUID_LENGTH), ord("-"), np.uint8)
    digits = [place for place in range(_UUID_LENGTH) if place not in _UUID_HYPHENS]
    text[:, digits[0::2]] = _HEX[octets >> 4]
    text[:, digits[1::2]] = _HEX[octets & 15]
    offsets = np.arange(0, (count + 1) * _UUID_LENGTH, _UUID_LENGTH, dtype=np.int32)
    return pa.Array.from_buffers(pa.string(), count, [field.bitmap(), pa.py_buffer(offsets), pa.py_buffer(text)])


_DECODERS: Final[dict[str, Decode]] = {
    "bool": _boolean, "int2": _whole(">i2"), "int4": _whole(">i4"), "int8": _whole(">i8"),
    "oid": _unsigned, "xid": _unsigned, "xid8": _unsigned_64, "float4": _whole(">f4"), "float8": _whole(">f8"),
    "date": _date, "timestamp": _moment, "timestamptz": _moment, "bytea": _bytes,
    "text": _bytes, "varchar": _bytes, "bpchar": _bytes, "name": _bytes, "json": _bytes,
    "jsonb": _text_after_version, "uuid": _uuid,
}  # fmt: skip

# For these types, a cast to text gives the same text as COPY: PostgreSQL has no separate cast for them.
_CAST_TO_TEXT: Final = frozenset({"interval", "time", "timetz", "macaddr", "macaddr8", "bit", "varbit", "pg_lsn"})


@dataclass(frozen=True, slots=True)
class BinaryForm:
    """How a column is transferred: as the bytes of its own type, or as text after a cast."""

    decode: Decode
    cast: bool = False


def form_of(column: JdbcColumn) -> BinaryForm | None:
    """Return how a column is transferred in the binary format, None if the format cannot be used for it."""
    kind, becomes = column.type, column.becomes
    if kind.is_enum:
        return BinaryForm(_bytes)
    if not kind.built_in or kind.element is not None:
        return None
    if kind.name == "numeric":
        return _numeric_form(becomes)
    if kind.name in _CAST_TO_TEXT:
        return BinaryForm(_bytes, cast=True)
    decode = _DECODERS.get(kind.name)
    return None if decode is None else BinaryForm(decode)


def _numeric_form(becomes: t.DataType) -> BinaryForm | None:
    if isinstance(becomes, t.StringType):
        return BinaryForm(_bytes, cast=True)
    if isinstance(becomes, t.DoubleType):
        return None
    if isinstance(becomes, t.DecimalType) and becomes.precision > _LONGEST_NUMBER:
        return BinaryForm(_decimal_text, cast=True)
    return BinaryForm(_numeric)


def forms_of(columns: Sequence[JdbcColumn]) -> tuple[BinaryForm, ...] | None:
    """Return how each column is transferred in the binary format, None if the format cannot be used for one of them."""
    forms = [form_of(column) for column in columns]
    found = tuple(form for form in forms if form is not None)
    return found if len(found) == len(forms) else None


def marks(columns: int) -> Marks:
    """Return the positions and values of bytes that mark the start of a row with a null and this many columns.

    The null's length is -1, so its bytes are 255. No value's length begins with the byte 255.
    """
    null = HEADER + _COUNT
    return ((null, 255), (null + _LENGTH - 1, 255), (null - 1, (columns + 1) % 256), (1, 0))


def decoded(
    messages: Messages, columns: Sequence[JdbcColumn], forms: Sequence[BinaryForm], title: str
) -> list[pa.Array]:
    """Return the columns of rows, without the leading null. Raises DataError for values that cannot be represented."""
    data, place = messages.data, messages.starts + (HEADER + _COUNT + _LENGTH)
    if messages.end + _WINDOW > len(data):
        data = data + bytes(_WINDOW)
    arrays = []
    for column, form in zip(columns, forms, strict=True):
        windows = windows_at(data, place)
        lengths = numbers_of(windows, 0, ">i4").astype(np.int64)
        valid = None
        if lengths.min(initial=0) < 0:
            valid = lengths >= 0
            lengths[~valid] = 0
        starts = place + _LENGTH
        place = starts + lengths
        try:
            arrays.append(form.decode(BinaryField(data, windows, starts, place, valid), column.becomes))
        except UnusualError as unusual:
            slow_column(column.becomes, [unusual.text], f"The column {column.label} of {title}")
            raise
    if place[-1] != messages.end or (place[:-1] != messages.starts[1:]).any():
        raise DataError(f"PostgreSQL sent rows of {title} that do not have its columns: report this")
    return arrays
