"""Converts a plugin's rows to its schema, in the Arrow types that converters, Spark and Arrow plans expect."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final

import pyarrow as pa
from pyspark.errors import PySparkTypeError
from pyspark.sql import types as t
from pyspark.sql.pandas.types import to_arrow_type

from fencepost.api.errors import ConfigError, DataError
from fencepost.api.required_fields import check_required, is_list


def fitted(rows: pa.RecordBatch, columns: t.StructType, whose: str, *, nested: bool = True) -> pa.RecordBatch:
    """Return rows in which each column has the Arrow type that Spark uses for it, and all values may be null.

    The given rows have these columns in this order. Columns that already have these types are not copied. `whose` names
    the plugin in messages. Raises DataError for columns of unsuitable types, for values that a cast would change, and
    for nulls that the schema does not allow, including nulls within structs if `nested`.
    """
    found = [
        fitted_column(array, field, whose, nested=nested) for array, field in zip(rows.columns, columns, strict=True)
    ]
    return pa.RecordBatch.from_arrays(found, columns.names)


def fitted_column(array: pa.Array, column: t.StructField, whose: str, *, nested: bool = True) -> pa.Array:
    """Return a column in the Arrow type that Spark uses for it. Raises the same errors as `fitted`."""
    if not _fits(array.type, column.dataType):
        raise _unfit(array, column, whose)
    wanted = arrow_type(bare(column.dataType))
    try:
        found = array if array.type == wanted else array.cast(wanted)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise _unfit(array, column, whose, f": {error}") from error
    try:
        kind = arrow_type(column.dataType) if nested else wanted
        check_required(found, pa.field(column.name, kind, column.nullable), column.name)
    except DataError as error:
        raise DataError(f"{whose} gives rows that its schema does not allow: {error}") from error
    return found


def arrow_type(kind: t.DataType) -> pa.DataType:
    """Return the type of Arrow arrays that contain values of a Spark type."""
    return to_arrow_type(kind, error_on_duplicated_field_names_in_struct=True, timezone="UTC")


def check_columns(kind: t.DataType, where: str) -> None:
    """Raise ConfigError for types that arrays cannot have, and for a struct with two fields of one name.

    `where` names the schema.
    """
    if (name := _name_twice(kind)) is not None:
        raise ConfigError(f"{where} has the field {name} twice: give each field a name of its own")
    try:
        arrow_type(kind)
    except PySparkTypeError as error:
        raise ConfigError(f"{where} has a type that rows cannot have: write STRING for CHAR and VARCHAR") from error


def _name_twice(kind: t.DataType, path: str = "") -> str | None:
    """Return the path of the first field that shares its name with another field of its struct, or None."""
    inner: list[tuple[str, t.DataType]] = []
    if isinstance(kind, t.StructType):
        inner = [(f"{path}.{field.name}" if path else field.name, field.dataType) for field in kind.fields]
        if twice := next((name for name, count in Counter(name for name, _ in inner).items() if count > 1), None):
            return twice
    elif isinstance(kind, t.ArrayType):
        inner = [(f"{path}[]", kind.elementType)]
    elif isinstance(kind, t.MapType):
        inner = [(f"{path}[key]", kind.keyType), (f"{path}[value]", kind.valueType)]
    return next((found for name, part in inner if (found := _name_twice(part, name)) is not None), None)


def bare(kind: t.DataType) -> t.DataType:
    """Return the type without the metadata of its fields, and with all values nullable."""
    if isinstance(kind, t.StructType):
        return t.StructType([t.StructField(field.name, bare(field.dataType)) for field in kind.fields])
    if isinstance(kind, t.ArrayType):
        return t.ArrayType(bare(kind.elementType))
    if isinstance(kind, t.MapType):
        return t.MapType(bare(kind.keyType), bare(kind.valueType))
    return kind


def _unfit(array: pa.Array, column: t.StructField, whose: str, reason: str = "") -> DataError:
    return DataError(
        f"{whose} gives the column {column.name} as {array.type}, which does not fit {column.dataType.simpleString()} in its "
        f"schema{reason}"
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
    # A cast is safe: Arrow refuses to cast fractions to whole numbers, and to cast whole numbers that a float cannot
    # represent.
    ((t.ByteType, t.ShortType, t.IntegerType, t.LongType), (pa.types.is_integer, pa.types.is_floating)),
    (t.FloatType, (pa.types.is_float16, pa.types.is_float32, pa.types.is_integer)),
    (t.DoubleType, (pa.types.is_floating, pa.types.is_integer)),
    (t.DecimalType, (pa.types.is_decimal,)),
    (t.DateType, (pa.types.is_date,)),
    ((t.TimestampType, t.TimestampNTZType), (pa.types.is_timestamp,)),
)
"""For each Spark type, the Arrow types that may be cast to it: Arrow keeps each value, or refuses the cast."""


def _fits(given: pa.DataType, declared: t.DataType) -> bool:
    """Whether Arrow's cast of the given type keeps each value or raises an error.

    The result is False for other casts that Arrow allows: from texts to numbers, and from DOUBLE to FLOAT, which
    rounds.
    """
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
        return is_list(given) and _fits(given.value_type, declared.elementType)
    if isinstance(declared, t.MapType):
        is_map = pa.types.is_map(given)
        return is_map and _fits(given.key_type, declared.keyType) and _fits(given.item_type, declared.valueType)
    kept = next((tests for kinds, tests in _KEEP if isinstance(declared, kinds)), None)
    return bool(given == arrow_type(declared) if kept is None else any(test(given) for test in kept))
