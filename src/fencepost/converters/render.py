"""Writes each value of an Arrow array of any nesting as text, a column at a time.

A Renderer is one text format. It defines how scalars, structs, lists and maps are written. All formats share the walk
through the array, the handling of sliced and encoded arrays, and the errors. A format depends only on Arrow types: each
Spark type has one Arrow type, and so have schemaless values.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from fencepost.api.errors import DataError
from fencepost.converters.text import Text, join_lists, valid_only

_BYTES_IN_ONE_GO = 64 * 1024 * 1024
"""The largest size of a slice, far below 2 GiB, because escaping can make a text six times as long."""

_UNITS_PER_MILLISECOND = {"us": 1_000, "ns": 1_000_000}

_SIMPLER: tuple[tuple[Callable[[Any], bool], Callable[[Any], Any]], ...] = (
    (pt.is_large_string, lambda _: pa.string()),
    (pt.is_string_view, lambda _: pa.string()),
    (pt.is_large_binary, lambda _: pa.binary()),
    (pt.is_binary_view, lambda _: pa.binary()),
    (pt.is_fixed_size_binary, lambda _: pa.binary()),
    (pt.is_large_list, lambda kind: pa.list_(kind.value_type)),
    (pt.is_fixed_size_list, lambda kind: pa.list_(kind.value_type)),
    (pt.is_list_view, lambda kind: pa.list_(kind.value_type)),
    (pt.is_large_list_view, lambda kind: pa.list_(kind.value_type)),
    (pt.is_float16, lambda _: pa.float32()),
    (pt.is_date64, lambda _: pa.date32()),
)

_PLAIN = frozenset(
    kind.id
    for kind in (
        pa.string(), pa.binary(), pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64(),
        pa.date32(), pa.timestamp("us"), pa.decimal128(1), pa.struct([]), pa.list_(pa.null()), pa.null(),
    )
)  # fmt: skip


class UnsupportedTypeError(DataError):
    """An Arrow type that the format cannot write. `path` is the column's place in the record."""

    def __init__(self, kind: Any, path: str) -> None:
        super().__init__(f"no form for the type {kind} of {path or 'the record'}")
        self.kind = kind
        self.path = path

    def __reduce__(self) -> tuple[type[UnsupportedTypeError], tuple[Any, str]]:
        return type(self), (self.kind, self.path)


@dataclass(frozen=True)
class Renderer(ABC):
    """A text format. Nulls stay null in the texts, until an enclosing structure writes them as `null`."""

    LIST: ClassVar[tuple[str, str, str]] = ("[", ",", "]")

    def render(self, values: pa.Array, path: str = "") -> Text:
        """Return the texts of a column. `path` is the column's place in the record. Raises UnsupportedTypeError."""
        values = plain(values)
        kind = values.type
        write = _writer(kind)
        if write is None:
            raise UnsupportedTypeError(kind, path)
        return write(self, values, path)

    @abstractmethod
    def string(self, values: pa.Array) -> Text:
        """Write a `string` array."""

    @abstractmethod
    def floating(self, values: pa.Array) -> Text:
        """Write a float or double array."""

    @abstractmethod
    def binary(self, values: pa.Array) -> Text:
        """Write a `binary` array."""

    @abstractmethod
    def decimal(self, values: pa.Array) -> Text:
        """Write a decimal array."""

    @abstractmethod
    def date(self, values: pa.Array) -> Text:
        """Write a date32 array."""

    @abstractmethod
    def timestamp(self, millis: pa.Array) -> Text:
        """Write times, given as int64 milliseconds since the epoch."""

    @abstractmethod
    def time(self, millis: pa.Array) -> Text:
        """Write times of day, given as int64 milliseconds since midnight."""

    @abstractmethod
    def struct(self, values: pa.Array, path: str) -> pa.Array:
        """Write structs. The results for null structs do not matter."""

    @abstractmethod
    def map(self, keys: Text, values: Text, *, string_keys: bool) -> tuple[pa.Array, tuple[str, str, str]]:
        """Write the entries of maps. Return their texts, and the texts that begin, separate and end a map's entries."""

    def structs(self, values: pa.Array, path: str) -> Text:
        """Write a struct array."""
        if values.null_count == len(values):
            return Text(pa.nulls(len(values), pa.string()))
        return Text(valid_only(self.struct(values, path), values))

    def fields(self, values: pa.Array, path: str) -> list[tuple[str, Text]]:
        """Return the name and the texts of each field of structs."""
        return [(name, self.render(field, place)) for name, field, place in fields_of(values, path)]

    def lists(self, values: pa.Array, path: str) -> Text:
        """Write a list array."""
        offsets, (items,) = children(values, values.values)
        texts = self.render(items, f"{path}[]").column()
        return _joined(values, offsets, texts, self.LIST)

    def maps(self, values: pa.Array, path: str) -> Text:
        """Write a map array."""
        offsets, (keys, items) = children(values, values.keys, values.items)
        entries, around = self.map(
            self.render(keys, f"{path}[key]"),
            self.render(items, f"{path}[value]"),
            string_keys=pt.is_string(plain(keys).type),
        )
        return _joined(values, offsets, entries, around)


_Write = Callable[[Renderer, pa.Array, str], Text]


def _leaf(write: Callable[[Renderer, pa.Array], Text]) -> _Write:
    return lambda renderer, values, _path: write(renderer, values)


_WRITERS: tuple[tuple[Callable[[Any], bool], _Write], ...] = (
    (pt.is_string, _leaf(lambda renderer, values: renderer.string(values))),
    (
        lambda kind: pt.is_integer(kind) or pt.is_boolean(kind),
        _leaf(lambda _, values: Text(values.cast(pa.string()))),
    ),
    (pt.is_floating, _leaf(lambda renderer, values: renderer.floating(values))),
    (pt.is_binary, _leaf(lambda renderer, values: renderer.binary(values))),
    (pt.is_decimal, _leaf(lambda renderer, values: renderer.decimal(values))),
    (pt.is_date, _leaf(lambda renderer, values: renderer.date(values))),
    (pt.is_timestamp, _leaf(lambda renderer, values: renderer.timestamp(milliseconds(values)))),
    (pt.is_time, _leaf(lambda renderer, values: renderer.time(milliseconds(values)))),
    (pt.is_struct, lambda renderer, values, path: renderer.structs(values, path)),
    (pt.is_map, lambda renderer, values, path: renderer.maps(values, path)),
    (pt.is_list, lambda renderer, values, path: renderer.lists(values, path)),
    (pt.is_null, _leaf(lambda _, values: Text(pa.nulls(len(values), pa.string())))),
    (lambda kind: isinstance(kind, pa.JsonType), _leaf(lambda _, values: Text(values.storage.cast(pa.string())))),
)
_FOUND: dict[int, _Write | None] = {}
"""The writer of each type, by the type's number.

Without this cache, finding the writer would take longer than writing a few rows.
"""


def _writer(kind: Any) -> _Write | None:
    if isinstance(kind, pa.BaseExtensionType):
        return next((write for matches, write in _WRITERS if matches(kind)), None)
    if kind.id not in _FOUND:
        _FOUND[kind.id] = next((write for matches, write in _WRITERS if matches(kind)), None)
    return _FOUND[kind.id]


def fields_of(values: pa.Array, path: str) -> Iterator[tuple[str, pa.Array, str]]:
    """Yield the name, the values and the path of each field of structs."""
    for index, field in enumerate(values.type):
        yield field.name, values.field(index), f"{path}.{field.name}" if path else field.name


def plain(values: pa.Array) -> pa.Array:
    """Return the same values in the simplest Arrow type: no dictionary, view or large type, no half precision.

    Raises `pa.ArrowCapacityError` or `pa.ArrowInvalid` if 32-bit offsets do not suffice.
    """
    if values.type.id in _PLAIN:
        return values
    if pt.is_dictionary(values.type):
        values = values.dictionary_decode()
    for matches, simpler in _SIMPLER:
        if matches(values.type):
            return values.cast(simpler(values.type))
    return values


def milliseconds(values: pa.Array) -> pa.Array:
    """Return timestamps or times of day as int64 milliseconds, always rounded down, even before the epoch."""
    unit = values.type.unit
    storage = pa.int32() if pt.is_time32(values.type) else pa.int64()
    numbers = values.view(storage).cast(pa.int64())
    if unit == "s":
        return pc.multiply_checked(numbers, 1000)
    if unit == "ms":
        return numbers
    filled = numbers.fill_null(0) if numbers.null_count else numbers
    nulls = values.is_null().to_numpy(zero_copy_only=False) if values.null_count else None
    return pa.array(np.floor_divide(filled.to_numpy(), _UNITS_PER_MILLISECOND[unit]), mask=nulls)


def in_slices(values: pa.Array, row_overhead: int, convert: Callable[[pa.Array], pa.Array]) -> pa.Array:
    """Apply `convert` to slices that are small enough for 32-bit offsets. `convert` returns `binary` with as many rows.

    `row_overhead` is the length of a row's text beyond its value, in bytes. The result is `large_binary` if there was
    more than one slice.
    """
    rows = len(values)
    size = _size(values) + rows * row_overhead
    if size > _BYTES_IN_ONE_GO:
        step = max(1, rows * _BYTES_IN_ONE_GO // size)
        slices = [values.slice(start, step) for start in range(0, rows, step)]
        return pa.concat_arrays([_halved(part, convert).cast(pa.large_binary()) for part in slices])
    return _halved(values, convert)


def _size(values: pa.Array) -> int:
    try:
        return int(values.nbytes)
    except pa.ArrowTypeError:
        # Some versions of Arrow cannot tell which bytes of a view a slice uses. The size of all bytes is an upper
        # bound.
        return int(values.get_total_buffer_size())


def _halved(values: pa.Array, convert: Callable[[pa.Array], pa.Array]) -> pa.Array:
    try:
        return convert(values)
    except pa.ArrowCapacityError:
        if len(values) < 2:
            raise
    middle = len(values) // 2
    halves = (values.slice(0, middle), values.slice(middle))
    return pa.concat_arrays([_halved(half, convert).cast(pa.large_binary()) for half in halves])


def children(values: pa.Array, *children: pa.Array) -> tuple[np.ndarray[Any, Any], list[pa.Array]]:
    """Return the offsets of a list array, starting with 0, and the parts of its children that the offsets span."""
    offsets = values.offsets.to_numpy()
    start, end = int(offsets[0]), int(offsets[-1])
    return offsets - start, [child.slice(start, end - start) for child in children]


def _joined(values: pa.Array, offsets: np.ndarray[Any, Any], texts: pa.Array, around: tuple[str, str, str]) -> Text:
    before, between, after = around
    filled = texts.fill_null("null") if texts.null_count else texts
    nulls = values.is_null() if values.null_count else None
    return Text(join_lists(offsets, filled, between, nulls), before, after)
