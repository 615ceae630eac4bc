"""From columns of Connect data to Kafka records, on Arrow arrays.

The columns of a batch are those of Spark's own Kafka sink: `value`, and optionally `key`, `topic`, `partition`,
`timestamp` and `headers`. https://spark.apache.org/docs/latest/streaming/structured-streaming-kafka-integration.html
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import types as t

from fencepost.api.errors import DataError
from fencepost.api.plugin import HeaderConverter
from fencepost.api.schema_name import named
from fencepost.kafka.records import Records, normalize
from fencepost.spark.pipeline import Pipeline

COLUMNS: Final = ("topic", "partition", "key", "value", "timestamp", "headers")
ROW: Final = "__fencepost_row"
"""The column with a polled record's position in its batch."""

_WHOLE: Final = (t.ByteType, t.ShortType, t.IntegerType, t.LongType)


@dataclass(frozen=True, slots=True)
class ColumnTypes:
    """The Spark types of a batch's columns.

    `value` and `key` are None for schemaless data. `has_key` and the like say whether there is such a column at all;
    `raw_headers` that the headers' values are converted already.
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

    @property
    def targeted(self) -> bool:
        """Whether a row's own data may decide which topic partition it goes to."""
        return self.has_key or self.has_topic or self.has_partition


@dataclass(frozen=True, slots=True)
class Converted:
    """Rows of one topic as Kafka records.

    `partition` is int32, null where a row does not fix its partition. `rows` are polled records' positions.
    """

    topic: str
    records: Records
    partition: pa.Array | None = None
    rows: pa.Array | None = None


def column_types(schema: t.StructType, *, where: str) -> ColumnTypes:
    """Check the columns of a SourceBatch against what its rows may have. Raises DataError that names the column."""
    fields = {field.name: named(field) for field in schema.fields}
    if "value" not in fields:
        raise DataError(f"{where} has the columns {', '.join(fields)} but no column 'value': name one of them so")
    present = {name: kind for name, kind in fields.items() if not isinstance(kind, t.NullType)}
    _require(present, "topic", (t.StringType,), "a STRING", where)
    _require(present, "partition", _WHOLE, "an INT", where)
    _require(present, "timestamp", (*_WHOLE, t.TimestampType, t.TimestampNTZType), "a TIMESTAMP or BIGINT", where)
    return ColumnTypes(
        value=fields["value"],
        key=present.get("key"),
        header=_header_type(present["headers"], where) if "headers" in present else None,
        has_key="key" in present,
        has_topic="topic" in present,
        has_partition="partition" in present,
        has_timestamp="timestamp" in present,
        has_headers="headers" in present,
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


def convert(
    batch: pa.RecordBatch, types: ColumnTypes, pipeline: Pipeline, topic: str | None = None
) -> Iterator[Converted]:
    """Turn rows into records, topic by topic; rows of one topic keep their order.

    `topic` is for rows that name none, else the pipeline's default topic is. Raises DataError for rows that have no
    topic, and for values that a converter refuses.
    """
    if batch.num_rows == 0:
        return
    default = topic or pipeline.default_topic
    if not types.has_topic:
        yield convert_topic(require_topic(default), batch, types, pipeline)
        return
    topics = batch["topic"]
    if topics.null_count:
        topics = pc.fill_null(topics, require_topic(default))
    distinct = topics.unique().to_pylist()
    if len(distinct) == 1:
        yield convert_topic(distinct[0], batch, types, pipeline)
        return
    for name in distinct:
        yield convert_topic(name, batch.filter(pc.equal(topics, name)), types, pipeline)


def require_topic(topic: str | None) -> str:
    """The topic for rows that name none. Raises DataError if there is no such."""
    if topic is None:
        raise DataError(
            "Rows of a SourceBatch have no topic: add a column 'topic', or set the property 'topic' of the connector"
        )
    return topic


def convert_topic(topic: str, batch: pa.RecordBatch, types: ColumnTypes, pipeline: Pipeline) -> Converted:
    """Turn rows that all go to one topic into records."""
    value = _converted("value", pipeline.value_converter.from_connect_data(topic, types.value, batch["value"]), batch)
    key = headers = None
    if types.has_key:
        key = _converted("key", pipeline.key_converter.from_connect_data(topic, types.key, batch["key"]), batch)
    if types.has_headers:
        headers = batch["headers"]
        if not types.raw_headers:
            headers = convert_headers(topic, types.header, headers, pipeline.header_converter)
    timestamp = batch["timestamp"] if types.has_timestamp else None
    records = normalize(value, key=key, timestamp=timestamp, headers=headers)
    partition = batch["partition"].cast(pa.int32()) if types.has_partition else None
    return Converted(topic, records, partition, batch[ROW] if ROW in batch.schema.names else None)


def _converted(name: str, array: pa.Array, batch: pa.RecordBatch) -> pa.Array:
    if len(array) != batch.num_rows:
        raise DataError(
            f"The {name} converter returned {len(array)} values for {batch.num_rows} rows: report this to its author"
        )
    return array


def convert_headers(topic: str, schema: t.DataType | None, headers: pa.Array, converter: HeaderConverter) -> pa.Array:
    """Convert the values of `list<struct<key, value>>`; a null list has no headers."""
    lengths = pc.fill_null(pc.list_value_length(headers), 0).to_numpy(zero_copy_only=False)
    names, values = headers.flatten().flatten()
    return list_of_headers(lengths, names, converter.from_connect_header(topic, schema, values))


def list_of_headers(lengths: np.ndarray, names: pa.Array, values: pa.Array) -> pa.Array:
    """Headers of records, from how many each has and all their names and converted values."""
    offsets = np.zeros(len(lengths) + 1, dtype=np.int32)
    np.cumsum(lengths, out=offsets[1:])
    pairs = pa.StructArray.from_arrays([names.cast(pa.string()), values.cast(pa.binary())], names=["key", "value"])
    return pa.ListArray.from_arrays(pa.array(offsets), pairs)
