"""Converts frames from source functions to Arrow tables: pyarrow, pandas, polars, and anything that exports Arrow.

An export follows the Arrow PyCapsule interface: https://arrow.apache.org/docs/format/CDataInterface/PyCapsuleInterface.html

Arrow data are not changed. In pandas a missing value is NaN, NaT, NA or None; each of these becomes null. A column of
dtype object must have values of one type: otherwise Arrow would turn texts into bytes, numbers into other numbers, and
datetimes into dates.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa

from fencepost.api.errors import DataError
from fencepost.api.plugin_calls import call_plugin, kind_of
from fencepost.api.required_fields import check_required, with_schema

_STREAM: Final = "__arrow_c_stream__"
_ARRAY: Final = "__arrow_c_array__"
# The extension types whose storage is the value itself. Other extension types store something else: for example, pandas
# stores periods as numbers.
_PLAIN_EXTENSIONS: Final = frozenset({"arrow.json", "arrow.uuid"})
# A column of dtype object needs no further check if all of its values have the same type, and that is one of these.
# Most such columns contain texts.
_SIMPLE: Final = (str, bytes, bool, int, Decimal)
_MISSING: Final = frozenset({"NoneType", "NaTType", "NAType"})
# In a column of dtype object, Arrow keeps only the microseconds of a Timestamp.
_NANOSECONDS: Final = "Timestamp with nanoseconds"
# How a nested type is constructed from its fields.
_NESTED: Final[tuple[tuple[Callable[[Any], bool], Callable[[Any, list[pa.Field]], pa.DataType]], ...]] = (
    (pa.types.is_struct, lambda _, fields: pa.struct(fields)),
    (pa.types.is_list, lambda _, fields: pa.list_(*fields)),
    (pa.types.is_large_list, lambda _, fields: pa.large_list(*fields)),
    (pa.types.is_fixed_size_list, lambda kind, fields: pa.list_(*fields, kind.list_size)),
    (pa.types.is_map, lambda _, fields: pa.map_(*(field.type for field in fields[0].type))),
)


def is_frame(value: object) -> bool:
    """Return whether a value that a function yields is a frame and not a row."""
    kind = type(value)
    return hasattr(kind, _STREAM) or hasattr(kind, _ARRAY) or _is_pandas(value)


def as_table(frame: Any, where: str) -> pa.Table:
    """Return a frame as a table whose columns have one chunk each.

    `where` names the frame in error messages. Raises DataError, naming the column, for types that Arrow cannot
    represent, and for values that a conversion would change.
    """
    table = _of_pandas(frame, where) if _is_pandas(frame) else _exported(frame, where)
    for field in table.schema:
        _check_extensions(field.type, field.name, where, nested=False)
    if table.num_rows and not table.num_columns:
        raise DataError(f"There are rows without any column in {where}: yield a frame with columns")
    # Arrow cannot select rows from columns of string views.
    schema = pa.schema([field.with_type(_without_views(field.type)) for field in table.schema])
    made = with_schema(table, schema).combine_chunks()
    try:
        for field, column in zip(table.schema, made.columns, strict=True):
            for chunk in column.chunks:
                check_required(chunk, field, field.name)
    except DataError as error:
        raise DataError(
            f"There is a null in {where} where its schema says that there is none: {error}. Make the field nullable, or "
            "give it a value"
        ) from error
    return made


def _is_pandas(value: object) -> bool:
    # A value can only be a frame of pandas if pandas was imported.
    pandas = sys.modules.get("pandas")
    return pandas is not None and isinstance(value, getattr(pandas, "DataFrame", ()))


def _exported(frame: Any, where: str) -> pa.Table:
    # Polars exports Python objects as the bytes of their memory addresses.
    schema = getattr(frame, "schema", None)
    if type(frame).__module__.startswith("polars.") and isinstance(schema, Mapping):
        for name, kind in schema.items():
            if str(kind) == "Object":
                raise DataError(f"The column {name} of {where} is of the type Object: give it a type, or leave it out")
    try:
        return call_plugin(f"The export of {where}", pa.table, frame)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise DataError(
            f"Arrow takes no table from {where}, which is {kind_of(frame)}: {error}. Yield a table or a data frame, with "
            "columns of types that Arrow has"
        ) from error


def _of_pandas(frame: Any, where: str) -> pa.Table:
    for name in frame.columns:
        if not isinstance(name, str):
            raise DataError(f"A column of {where} has the name {name!r}, which is {kind_of(name)}: give it a text")
    named = [name for name in frame.index.names if name is not None]
    if twice := next((name for name in named if name in frame.columns or named.count(name) > 1), None):
        raise DataError(
            f"The column {twice} is twice in {where}, as a level of the index: give each a name of its own, or drop the "
            "index with frame.reset_index(drop=True)"
        )
    if named:
        # An index with a name is data; an index without a name only counts the rows.
        frame = frame.reset_index(level=named) if len(named) < frame.index.nlevels else frame.reset_index()
    if not frame.columns.is_unique:
        twice = frame.columns[frame.columns.duplicated()][0]
        raise DataError(f"The column {twice} is twice in {where}: give each column a name of its own")
    for name in frame.columns:
        if frame[name].dtype == object:
            _check_objects(frame[name].to_numpy(), name, where)
    try:
        return pa.Table.from_pandas(frame, preserve_index=False)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        reason = ": ".join(map(str, reversed(error.args)))
        raise DataError(
            f"Arrow has no form for a column of {where}: {reason}. Make it another type, such as a text or a number"
        ) from error


def _check_objects(column: Iterable[Any], name: str, where: str) -> None:
    if len(set(map(type, column)) - {type(None)}) == 1 and isinstance(next(iter(column)), _SIMPLE):
        return
    kinds: defaultdict[str, set[str]] = defaultdict(set)
    for value in column:
        for place, kind in _types_in(value, name):
            kinds[place].add(kind)
    for place, found in kinds.items():
        if _NANOSECONDS in found:
            raise DataError(
                f"The column {place} of {where} has values of dtype object with nanoseconds, which would be cut off: give "
                "value.floor('us') of each"
            )
        if len(found) > 1:
            raise DataError(
                f"The column {place} of {where} has values of several types: {', '.join(sorted(found))}. Make them one type, "
                f"for example with frame[{name!r}].astype(str), or leave it out"
            )


def _types_in(value: Any, place: str) -> Iterator[tuple[str, str]]:
    """Yield the types in a value, each with the path to it. Missing values have no type."""
    kind = type(value)
    if kind is str:
        yield place, "str"
    elif isinstance(value, Mapping):
        yield place, "dict"
        for name, member in value.items():
            yield from _types_in(member, f"{place}.{name}")
    elif isinstance(value, list | tuple | set | frozenset) or kind.__name__ == "ndarray":
        yield place, "list"
        for item in value:
            yield from _types_in(item, f"{place}[]")
    elif isinstance(value, datetime) and kind.__name__ not in _MISSING:
        if getattr(value, "nanosecond", 0):
            yield place, _NANOSECONDS
        yield place, f"{kind.__name__} {'without' if value.tzinfo is None else 'with'} a time zone"
    # Only NaN differs from itself, and it counts as missing.
    elif kind.__name__ not in _MISSING and value == value:  # noqa: PLR0124 - see above
        yield place, kind.__name__


def _without_views(kind: pa.DataType) -> pa.DataType:
    """Return a type with strings in place of string views, and binary data in place of binary views.

    All fields become nullable, so that a cast does not refuse null structs.
    """
    if pa.types.is_string_view(kind):
        return pa.large_string()
    if pa.types.is_binary_view(kind):
        return pa.large_binary()
    if pa.types.is_dictionary(kind):
        return pa.dictionary(kind.index_type, _without_views(kind.value_type), kind.ordered)
    given = [kind.field(number) for number in range(kind.num_fields)]
    inner = [field.with_type(_without_views(field.type)).with_nullable(True) for field in given]
    for nested, make in _NESTED:
        if nested(kind):
            return make(kind, inner)
    return kind


def _check_extensions(kind: pa.DataType, place: str, where: str, *, nested: bool) -> None:
    if isinstance(kind, pa.BaseExtensionType):
        if kind.extension_name not in _PLAIN_EXTENSIONS or nested:
            raise DataError(
                f"The column {place} of {where} is of the extension type {kind.extension_name}, which has no form in Kafka "
                "Connect's data: give its values in a type of Arrow's own, such as a text or a number"
            )
        return
    if pa.types.is_dictionary(kind):
        _check_extensions(kind.value_type, place, where, nested=True)
    for number in range(kind.num_fields):
        inner = kind.field(number)
        _check_extensions(inner.type, f"{place}.{inner.name}", where, nested=True)
