"""Structs with required fields: a null struct has no values, where Arrow's casts see nulls that may not be there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from fencepost.api.errors import DataError

_LISTS: Final = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)


def with_schema(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return the table in the types of a schema, by position.

    Columns that have their type are not cast: Arrow refuses to cast a null struct with a field that may not be null, even
    to the same type.
    """
    columns = [
        column if column.type == field.type else column.cast(field.type)
        for column, field in zip(table.columns, schema, strict=True)
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def relabelled(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return an array with another type of the same layout, without a cast."""
    return array if array.type == kind else pa.array(_Labelled(array, kind))


def check_required(array: pa.Array, field: pa.Field, place: str) -> None:
    """Raise DataError, with the place, for a null where a field, or one within it, may not be null.

    The array has the field's type, which may say otherwise what may be null.
    """
    # A dictionary may hold a null, which is not in the array's own count of them.
    if not field.nullable and pc.is_null(array).true_count:
        raise DataError(f"A row has a null in {place}, which its schema declares NOT NULL")
    kind = field.type
    if pa.types.is_struct(kind):
        # Fields of null structs say nothing.
        present = array.drop_null()
        for number, inner in enumerate(kind):
            check_required(present.field(number), inner, f"{place}.{inner.name}")
    elif any(is_list(kind) for is_list in _LISTS):
        check_required(array.flatten(), kind.value_field, place)
    elif pa.types.is_map(kind):
        # A map is a list of pairs; only lists give the items of a part alone.
        pairs = pa.struct([array.type.key_field, array.type.item_field])
        entries = relabelled(array, pa.list_(pairs)).flatten()
        check_required(entries.field(0), kind.key_field, place)
        check_required(entries.field(1), kind.item_field, place)


@dataclass(frozen=True, slots=True)
class _Labelled:
    """An array with another type of the same layout, for `pa.array`."""

    array: pa.Array
    kind: pa.DataType

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]:
        del requested_schema
        return self.kind.__arrow_c_schema__(), self.array.__arrow_c_array__()[1]
