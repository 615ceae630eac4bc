"""The columns of a batch and their types, which are checked before any row is read.

Spark's own Kafka sink has the same columns: `value`, and optionally `key`, `topic`, `partition`, `timestamp` and
`headers`. https://spark.apache.org/docs/latest/streaming/structured-streaming-kafka-integration.html
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final

import numpy as np
import pyarrow as pa
from pyspark.sql import types as t

from fencepost.api.errors import DataError
from fencepost.api.schema_name import IDENTITY, JSON_METADATA, NULLS_METADATA, NamedStruct, named
from fencepost.kafka.records.columns import HEADERS

COLUMNS: Final = ("topic", "partition", "key", "value", "timestamp", "headers")

_RAW: Final = {
    "value": pa.binary(), "key": pa.binary(), "topic": pa.string(), "partition": pa.int32(), "timestamp": pa.int64(),
    "headers": HEADERS,
}  # fmt: skip
_WHOLE: Final = (t.ByteType, t.ShortType, t.IntegerType, t.LongType)


@dataclass(frozen=True, slots=True)
class ColumnTypes:
    """The Spark types of a batch's columns.

    `value` and `key` are None for schemaless data. `has_key`, `has_topic` and so on say whether the column exists at
    all. `raw_headers` says that the headers' values are already converted. `batch` says that the rows are from a
    SourceBatch, in which a null key or value is Kafka's null, as in Spark's own Kafka sink. In a polled record, a null
    that has a schema is data, unless `null_values` says that null values have no schema. `json_values` says that the
    values are JSON texts.
    """

    value: t.DataType | None
    key: t.DataType | None = None
    header: t.DataType | None = None
    has_key: bool = False
    has_topic: bool = False
    has_partition: bool = False
    has_timestamp: bool = False
    has_headers: bool = False
    raw_headers: bool = False
    batch: bool = False
    null_values: bool = False
    json_values: bool = False

    @property
    def targeted(self) -> bool:
        """Whether the data of a row may determine its topic partition."""
        return self.has_key or self.has_topic or self.has_partition


def column_types(schema: t.StructType, *, where: str, batch: bool = True) -> ColumnTypes:
    """Check the columns of rows, by default of a SourceBatch. Raises DataError that names an invalid column."""
    fields = {field.name: named(field) for field in schema.fields}
    if "value" not in fields:
        raise DataError(f"{where} has the columns {', '.join(fields)} but no column 'value': name one of them so")
    present = {name: kind for name, kind in fields.items() if not isinstance(kind, t.NullType)}
    _require(present, "topic", (t.StringType,), "a STRING", where)
    _require(present, "partition", _WHOLE, "an INT", where)
    _require(present, "timestamp", (*_WHOLE, t.TimestampType, t.TimestampNTZType), "a TIMESTAMP or BIGINT", where)
    json_values = bool((schema["value"].metadata or {}).get(JSON_METADATA))
    return ColumnTypes(
        value=None if json_values else fields["value"],
        key=present.get("key"),
        header=_header_type(present["headers"], where) if "headers" in present else None,
        has_key="key" in present,
        has_topic="topic" in present,
        has_partition="partition" in present,
        has_timestamp="timestamp" in present,
        has_headers="headers" in present,
        batch=batch,
        null_values=bool((schema["value"].metadata or {}).get(NULLS_METADATA)),
        json_values=json_values,
    )


def by_identity(batch: pa.RecordBatch, types: ColumnTypes) -> Iterator[tuple[pa.RecordBatch, ColumnTypes]]:
    """Yield runs of rows whose value schemas have the same name and version, with the types of each run.

    If no schema has a name or version, all rows are one run.
    """
    if IDENTITY not in batch.schema.names or not isinstance(types.value, t.StructType):
        yield batch, types
        return
    numbers = batch[IDENTITY].dictionary_encode("encode").indices.to_numpy()
    starts = [0, *(np.flatnonzero(np.diff(numbers)) + 1).tolist(), len(numbers)]
    for start, stop in pairwise(starts):
        kind, identity = types.value, batch[IDENTITY][start].as_py() if start < stop else None
        if identity is not None:
            # The type has the name and version that a later transform has set.
            kind = NamedStruct(kind.fields, {**json.loads(identity), **getattr(kind, "identity", {})})
        yield batch.slice(start, stop - start), replace(types, value=kind)


def raw_types(schema: pa.Schema) -> ColumnTypes:
    """Check the columns of SourceBatch.of_columns. Raises DataError that names an invalid column."""
    for field in schema:
        if _RAW.get(field.name) != field.type:
            wanted = ", ".join(f"{name} ({kind})" for name, kind in _RAW.items())
            raise DataError(f"SourceBatch.of_columns has a column {field.name} ({field.type}): it takes {wanted}")
    if "value" not in schema.names:
        raise DataError(f"SourceBatch.of_columns has the columns {', '.join(schema.names)} but no column value: add it")
    names = set(schema.names)
    return ColumnTypes(
        value=t.BinaryType(),
        key=t.BinaryType() if "key" in names else None,
        header=t.BinaryType() if "headers" in names else None,
        has_key="key" in names,
        has_topic="topic" in names,
        has_partition="partition" in names,
        has_timestamp="timestamp" in names,
        has_headers="headers" in names,
        raw_headers=True,
        batch=True,
    )


def _require(
    fields: dict[str, t.DataType], name: str, kinds: tuple[type[t.DataType], ...], wanted: str, where: str
) -> None:
    if name in fields and not isinstance(fields[name], kinds):
        found = fields[name].simpleString()
        raise DataError(f"The column '{name}' of {where} is {found}, but must be {wanted}: cast or rename it")


def _header_type(kind: t.DataType, where: str) -> t.DataType:
    if isinstance(kind, t.ArrayType) and isinstance(kind.elementType, t.StructType):
        fields = kind.elementType.fields
        if [field.name for field in fields] == ["key", "value"] and isinstance(fields[0].dataType, t.StringType):
            return fields[1].dataType
    raise DataError(
        f"The column 'headers' of {where} is {kind.simpleString()}, but must be ARRAY<STRUCT<key: STRING, value: any>>"
    )
