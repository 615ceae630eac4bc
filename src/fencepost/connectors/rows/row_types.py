"""The Arrow types with which rows of a declared Spark schema are read from text and stored."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt
from pyspark.sql import types as t
from pyspark.sql.pandas.types import to_arrow_type

from fencepost.api.spark_names import backticked
from fencepost.api.time_texts import plain_value

_TIMESTAMP: Final = pa.timestamp("us", tz="UTC")
_LOCAL_TIMESTAMP: Final = pa.timestamp("us")

# A zone must follow a time of day: otherwise the end of a date would look like an offset.
_ZONED: Final = r"[T ]\d{2}.*(Z|[+-]\d{2}(:?\d{2})?)$"

# The first and the last day of the years 1 to 9999, in days since 1970: dates and times of SQL and Python allow no
# other years.
_DAYS: Final = (-719_162, 2_932_896)
_DAY_US: Final = 86_400_000_000


class MisfitError(Exception):
    """The input is not a row of the schema. The message says what is wrong, if that is known."""


def arrow_type(data_type: t.DataType) -> pa.DataType:
    """Return the Arrow type of a column; Spark's TIMESTAMP is in microseconds, UTC."""
    return to_arrow_type(data_type, timezone="UTC")


def relaxed(data_type: t.DataType) -> t.DataType:
    """Return the type with nullable nested fields, because parsers cannot guarantee NOT NULL inside a type."""
    match data_type:
        case t.StructType():
            return t.StructType([t.StructField(field.name, relaxed(field.dataType)) for field in data_type])
        case t.ArrayType():
            return t.ArrayType(relaxed(data_type.elementType))
        case _:
            return data_type


def parse_timestamps(texts: pa.Array) -> pa.Array:
    """Return ISO 8601 texts as UTC timestamps; a text without a zone is in UTC. Raises pyarrow.ArrowInvalid."""
    try:
        return texts.cast(_TIMESTAMP)
    except pa.ArrowInvalid:
        zoned = pc.match_substring_regex(texts, _ZONED)
        nothing = pa.scalar(None, pa.string())
        with_zone = pc.if_else(zoned, texts, nothing).cast(_TIMESTAMP)
        without = pc.if_else(zoned, nothing, texts).cast(_LOCAL_TIMESTAMP)
        return pc.coalesce(with_zone, pc.assume_timezone(without, "UTC"))


def check_years(values: pa.Array) -> None:
    """Raise MisfitError for a date or time outside the years 1 to 9999, also in nested values."""
    kind = values.type
    if pt.is_struct(kind) or pt.is_list(kind):
        for inner in values.flatten() if pt.is_struct(kind) else [values.flatten()]:
            check_years(inner)
        return
    first, last = _DAYS
    if pt.is_timestamp(kind):
        numbers, first, last = values.view(pa.int64()), first * _DAY_US, (last + 1) * _DAY_US - 1
    elif pt.is_date32(kind):
        numbers = values.view(pa.int32())
    else:
        return
    found = pc.min_max(numbers).as_py()
    if found["min"] is not None and not first <= found["min"] <= found["max"] <= last:
        raise MisfitError


def plain_row(batch: pa.RecordBatch) -> dict[str, Any]:
    """Return the only row of a batch, with values as `plain_value` returns them."""
    return {name: plain_value(column[0]) for name, column in zip(batch.schema.names, batch.columns, strict=True)}


def row_as_json(row: object) -> bytes:
    """Return a row as JSON for a dead letter. Values that JSON cannot represent become texts."""
    try:
        text = json.dumps(row, default=str, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        text = repr(row)
    return text.encode(errors="backslashreplace")


def ddl_of_columns(columns: Sequence[t.StructField]) -> str:
    """Return the DDL of columns. Names of nested fields are in backticks, names of columns are not."""
    return ", ".join(f"{column.name} {_ddl(column.dataType)}" for column in columns)


def _ddl(data_type: t.DataType) -> str:
    match data_type:
        case t.StructType():
            return f"STRUCT<{', '.join(_field_ddl(field) for field in data_type)}>"
        case t.ArrayType():
            return f"ARRAY<{_ddl(data_type.elementType)}>"
        case t.MapType():
            return f"MAP<{_ddl(data_type.keyType)}, {_ddl(data_type.valueType)}>"
        case _:
            return data_type.simpleString().upper()


def _field_ddl(field: t.StructField) -> str:
    return f"{backticked(field.name)}: {_ddl(field.dataType)}{'' if field.nullable else ' NOT NULL'}"
