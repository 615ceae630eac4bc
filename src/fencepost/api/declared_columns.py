"""Finds columns by name: a plugin may return columns, and fields of structs, in another order than its schema."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

import pyarrow as pa
from pyspark.sql import types as t

from fencepost.api.errors import DataError
from fencepost.api.required_fields import is_list

_log: Final = logging.getLogger(__name__)


def in_declared_order(rows: pa.RecordBatch, columns: t.StructType, whose: str) -> pa.RecordBatch:
    """Return the declared columns of rows, with the declared fields in their structs, in the declared order.

    Values are unchanged. Columns and fields that are not declared are left out, with a warning the first time. `whose`
    names the plugin in messages. Raises DataError for a column or a field that is missing or occurs twice.
    """
    names = rows.schema.names
    extra = [name for name in names if name not in columns.names]
    found = [
        _in_order(rows.column(_place(names, field.name, field.name, whose)), field.dataType, field.name, whose, extra)
        for field in columns
    ]
    if extra:
        _warn_of_undeclared(whose, ", ".join(extra))
    return pa.RecordBatch.from_arrays(found, columns.names)


def fields_in_order(array: pa.Array, declared: t.DataType, name: str, whose: str) -> pa.Array:
    """Return a column with the fields of its structs in the order of a declared type.

    Raises the same errors as `in_declared_order`, and DataError for fields that are not declared.
    """
    extra: list[str] = []
    found = _in_order(array, declared, name, whose, extra)
    if extra:
        raise DataError(f"{whose} gives {name} with fields that are not in its schema: {', '.join(extra)}")
    return found


@lru_cache(maxsize=1_000)
def _warn_of_undeclared(whose: str, names: str) -> None:
    # On an executor, the warning appears once in each of the executor's Python processes.
    _log.warning(
        "%s gives columns or fields that its schema does not declare, and they are not written: %s. Declare them, or do "
        "not return them", whose, names,
    )  # fmt: skip


def _in_order(array: pa.Array, declared: t.DataType, name: str, whose: str, extra: list[str]) -> pa.Array:
    kind = _ordered(array.type, declared, name, whose, extra)
    return array if kind == array.type else array.cast(kind)


def _ordered(given: pa.DataType, declared: t.DataType, place: str, whose: str, extra: list[str]) -> pa.DataType:
    """The type with its fields in the declared order. Undeclared fields are added to `extra`.

    Moved fields become nullable, because otherwise Arrow cannot cast null structs.
    """
    if isinstance(declared, t.StructType) and pa.types.is_struct(given):
        names = [field.name for field in given]
        extra += [f"{place}.{name}" for name in names if name not in declared.names]
        fields = []
        for field in declared:
            inner = f"{place}.{field.name}"
            kind = given.field(_place(names, field.name, inner, whose)).type
            fields.append((field.name, _ordered(kind, field.dataType, inner, whose, extra)))
        return given if fields == [(field.name, field.type) for field in given] else pa.struct(fields)
    if isinstance(declared, t.ArrayType) and is_list(given):
        item = _ordered(given.value_type, declared.elementType, f"{place}[]", whose, extra)
        return given if item == given.value_type else pa.list_(item)
    if isinstance(declared, t.MapType) and pa.types.is_map(given):
        key = _ordered(given.key_type, declared.keyType, f"{place}[key]", whose, extra)
        item = _ordered(given.item_type, declared.valueType, f"{place}[value]", whose, extra)
        return given if (key, item) == (given.key_type, given.item_type) else pa.map_(key, item)
    return given


def _place(names: Sequence[str], name: str, path: str, whose: str) -> int:
    count = names.count(name)
    if count != 1:
        found = f"gives it {count} times" if count else f"gives only {', '.join(names) or 'nothing'} there"
        raise DataError(f"{whose} has {path} in its schema, but {found}. Give each column and field of the schema once")
    return names.index(name)
