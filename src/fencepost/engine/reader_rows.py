"""Rows of a reader in the types that its schema declares, as converters, Spark and plans of Arrow take them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import pyarrow as pa
from pyspark.sql import types as t

from fencepost.api.errors import DataError
from fencepost.api.required_fields import check_required
from fencepost.engine.arrow_expressions import arrow_type, bare
from fencepost.engine.batch_columns import as_declared


def fitted(rows: pa.RecordBatch, columns: t.StructType) -> pa.RecordBatch:
    """Return rows, which have these columns in their order, with Spark's types for them, in which all may be null.

    Columns that have these types are not copied. Raises DataError for columns of other types, for values that a cast would
    change, and for nulls where the schema has none.
    """
    found = [_typed(array, field) for array, field in zip(rows.columns, columns, strict=True)]
    for array, field in zip(found, columns, strict=True):
        check_required(array, pa.field(field.name, arrow_type(field.dataType), field.nullable), field.name)
    return pa.RecordBatch.from_arrays(found, columns.names)


def _typed(array: pa.Array, column: t.StructField) -> pa.Array:
    if not _fits(array.type, column.dataType):
        raise _unfit(array, column)
    free = bare(column.dataType)
    free_rows = as_declared(pa.RecordBatch.from_pydict({column.name: array}), {column.name: free})
    array, wanted = free_rows[column.name], arrow_type(free)
    if array.type == wanted:
        return array
    try:
        return array.cast(wanted)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise _unfit(array, column, f": {error}") from error


def _unfit(array: pa.Array, column: t.StructField, reason: str = "") -> DataError:
    return DataError(
        f"A reader gives the column {column.name} as {array.type}, which does not fit {column.dataType.simpleString()} in "
        f"its schema{reason}"
    )


_TEXTS: Final = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
_BYTES: Final = (
    pa.types.is_binary,
    pa.types.is_large_binary,
    pa.types.is_binary_view,
    pa.types.is_fixed_size_binary,
)
_KEEP: Final[
    Sequence[tuple[type[t.DataType] | tuple[type[t.DataType], ...], Sequence[Callable[[pa.DataType], bool]]]]
] = (
    (t.StringType, _TEXTS),
    (t.BinaryType, _BYTES),
    ((t.ByteType, t.ShortType, t.IntegerType, t.LongType), (pa.types.is_signed_integer,)),
    (t.FloatType, (pa.types.is_float16, pa.types.is_float32)),
    (t.DoubleType, (pa.types.is_floating,)),
    (t.DecimalType, (pa.types.is_decimal,)),
    (t.DateType, (pa.types.is_date,)),
    ((t.TimestampType, t.TimestampNTZType), (pa.types.is_timestamp,)),
)
"""Types of arrays whose values a type of Spark can hold: a cast keeps them, or is refused."""


def _fits(given: pa.DataType, declared: t.DataType) -> bool:
    """Whether a cast keeps all values: Arrow's own reads texts as numbers, and rounds DOUBLE to FLOAT."""
    if pa.types.is_null(given):
        return True
    if pa.types.is_dictionary(given):
        return _fits(given.value_type, declared)
    if isinstance(declared, t.StructType):
        kinds = [field.type for field in given] if pa.types.is_struct(given) else []
        return len(kinds) == len(declared) and all(
            _fits(kind, field.dataType) for kind, field in zip(kinds, declared, strict=True)
        )
    if isinstance(declared, t.ArrayType):
        is_list = pa.types.is_list(given) or pa.types.is_large_list(given)
        return is_list and _fits(given.value_type, declared.elementType)
    if isinstance(declared, t.MapType):
        is_map = pa.types.is_map(given)
        return is_map and _fits(given.key_type, declared.keyType) and _fits(given.item_type, declared.valueType)
    kept = next((tests for kinds, tests in _KEEP if isinstance(declared, kinds)), None)
    return bool(given == arrow_type(declared) if kept is None else any(test(given) for test in kept))
