"""Writes the values of a column in Protobuf's wire format, https://protobuf.dev/programming-guides/encoding/.

A value step writes the values of one type: the bytes after a field's tag. A field step writes a field with its tag.
Steps are plain data, made once from two schemas (`plan`), and pickled to executors. `rows` marks the rows that have a
value at all: fields of a null struct have no values, even if Arrow stores something in their place.

A field without presence is absent where its value is the type's default: zero, false, or empty. -0.0 is not the
default.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from fencepost.api.errors import DataError
from fencepost.converters.columnar.pieces import (
    Array,
    Encoded,
    RowPiece,
    fixed_width,
    put_together,
    unsigned_varints,
)
from fencepost.converters.columnar.values import (
    bytes_of,
    check_text,
    counts_of,
    kept_items,
    numbers_of,
    whole_numbers,
)
from fencepost.converters.render import UnsupportedTypeError, children, plain

VARINT: Final = 0
FIXED64: Final = 1
LENGTH: Final = 2
FIXED32: Final = 5


def tag(number: int, wire_type: int) -> bytes:
    """Return the tag of a field: its number and wire type."""
    left, found = number << 3 | wire_type, bytearray()
    while left > 0x7F:
        found.append(left & 0x7F | 0x80)
        left >>= 7
    return bytes([*found, left])


@dataclass(frozen=True, slots=True)
class StepColumn:
    """The values of a column, ready to be written.

    `filled` marks the values that differ from their type's default; None means that all do.
    """

    filled: Array | None
    pieces: Callable[[bytes, Array | None], list[RowPiece]]
    """Returns the pieces of the given rows: the tag, then the value."""


@dataclass(frozen=True)
class ValueStep(ABC):
    """Writes the values of one Protobuf type."""

    wire_type: ClassVar[int] = LENGTH

    @abstractmethod
    def column(self, values: pa.Array, place: str) -> StepColumn:
        """Return the values without their tag. Raises UnsupportedTypeError, DataError."""


@dataclass(frozen=True)
class VarintStep(ValueStep):
    """Writes values of the types int32 and int64. Negative numbers take ten bytes."""

    wire_type: ClassVar[int] = VARINT

    def column(self, values: pa.Array, place: str) -> StepColumn:
        """Return numbers with 7 bits in a byte, in 64-bit two's complement."""
        numbers = whole_numbers(values, 0, place).view(np.uint64)
        return StepColumn(numbers != 0, lambda before, rows: [unsigned_varints(numbers, rows, before)])


@dataclass(frozen=True)
class BoolStep(ValueStep):
    """Writes values of the type bool."""

    wire_type: ClassVar[int] = VARINT

    def column(self, values: pa.Array, place: str) -> StepColumn:
        """Return one byte for each value."""
        if not pt.is_boolean(values.type):
            raise UnsupportedTypeError(values.type, place)
        numbers = numbers_of(values).astype(np.uint8)
        return StepColumn(numbers != 0, lambda before, rows: [fixed_width(numbers, rows, before)])


@dataclass(frozen=True)
class FloatStep(ValueStep):
    """Writes values of the type float."""

    wire_type: ClassVar[int] = FIXED32

    def column(self, values: pa.Array, place: str) -> StepColumn:
        """Return the numbers in IEEE 754, little-endian."""
        return _real(values, place, "<f4", "<u4")


@dataclass(frozen=True)
class DoubleStep(ValueStep):
    """Writes values of the type double."""

    wire_type: ClassVar[int] = FIXED64

    def column(self, values: pa.Array, place: str) -> StepColumn:
        """Return the numbers in IEEE 754, little-endian."""
        return _real(values, place, "<f8", "<u8")


def _real(values: pa.Array, place: str, kind: str, bits: str) -> StepColumn:
    if not pt.is_floating(values.type):
        raise UnsupportedTypeError(values.type, place)
    numbers = numbers_of(values).astype(kind, copy=False)
    # -0.0 equals 0.0, but it is not the default.
    return StepColumn(numbers.view(bits) != 0, lambda before, rows: [fixed_width(numbers, rows, before)])


@dataclass(frozen=True)
class StringStep(ValueStep):
    """Writes values of the type string."""

    def column(self, values: pa.Array, place: str) -> StepColumn:
        """Return each text as its length and its UTF-8 bytes."""
        if not pt.is_string(values.type):
            raise UnsupportedTypeError(values.type, place)
        check_text(values)
        return _with_lengths(values)


@dataclass(frozen=True)
class LengthDelimitedStep(ValueStep):
    """Writes values of the type bytes."""

    def column(self, values: pa.Array, place: str) -> StepColumn:
        """Return the length and the bytes of each value."""
        if not pt.is_binary(values.type):
            raise UnsupportedTypeError(values.type, place)
        return _with_lengths(values)


def _with_lengths(values: pa.Array) -> StepColumn:
    whole = bytes_of(values, None)

    def pieces(before: bytes, rows: Array | None) -> list[RowPiece]:
        lengths = unsigned_varints(whole.lengths.view(np.uint64), rows, before)
        return [lengths, whole if rows is None else RowPiece.of(whole.lengths * rows, whole.source, whole.starts)]

    return StepColumn(whole.lengths != 0, pieces)


@dataclass(frozen=True)
class FieldStep(ABC):
    """A field: its tag, and the type of its values."""

    tag: bytes
    value: ValueStep

    @abstractmethod
    def pieces(self, values: pa.Array, rows: Array | None, place: str) -> list[RowPiece]:
        """Return the pieces of a field. Raises UnsupportedTypeError, DataError."""


@dataclass(frozen=True)
class SingleStep(FieldStep):
    """A field with one value. `presence`: the default is written, too. `required`: the value is never null."""

    presence: bool = False
    required: bool = False

    def pieces(self, values: pa.Array, rows: Array | None, place: str) -> list[RowPiece]:
        """Return the tag and the value, except for nulls, and, without presence, for the default."""
        written = _not_null(values, rows, place, required=self.required)
        column = self.value.column(values, place)
        if column.filled is not None and not self.presence and not column.filled.all():
            written = column.filled if written is None else column.filled & written
        return column.pieces(self.tag, written)


@dataclass(frozen=True)
class RepeatedStep(FieldStep):
    """A field with the items of an array. An array that is empty or null is absent."""

    required: bool = False

    def pieces(self, values: pa.Array, rows: Array | None, place: str) -> list[RowPiece]:
        """Return the items: numbers and booleans together after one tag, others each after its own tag."""
        if not pt.is_list(values.type):
            raise UnsupportedTypeError(values.type, place)
        written = _not_null(values, rows, place, required=self.required)
        offsets, (items,) = children(values, values.values)
        counts, kept = counts_of(offsets, written)
        items = plain(kept_items(items, kept))
        if items.null_count:
            raise DataError(
                f"The array {place or 'value'} has a null, and Protobuf's repeated fields have none: drop the nulls in the "
                "source or by a transform, or put the items into structs"
            )
        column = self.value.column(items, f"{place}[]")
        if self.value.wire_type == LENGTH:
            return [_of_items(column.pieces(self.tag, None), counts)]
        packed = _of_items(column.pieces(b"", None), counts)
        some = packed.lengths > 0
        return [unsigned_varints(packed.lengths.view(np.uint64), some, self.tag), packed]


@dataclass(frozen=True)
class EntriesStep(FieldStep):
    """A field with the entries of a map. Each entry is a message with key and value."""

    required: bool = False

    def pieces(self, values: pa.Array, rows: Array | None, place: str) -> list[RowPiece]:
        """Return the entries, each after the tag."""
        if not pt.is_map(values.type):
            raise UnsupportedTypeError(values.type, place)
        written = _not_null(values, rows, place, required=self.required)
        offsets, (keys, items) = children(values, values.keys, values.items)
        counts, kept = counts_of(offsets, written)
        keys, items = kept_items(keys, kept), kept_items(items, kept)
        entries = pa.StructArray.from_arrays([keys, items], names=["key", "value"])
        column = self.value.column(entries, place)
        return [_of_items(column.pieces(self.tag, None), counts)]


@dataclass(frozen=True)
class MessageStep(ValueStep):
    """A message. `fields` has for each field its name in the values, and its step.

    `is_map` says that the message is an entry of a map.
    """

    fields: tuple[tuple[str, FieldStep], ...]
    is_map: bool = False

    def column(self, values: pa.Array, place: str) -> StepColumn:
        """Return the length and the fields of each message."""
        return StepColumn(
            None, lambda before, rows: with_length(self.body(values, rows, place), len(values), rows, before)
        )

    def body(self, values: pa.Array, rows: Array | None, place: str) -> list[RowPiece]:
        """Return only the fields, without a length: this is the form of a whole record."""
        if not pt.is_struct(values.type):
            raise UnsupportedTypeError(values.type, place)
        found: list[RowPiece] = []
        for name, step in self.fields:
            index = values.type.get_field_index(name)
            if index < 0:
                raise DataError(f"The record has no field {name!r}, which its schema has")
            inner = f"{place}[{name}]" if self.is_map else f"{place}.{name}" if place else name
            found += step.pieces(plain(values.field(index)), rows, inner)
        return found


@dataclass(frozen=True)
class WrapperStep(ValueStep):
    """A message that wraps one value, such as google.protobuf.Int32Value."""

    field: SingleStep

    def column(self, values: pa.Array, place: str) -> StepColumn:
        """Return each wrapper as its length and its field."""
        return StepColumn(
            None, lambda before, rows: with_length(self.body(values, rows, place), len(values), rows, before)
        )

    def body(self, values: pa.Array, rows: Array | None, place: str) -> list[RowPiece]:
        """Return the pieces of the wrapped field. The wrapper's length, which a message needs, is not included."""
        return self.field.pieces(values, rows, place)


def with_length(pieces: Sequence[RowPiece], count: int, rows: Array | None, before: bytes) -> list[RowPiece]:
    """Return pieces preceded by a tag and the sum of their lengths."""
    lengths = np.zeros(count, np.int64)
    for piece in pieces:
        lengths += piece.lengths
    return [unsigned_varints(lengths.view(np.uint64), rows, before), *pieces]


def encoded(
    step: MessageStep | WrapperStep, values: pa.Array, rows: Array | None, before: Sequence[RowPiece]
) -> Encoded:
    """Return whole records as rows of bytes. Each row begins with the pieces `before`."""
    return put_together([*before, *step.body(plain(values), rows, "")], len(values))


def _of_items(pieces: Sequence[RowPiece], counts: Array) -> RowPiece:
    """Return a piece with the items of each row, one after the other."""
    edges = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=edges[1:])
    items = put_together(pieces, int(edges[-1]))
    bounds = items.offsets[edges]
    return RowPiece.of(np.diff(bounds), items.data, bounds[:-1])


def _not_null(values: pa.Array, rows: Array | None, place: str, *, required: bool) -> Array | None:
    """Return which of `rows` have a value; None means all."""
    if not values.null_count:
        return rows
    valid = np.asarray(values.is_valid())
    if required and not (valid if rows is None else valid | ~rows).all():
        raise DataError(
            f"The field {place or 'value'} is null, but its schema says that it never is: declare it nullable"
        )
    return valid if rows is None else valid & rows
