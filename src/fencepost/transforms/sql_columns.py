"""Turns the results of expressions into columns of records, with the types that the rest of the pipeline expects."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - as everywhere in Spark's own documentation
from pyspark.sql import types as t

from fencepost.api.errors import DataError
from fencepost.api.schema_name import NULLS_METADATA, SCHEMA_METADATA
from fencepost.transforms.base import text
from fencepost.transforms.sql_parser import SqlProperty
from fencepost.transforms.timestamp_converter import utc_millis


def fitted_column(
    given: SqlProperty, column: Column, found: t.StructField, before: t.StructField, schema_name: str | None
) -> Column:
    """Return the result of a property's expression as a column of records.

    `found` has the column's name and the result's type. `before` is the column that is replaced.

    Raises DataError for a type that the column cannot have.
    """
    plugin, name, kind = given.plugin, found.name, found.dataType
    match name:
        case "topic":
            return F.coalesce(column.cast("STRING"), F.col("topic")).alias(name)
        case "partition":
            return _whole(plugin, name, column, kind).cast("INT").alias(name)
        case "timestamp":
            if isinstance(kind, t.TimestampType | t.TimestampNTZType):
                column = utc_millis(column, kind)
            return _whole(plugin, name, column, kind).cast("BIGINT").alias(name)
        case "headers":
            return _headers(column, kind, before.dataType).alias(name)
    metadata = {key: value for key, value in (before.metadata or {}).items() if key == NULLS_METADATA}
    if name == "value" and schema_name:
        metadata[SCHEMA_METADATA] = {"name": schema_name}
        if not isinstance(kind, t.StructType):
            raise DataError(
                f"{plugin} cannot name the schema {schema_name}, because the value is of type {kind.simpleString()}: only "
                "structs have names. Remove schema.name"
            )
    void = None if isinstance(kind, t.NullType) else _void_path(kind, name)
    if void is not None and _void_path(before.dataType, name) is None:
        raise DataError(
            f"{plugin} makes {void} a null without a type in {given.name}, so its type would change with the data: write "
            "CAST(NULL AS STRING), or cast what is null there to the type that you want",
            name=given.given,
        )
    if (twice := _field_twice(kind)) and twice != _field_twice(before.dataType):
        raise DataError(
            f"{plugin} gives {name} the field {twice} twice, of which readers would see one: give each field a name of its own"
        )
    return column.alias(name, metadata=metadata)


def _whole(plugin: str, name: str, column: Column, kind: t.DataType) -> Column:
    """Refuse numbers with a fraction, because a cast would cut the fraction off."""
    if isinstance(kind, t.FloatType | t.DoubleType):
        fraction = F.isnan(column) | (F.rint(column) != column)
    elif isinstance(kind, t.DecimalType) and kind.scale > 0:
        fraction = F.floor(column) != column
    else:
        return column
    unit = "milliseconds" if name == "timestamp" else "the number of a partition"
    reason = F.concat(
        F.lit(f"{plugin} gives {name} "),
        column.cast("STRING"),
        F.lit(f", but {unit} must be whole: use floor() or round()"),
    )
    return F.when(fraction, F.raise_error(reason).cast(kind)).otherwise(column)


def _field_twice(kind: t.DataType) -> str | None:
    inner: list[t.DataType] = []
    if isinstance(kind, t.StructType):
        if twice := next((name for name in kind.names if kind.names.count(name) > 1), None):
            return twice
        inner = [field.dataType for field in kind.fields]
    elif isinstance(kind, t.ArrayType):
        inner = [kind.elementType]
    elif isinstance(kind, t.MapType):
        inner = [kind.keyType, kind.valueType]
    return next(filter(None, map(_field_twice, inner)), None)


def _void_path(kind: t.DataType, path: str) -> str | None:
    """Return the path of the first void part of a type, a null without a type; None if no part is void."""
    if isinstance(kind, t.StructType):
        return next(filter(None, (_void_path(field.dataType, f"{path}.{field.name}") for field in kind.fields)), None)
    if isinstance(kind, t.ArrayType):
        return _void_path(kind.elementType, f"{path}[]")
    if isinstance(kind, t.MapType):
        return _void_path(kind.valueType, f"{path}[]")
    return path if isinstance(kind, t.NullType) else None


def _headers(column: Column, kind: t.DataType, before: t.DataType) -> Column:
    """Return headers as an array of structs with key and value. They may be given in this form or as a map.

    If the values of the headers were bytes before, the new values become bytes, too.
    """
    if isinstance(kind, t.NullType):
        return column.cast(before)
    pair: t.DataType
    if isinstance(kind, t.MapType):
        column, pair = F.map_entries(column), t.StructType().add("key", kind.keyType).add("value", kind.valueType)
    else:
        pair = kind.elementType if isinstance(kind, t.ArrayType) else kind
    if not isinstance(pair, t.StructType) or [name.lower() for name in pair.names] != ["key", "value"]:
        raise DataError(
            f"The headers must be an array of structs with key and value, or a map, but are {kind.simpleString()}: write "
            "for example map('source', 'shop')"
        )
    to_bytes = _has_bytes(before) and not isinstance(pair[1].dataType, t.BinaryType)

    def header(given: Column) -> Column:
        value = text(given["value"], pair[1].dataType).cast("BINARY") if to_bytes else given["value"]
        return F.struct(given["key"].cast("STRING").alias("key"), value.alias("value"))

    return F.transform(column, header)


def _has_bytes(headers: t.DataType) -> bool:
    pair = headers.elementType if isinstance(headers, t.ArrayType) else headers
    return isinstance(pair, t.StructType) and isinstance(pair["value"].dataType, t.BinaryType)
