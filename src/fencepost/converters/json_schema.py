"""Connect's schemas in the JSON form of its JsonConverter, from Spark's types.

| Spark | Connect | name |
|---|---|---|
| BYTE SHORT INT LONG | int8 int16 int32 int64 | |
| FLOAT DOUBLE BOOLEAN | float double boolean | |
| STRING CHAR VARCHAR | string | |
| BINARY | bytes | |
| DATE | int32, days | org.apache.kafka.connect.data.Date |
| TIME | int32, milliseconds | org.apache.kafka.connect.data.Time |
| TIMESTAMP TIMESTAMP_NTZ | int64, milliseconds | org.apache.kafka.connect.data.Timestamp |
| DECIMAL(p, s) | bytes, parameter `scale` | org.apache.kafka.connect.data.Decimal |
| ARRAY MAP STRUCT | array map struct | |

A schema is optional if Spark's type is nullable. A field's comment can name its schema (see `api.schema_name`). Connect
has no form for intervals, variants, geometries and columns that are always null.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import types as spark

from fencepost.api.errors import DataError
from fencepost.api.schema_name import NamedStruct, field_identity
from fencepost.converters.render import children

_LOGICAL: Final = "org.apache.kafka.connect.data."

_PRIMITIVES: Final[dict[type[spark.DataType], str]] = {
    spark.ByteType: "int8",
    spark.ShortType: "int16",
    spark.IntegerType: "int32",
    spark.LongType: "int64",
    spark.FloatType: "float",
    spark.DoubleType: "double",
    spark.BooleanType: "boolean",
    spark.BinaryType: "bytes",
    spark.StringType: "string",
    spark.CharType: "string",
    spark.VarcharType: "string",
}

_LOGICALS: Final[dict[type[spark.DataType], tuple[str, str]]] = {
    spark.DateType: ("int32", "Date"),
    spark.TimeType: ("int32", "Time"),
    spark.TimestampType: ("int64", "Timestamp"),
    spark.TimestampNTZType: ("int64", "Timestamp"),
}


@lru_cache(maxsize=1000)
def schema_text(schema: spark.DataType, *, optional: bool) -> str:
    """Return the schema of a whole key or value as compact JSON.

    Raises DataError for a type that Connect does not have.
    """
    return json.dumps(connect_schema(schema, optional=optional), ensure_ascii=False, separators=(",", ":"))


def connect_schema(schema: spark.DataType, *, optional: bool, path: str = "") -> dict[str, Any]:
    """Return the schema as a JSON object. `path` says where in the record it is.

    Raises DataError for a type that Connect does not have.
    """
    kind = schema.sqlType() if isinstance(schema, spark.UserDefinedType) else schema
    described = _scalar(kind) or _structure(kind, path)
    extra = described.pop("extra", {})
    return {**described, "optional": optional, **extra}


def _scalar(schema: spark.DataType) -> dict[str, Any]:
    """Return the schema of a scalar: `type`, and in `extra` the fields that come after `optional`.

    The result is empty for types that are not scalar.
    """
    kind = type(schema)
    if kind in _PRIMITIVES:
        return {"type": _PRIMITIVES[kind]}
    if kind in _LOGICALS:
        name, logical = _LOGICALS[kind]
        return {"type": name, "extra": {"name": _LOGICAL + logical, "version": 1}}
    if isinstance(schema, spark.DecimalType):
        extra = {"name": _LOGICAL + "Decimal", "version": 1, "parameters": {"scale": str(schema.scale)}}
        return {"type": "bytes", "extra": extra}
    return {}


def _structure(schema: spark.DataType, path: str) -> dict[str, Any]:
    match schema:
        case spark.ArrayType():
            items = connect_schema(schema.elementType, optional=schema.containsNull, path=f"{path}[]")
            return {"type": "array", "items": items}
        case spark.MapType():
            keys = connect_schema(schema.keyType, optional=False, path=f"{path}[key]")
            values = connect_schema(schema.valueType, optional=schema.valueContainsNull, path=f"{path}[value]")
            return {"type": "map", "keys": keys, "values": values}
        case spark.StructType():
            identity = schema.identity if isinstance(schema, NamedStruct) else {}
            return {"type": "struct", "fields": [_field(field, path) for field in schema.fields], "extra": identity}
    raise DataError(
        f"Kafka Connect has no type for the Spark type {schema.simpleString()} of {path or 'the record'}: cast it to "
        "STRING or a number, or leave it out"
    )


def _field(field: spark.StructField, path: str) -> dict[str, Any]:
    place = f"{path}.{field.name}" if path else field.name
    described = connect_schema(field.dataType, optional=field.nullable, path=place)
    return {**described, **field_identity(field), "field": field.name}


def missing_values(schema: spark.DataType, values: pa.Array, path: str = "") -> Iterator[str]:
    """Return the names of the fields that contain nulls although their schema does not allow any."""
    match schema:
        case spark.StructType() if pa.types.is_struct(values.type):
            for index, field in enumerate(schema.fields):
                child = values.field(index)
                place = f"{path}.{field.name}" if path else field.name
                if not field.nullable and _null_within(child, values):
                    yield place
                yield from missing_values(field.dataType, child, place)
        case spark.ArrayType() if pa.types.is_list(values.type):
            _, (items,) = children(values, values.values)
            yield from _missing_items(schema.elementType, items, f"{path}[]", allowed=schema.containsNull)
        case spark.MapType() if pa.types.is_map(values.type):
            _, (items,) = children(values, values.items)
            yield from _missing_items(schema.valueType, items, f"{path}[value]", allowed=schema.valueContainsNull)


def _missing_items(schema: spark.DataType, items: pa.Array, path: str, *, allowed: bool) -> Iterator[str]:
    if not allowed and items.null_count:
        yield path
    yield from missing_values(schema, items, path)


def _null_within(child: pa.Array, parent: pa.Array) -> bool:
    """Whether a field is null in a struct that is not null itself."""
    if child.null_count == 0:
        return False
    return bool(pc.any(pc.and_(child.is_null(), parent.is_valid())).as_py())
