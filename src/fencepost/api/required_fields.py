"""Handles structs with required fields, because Arrow's casts wrongly refuse the null fields of a null struct."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from fencepost.api.errors import DataError


def is_list(kind: pa.DataType) -> bool:
    """Return whether a type is any kind of list, whatever its offsets or size."""
    return any(test(kind) for test in (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list))


def with_schema(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return the table with its columns in the types of a schema, matched by position.

    Columns that already have their type are not cast: Arrow refuses to cast a null struct with a field that may not be
    null, even to the same type.
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
    """Raise DataError, with the first row and the place, for a null in a field, or nested field, that may not be null.

    The array has the field's type, except that its nested fields may differ in whether they are nullable.
    """
    if _place_of_null(array, field, place) is None:
        return
    ends = range(1, len(array) + 1)
    row = bisect_left(ends, True, key=lambda end: _place_of_null(array.slice(0, end), field, place) is not None)
    found = _place_of_null(array.slice(row, 1), field, place)
    raise DataError(f"The row {row}, counted from 0, has a null in {found}, which its schema declares NOT NULL")


def _place_of_null(array: pa.Array, field: pa.Field, place: str) -> str | None:
    # The values of a dictionary may contain a null that the array's own null count does not include.
    if not field.nullable and pc.is_null(array).true_count:
        return place
    found = (_place_of_null(*inner) for inner in _inner_fields(array, field.type, place))
    return next((inner for inner in found if inner is not None), None)


def _inner_fields(array: pa.Array, kind: pa.DataType, place: str) -> Iterator[tuple[pa.Array, pa.Field, str]]:
    if pa.types.is_struct(kind):
        # Fields of null structs are not checked.
        present = array.drop_null()
        for number, inner in enumerate(kind):
            yield present.field(number), inner, f"{place}.{inner.name}"
    elif is_list(kind):
        yield array.flatten(), kind.value_field, place
    elif pa.types.is_map(kind):
        # If the array is a slice, `flatten` skips the items outside of the slice only for lists. So a map is first
        # converted to a list of pairs.
        pairs = pa.struct([array.type.key_field, array.type.item_field])
        entries = relabelled(array, pa.list_(pairs)).flatten()
        yield entries.field(0), kind.key_field, place
        yield entries.field(1), kind.item_field, place


@dataclass(frozen=True, slots=True)
class _Labelled:
    """Lets `pa.array` read an array's buffers as an array of another type with the same layout."""

    array: pa.Array
    kind: pa.DataType

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]:
        del requested_schema
        return self.kind.__arrow_c_schema__(), self.array.__arrow_c_array__()[1]
