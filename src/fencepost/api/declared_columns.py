"""Columns by their names: a plugin may give them, and the fields of structs, in another order than its schema has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa
from pyspark.sql import types as t

from fencepost.api.errors import DataError

_LISTS: Final = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)


def in_declared_order(rows: pa.RecordBatch, columns: t.StructType, whose: str) -> pa.RecordBatch:
    """Return the declared columns of rows, and the declared fields of structs in them, in the declared order.

    Values are unchanged; columns and fields that are not declared are left out. `whose` names the plugin in messages.
    Raises DataError for a column or a field that is missing, or there twice.
    """
    given = [rows.column(_place(rows.schema.names, field.name, field.name, whose)) for field in columns]
    return pa.RecordBatch.from_arrays(
        [
            fields_in_order(array, field.dataType, field.name, whose)
            for array, field in zip(given, columns, strict=True)
        ],
        columns.names,
    )


def fields_in_order(array: pa.Array, declared: t.DataType, name: str, whose: str, *, exact: bool = False) -> pa.Array:
    """Return a column whose structs have the fields of a declared type, in its order.

    Raises as `in_declared_order`, and with `exact` for fields that are not declared.
    """
    kind = _ordered(array.type, declared, name, whose, exact=exact)
    return array if kind == array.type else array.cast(kind)


def _ordered(given: pa.DataType, declared: t.DataType, place: str, whose: str, *, exact: bool) -> pa.DataType:
    """The type with its fields in order. Moved fields may be null: Arrow casts no null struct otherwise."""
    if isinstance(declared, t.StructType) and pa.types.is_struct(given):
        names = [field.name for field in given]
        extra = [name for name in names if name not in declared.names]
        if exact and extra:
            raise DataError(f"{whose} gives {place} with fields that are not in its schema: {', '.join(extra)}")
        fields = []
        for field in declared:
            inner = f"{place}.{field.name}"
            kind = given.field(_place(names, field.name, inner, whose)).type
            fields.append((field.name, _ordered(kind, field.dataType, inner, whose, exact=exact)))
        return given if fields == [(field.name, field.type) for field in given] else pa.struct(fields)
    if isinstance(declared, t.ArrayType) and any(is_list(given) for is_list in _LISTS):
        item = _ordered(given.value_type, declared.elementType, f"{place}[]", whose, exact=exact)
        return given if item == given.value_type else pa.list_(item)
    if isinstance(declared, t.MapType) and pa.types.is_map(given):
        key = _ordered(given.key_type, declared.keyType, f"{place}[key]", whose, exact=exact)
        item = _ordered(given.item_type, declared.valueType, f"{place}[value]", whose, exact=exact)
        return given if (key, item) == (given.key_type, given.item_type) else pa.map_(key, item)
    return given


def _place(names: Sequence[str], name: str, path: str, whose: str) -> int:
    count = names.count(name)
    if count != 1:
        found = f"gives it {count} times" if count else f"gives only {', '.join(names) or 'nothing'} there"
        raise DataError(f"{whose} has {path} in its schema, but {found}. Give each column and field of the schema once")
    return names.index(name)
