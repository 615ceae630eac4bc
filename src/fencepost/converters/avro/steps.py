"""Writes the values of a column in Avro's binary encoding, https://avro.apache.org/docs/1.12.0/specification/.

There is a step for each Avro type: it makes the pieces of the values of an Arrow array. Steps are plain data, made once
from two schemas (`plan`), and pickled to executors. `rows` marks the rows that have a value at all: fields of a null
struct have no values, even if Arrow stores something in their place.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from fencepost.api.errors import DataError
from fencepost.converters.binary import unscaled_bytes
from fencepost.converters.columnar.pieces import (
    Array,
    Encoded,
    RowPiece,
    constant,
    fixed_width,
    padded,
    put_together,
    varints,
)
from fencepost.converters.columnar.values import (
    bytes_of,
    check_text,
    counts_of,
    kept_items,
    numbers_of,
    whole_numbers,
    widened,
)
from fencepost.converters.render import UnsupportedTypeError, children, plain


@dataclass(frozen=True)
class AvroStep(ABC):
    """Writes the values of one Avro type."""

    @abstractmethod
    def pieces(self, values: pa.Array, rows: Array | None, place: str) -> list[RowPiece]:
        """Return the pieces of values.

        Nulls occur only in rows without a value. Raises UnsupportedTypeError, DataError.
        """


def encoded(
    step: AvroStep, values: pa.Array, rows: Array | None, place: str, before: Sequence[RowPiece] = ()
) -> Encoded:
    """Return values as rows of bytes, as the step writes them. Each row begins with the pieces `before`."""
    return put_together([*before, *step.pieces(plain(values), rows, place)], len(values))


@dataclass(frozen=True)
class WholeStep(AvroStep):
    """Writes values of Avro's types int and long.

    `per_second` is the number of units per second in which times are written; 0 for other numbers.
    """

    per_second: int = 0

    def pieces(self, values: pa.Array, rows: Array | None, place: str) -> list[RowPiece]:
        """Return whole numbers as zigzag varints."""
        return [varints(whole_numbers(values, self.per_second, place), rows)]


@dataclass(frozen=True)
class RealStep(AvroStep):
    """Writes values of Avro's types float and double; `width` is the number of bytes."""

    width: int

    def pieces(self, values: pa.Array, rows: Array | None, place: str) -> list[RowPiece]:
        """Return the numbers in IEEE 754, little-endian."""
        if not (pt.is_floating(values.type) or pt.is_integer(values.type)):
            raise UnsupportedTypeError(values.type, place)
        return [fixed_width(numbers_of(values).astype(f"<f{self.width}", copy=False), rows)]


@dataclass(frozen=True)
class TruthStep(AvroStep):
    """Writes values of Avro's type boolean."""

    def pieces(self, values: pa.Array, rows: Array | None, place: str) -> list[RowPiece]:
        """Return one byte for each value."""
        if not pt.is_boolean(values.type):
            raise UnsupportedTypeError(values.type, place)
        return [fixed_width(numbers_of(values).astype(np.uint8), rows)]


@dataclass(frozen=True)
class TextStep(AvroStep):
    """Writes values of Avro's type string."""

    def pieces(self, values: pa.Array, rows: Array | None, place: str) -> list[RowPiece]:
        """Return each text as its length and UTF-8.

        Raises DataError for bytes that are not UTF-8: Spark casts BINARY to STRING unchecked.
        """
        if not pt.is_string(values.type):
            raise UnsupportedTypeError(values.type, place)
        check_text(values)
        return _with_lengths(values, rows)


ANY_DIGITS: Final = 1_000_000
"""A number of digits that no decimal exceeds."""


def _check_digits(values: pa.Array, rows: Array | None, digits: int, place: str) -> None:
    """Raise DataError for a decimal with more digits than the schema says: readers would round it."""
    if digits >= values.type.precision:
        return
    given = values if rows is None else values.filter(pa.array(np.asarray(rows, bool)))
    try:
        given.cast(pa.decimal128(max(digits, values.type.scale, 1), values.type.scale))
    except pa.ArrowInvalid:
        raise DataError(
            f"{place or 'The record'} has a decimal of more than the {digits} digits that the schema allows: register a schema "
            "with a larger precision, or cast it"
        ) from None


@dataclass(frozen=True)
class BytesStep(AvroStep):
    """Writes values of Avro's type bytes.

    With `decimal`, decimals are written as their unscaled values. With `raw`, the length is left out, because the bytes
    are the whole key or value. `digits` is the precision of the schema's decimals: the highest number of digits.
    """

    decimal: bool = False
    raw: bool = False
    digits: int = ANY_DIGITS

    def pieces(self, values: pa.Array, rows: Array | None, place: str) -> list[RowPiece]:
        """Return the length and the bytes of each value."""
        if self.decimal and pt.is_decimal(values.type):
            _check_digits(values, rows, self.digits, place)
            values = unscaled_bytes(widened(values))
        if not pt.is_binary(values.type):
            raise UnsupportedTypeError(values.type, place)
        return [bytes_of(values, rows)] if self.raw else _with_lengths(values, rows)


@dataclass(frozen=True)
class FixedStep(AvroStep):
    """Writes values of Avro's type fixed: bytes of one length, or decimals in this number of bytes."""

    size: int
    decimal: bool = False
    digits: int = ANY_DIGITS

    def pieces(self, values: pa.Array, rows: Array | None, place: str) -> list[RowPiece]:
        """Return the bytes of each value. Raises DataError if a value has another length."""
        if self.decimal and pt.is_decimal(values.type):
            _check_digits(values, rows, self.digits, place)
            return [self._decimals(widened(values), rows, place)]
        if not pt.is_binary(values.type):
            raise UnsupportedTypeError(values.type, place)
        piece = bytes_of(values, rows)
        wrong = piece.lengths != self.size if rows is None else (piece.lengths != self.size) & rows
        if wrong.any():
            raise DataError(
                f"{place or 'The record'} has {int(piece.lengths[wrong][0])} bytes, and the schema has fixed bytes of {self.size}"
            )
        return [piece]

    def _decimals(self, values: pa.Array, rows: Array | None, place: str) -> RowPiece:
        width = values.type.byte_width
        raw = np.frombuffer(values.buffers()[1], np.uint8).reshape(-1, width)[values.offset :][: len(values), ::-1]
        sign = np.where(raw[:, :1] >= 128, 255, 0).astype(np.uint8)
        whole = np.concatenate([np.repeat(sign, max(0, self.size - width), axis=1), raw], axis=1)
        kept, dropped = whole[:, whole.shape[1] - self.size :], whole[:, : whole.shape[1] - self.size]
        lost = (dropped != sign).any(axis=1) | ((kept[:, :1] >= 128) != (sign >= 128)).ravel()
        if (lost if rows is None else lost & rows).any():
            raise DataError(
                f"{place or 'The record'} has a decimal that does not fit the {self.size} bytes of the schema"
            )
        source, _ = padded(np.ascontiguousarray(kept).ravel(), 0, kept.size)
        lengths = np.full(len(values), self.size, np.int64)
        return RowPiece.of(lengths if rows is None else lengths * rows, source, np.arange(len(values)) * self.size)


@dataclass(frozen=True)
class EnumStep(AvroStep):
    """Writes values of Avro's type enum."""

    symbols: tuple[str, ...]

    def pieces(self, values: pa.Array, rows: Array | None, place: str) -> list[RowPiece]:
        """Return the number of each symbol. Raises DataError for an unknown symbol."""
        if not pt.is_string(values.type):
            raise UnsupportedTypeError(values.type, place)
        found = pc.index_in(values, value_set=pa.array(self.symbols, pa.string()))
        missing = np.asarray(found.is_null()) if rows is None else np.asarray(found.is_null()) & rows
        if missing.any():
            text = values[int(np.flatnonzero(missing)[0])].as_py()
            raise DataError(f"{place or 'The record'} is {text!r}, which is not a symbol of the schema's enum")
        return [varints(np.asarray(found.fill_null(0)).astype(np.int64), rows)]


@dataclass(frozen=True)
class RequiredStep(AvroStep):
    """Writes values of a type that does not allow null."""

    inner: AvroStep

    def pieces(self, values: pa.Array, rows: Array | None, place: str) -> list[RowPiece]:
        """Return the pieces of the `inner` type. Raises DataError for a null."""
        if values.null_count:
            missing = np.asarray(values.is_null()) if rows is None else np.asarray(values.is_null()) & rows
            if missing.any():
                raise DataError(
                    f"The field {place or 'value'} is null, but its schema says that it never is: declare it nullable"
                )
        return self.inner.pieces(values, rows, place)


@dataclass(frozen=True)
class UnionStep(AvroStep):
    """Writes a union with one branch for values and one for nulls; `null_branch` is None if nulls are not allowed."""

    branch: int
    null_branch: int | None
    inner: AvroStep

    def pieces(self, values: pa.Array, rows: Array | None, place: str) -> list[RowPiece]:
        """Return the number of the branch, and the value."""
        if not values.null_count:
            return [constant(bytes([2 * self.branch]), len(values), rows), *self.inner.pieces(values, rows, place)]
        valid = np.asarray(values.is_valid())
        present = valid if rows is None else valid & rows
        if self.null_branch is None:
            RequiredStep(self.inner).pieces(values, rows, place)
        numbers = np.where(valid, self.branch, self.null_branch or 0).astype(np.int64)
        return [varints(numbers, rows), *self.inner.pieces(values, present, place)]


@dataclass(frozen=True)
class ConstantStep(AvroStep):
    """Writes the same bytes for each value: a default of the schema."""

    data: bytes

    def pieces(self, values: pa.Array, rows: Array | None, place: str) -> list[RowPiece]:  # noqa: ARG002
        """Return the constant bytes."""
        return [constant(self.data, len(values), rows)] if self.data else []


@dataclass(frozen=True)
class RecordStep(AvroStep):
    """Writes values of Avro's type record.

    For each Avro field, `fields` has the name of the field in the values (None: the Avro field is constant), and its
    step.
    """

    fields: tuple[tuple[str | None, AvroStep], ...]

    def pieces(self, values: pa.Array, rows: Array | None, place: str) -> list[RowPiece]:
        """Return the pieces of all fields."""
        if not pt.is_struct(values.type):
            raise UnsupportedTypeError(values.type, place)
        found: list[RowPiece] = []
        for name, step in self.fields:
            if name is None:
                found += step.pieces(values, rows, place)
                continue
            index = values.type.get_field_index(name)
            if index < 0:
                raise DataError(f"The record has no field {name!r}, which its schema has")
            found += step.pieces(plain(values.field(index)), rows, f"{place}.{name}" if place else name)
        return found


@dataclass(frozen=True)
class ArrayStep(AvroStep):
    """Writes values of Avro's type array."""

    inner: AvroStep

    def pieces(self, values: pa.Array, rows: Array | None, place: str) -> list[RowPiece]:
        """Return one block with all items, and then the empty block that ends the array."""
        if not pt.is_list(values.type):
            raise UnsupportedTypeError(values.type, place)
        offsets, (items,) = children(values, values.values)
        return _blocks(offsets, rows, lambda kept: [(self.inner, kept_items(items, kept), f"{place}[]")])


@dataclass(frozen=True)
class MapStep(AvroStep):
    """Writes values of Avro's type map, or arrays of entries. `keys` and `values` are the steps of keys and values."""

    keys: AvroStep
    values: AvroStep

    def pieces(self, values: pa.Array, rows: Array | None, place: str) -> list[RowPiece]:
        """Return blocks of entries, as ArrayStep does for items."""
        if not pt.is_map(values.type):
            raise UnsupportedTypeError(values.type, place)
        offsets, (keys, items) = children(values, values.keys, values.items)
        return _blocks(
            offsets,
            rows,
            lambda kept: [
                (self.keys, kept_items(keys, kept), f"{place}[key]"),
                (self.values, kept_items(items, kept), f"{place}[value]"),
            ],
        )


def _blocks(offsets: Array, rows: Array | None, parts: Any) -> list[RowPiece]:
    counts, kept = counts_of(offsets, rows)
    found = parts(kept)
    total = len(found[0][1])
    pieces = [piece for step, values, place in found for piece in step.pieces(plain(values), None, place)]
    items = put_together(pieces, total)
    edges = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=edges[1:])
    bounds = items.offsets[edges]
    some = counts > 0
    return [
        varints(counts, some),
        RowPiece.of(np.diff(bounds), items.data, bounds[:-1]),
        constant(b"\0", len(counts), rows),
    ]


def _with_lengths(values: pa.Array, rows: Array | None) -> list[RowPiece]:
    piece = bytes_of(values, rows)
    return [varints(piece.lengths, rows), piece]
