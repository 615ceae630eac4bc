"""Columns become records; an error names columns that do not fit."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace

import pyarrow as pa
import pytest
from pyspark.sql import types as spark

from fencepost.api.ddl import parse_columns
from fencepost.api.errors import DataError
from fencepost.config.error_handling import ErrorHandling, Tolerance
from fencepost.converters import StringConverter
from fencepost.engine.column_types import ColumnTypes, column_types
from fencepost.engine.conversion import Converted, convert, converted_by, header_converted_by, in_record_order
from fencepost.engine.error_handler import ErrorHandler
from fencepost.engine.pipeline import Pipeline
from fencepost.kafka.records.columns import Records
from tests.support.engine import bytes_converter, json_converter, pipeline


def types(ddl: str):
    return column_types(parse_columns(ddl), where="the batch")


def converted(batch: pa.RecordBatch, kinds: ColumnTypes, steps: Pipeline) -> list[Converted]:
    return list(convert(batch, kinds, steps, ErrorHandler(steps.errors)))


@pytest.mark.parametrize(
    ("ddl", "message"),
    [
        ("line STRING", "no column 'value'"),
        ("value STRING, topic INT", "'topic' of the batch is int, but must be a STRING"),
        ("value STRING, partition STRING", "'partition' of the batch is string, but must be an INT"),
        ("value STRING, timestamp DATE", "'timestamp' of the batch is date, but must be a TIMESTAMP or BIGINT"),
        ("value STRING, headers MAP<STRING, STRING>", "must be ARRAY<STRUCT<key: STRING, value: any>>"),
    ],
)
def test_columns_that_do_not_fit_are_named(ddl: str, message: str):
    with pytest.raises(DataError, match=message):
        types(ddl)


def test_rows_choose_their_partition_only_with_a_key_topic_or_partition():
    assert not types("value STRING, timestamp BIGINT, headers ARRAY<STRUCT<key: STRING, value: INT>>").targeted
    for column in ("key STRING", "topic STRING", "partition INT"):
        assert types(f"value STRING, {column}").targeted


def test_all_columns_become_parts_of_records():
    at = dt.datetime(2024, 1, 1, 0, 0, 0, 123_999, tzinfo=dt.UTC)
    batch = pa.RecordBatch.from_pydict(
        {
            "value": [{"id": 1}],
            "key": ["k"],
            "partition": pa.array([2], pa.int64()),
            "timestamp": pa.array([at], pa.timestamp("us", "UTC")),
            "headers": pa.array(
                [[{"key": "h", "value": 5}]], pa.list_(pa.struct([("key", pa.string()), ("value", pa.int32())]))
            ),
        }
    )
    headers = "headers ARRAY<STRUCT<key: STRING, value: INT>>"
    ddl = f"value STRUCT<id: BIGINT>, key STRING, partition BIGINT, timestamp TIMESTAMP, {headers}"
    (found,) = converted(batch, types(ddl), pipeline("t", value=json_converter()))
    assert found.topic == "t"
    assert found.records.value.to_pylist() == [b'{"id":1}']
    assert found.records.key is not None
    assert found.records.key.to_pylist() == [b"k"]
    assert found.records.timestamp is not None
    assert found.records.timestamp.to_pylist() == [1_704_067_200_123]
    assert found.records.headers is not None
    assert found.records.headers.to_pylist() == [[{"key": "h", "value": b"5"}]]
    assert found.partition is not None
    assert found.partition.to_pylist() == [2]


@pytest.mark.parametrize("partition", [2**31, -(2**40)])
def test_a_partition_that_no_topic_can_have_is_named(partition: int):
    batch = pa.RecordBatch.from_pydict({"value": [b"v"] * 2, "partition": pa.array([1, partition], pa.int64())})
    with pytest.raises(DataError, match=f"topic t has {partition} in the column 'partition'"):
        converted(batch, types("value BINARY, partition BIGINT"), pipeline("t", value=bytes_converter()))


def timestamps(values: pa.Array, kind: str) -> list[int | None]:
    batch = pa.RecordBatch.from_pydict({"value": [b"v"] * len(values), "timestamp": values})
    steps = pipeline("t", value=bytes_converter())
    (found,) = converted(batch, types(f"value BINARY, timestamp {kind}"), steps)
    assert found.records.timestamp is not None
    return list(found.records.timestamp.to_pylist())


def test_the_last_millisecond_of_1969_is_not_taken_for_no_timestamp():
    assert timestamps(pa.array([5, None, 0], pa.int64()), "BIGINT") == [5, None, 0]
    with pytest.raises(DataError, match="topic t has the timestamp -1, which is before 1970"):
        timestamps(pa.array([5, -1, None, 0], pa.int64()), "BIGINT")
    for text in ("1969-12-31T23:59:59.999", "1969-12-31T23:59:59.999999"):
        at = pa.array([text]).cast(pa.timestamp("us"))
        with pytest.raises(DataError, match="topic t has the timestamp -1, which is before 1970"):
            timestamps(at.cast(pa.timestamp("us", "UTC")), "TIMESTAMP")
        with pytest.raises(DataError, match="topic t has the timestamp -1, which is before 1970"):
            timestamps(at, "TIMESTAMP_NTZ")


def test_a_timestamp_before_1970_is_refused():
    before = dt.datetime(1969, 12, 31, 23, 59, 55, tzinfo=dt.UTC)
    with pytest.raises(DataError, match="topic t has the timestamp -5000, which is before 1970"):
        timestamps(pa.array([None, before], pa.timestamp("us", "UTC")), "TIMESTAMP")
    with pytest.raises(DataError, match="topic t has the timestamp -2, which"):
        timestamps(pa.array([1, -2, 7], pa.int64()), "BIGINT")


def test_a_row_with_a_date_that_python_does_not_have_is_a_dead_letter_with_its_text():
    days = pa.array([0, 2**31 - 1], pa.int32()).view(pa.date32())
    value = pa.StructArray.from_arrays([days, pa.array([b"fine", b"\xff\xfe"]).view(pa.string())], ["d", "t"])
    batch = pa.RecordBatch.from_arrays([value], ["value"])
    handling = ErrorHandling(tolerance=Tolerance.ALL, dead_letter_topic="d")
    errors = ErrorHandler(handling)
    kinds = types("value STRUCT<d: DATE, t: STRING>")
    (found,) = convert(batch, kinds, pipeline("t", value=json_converter(), errors=handling), errors)
    assert found.records.value.to_pylist() == [b'{"d":0,"t":"fine"}']
    assert [letter.value for letter in errors.letters] == [b'{"d":"+5881580-07-11","t":"//4="}']


def test_a_row_with_text_that_is_not_utf_8_is_a_dead_letter_with_its_bytes():
    texts = pa.array([b"fine", b"\xff\xfe"]).view(pa.string())
    lists = pa.ListArray.from_arrays([0, 1, 2], texts)
    maps = pa.MapArray.from_arrays([0, 1, 2], pa.array(["a", "b"]), texts)
    value = pa.StructArray.from_arrays([pa.array([1, 2]), texts, lists, maps], ["id", "v", "l", "m"])
    batch = pa.RecordBatch.from_arrays([value, texts], ["value", "key"])
    kinds = types("value STRUCT<id: BIGINT, v: STRING, l: ARRAY<STRING>, m: MAP<STRING, STRING>>, key STRING")
    handling = ErrorHandling(tolerance=Tolerance.ALL, log_enable=True, log_include_messages=True, dead_letter_topic="d")
    errors = ErrorHandler(handling)
    (found,) = convert(batch, kinds, pipeline("t", value=json_converter(), errors=handling), errors)
    assert found.records.value.to_pylist() == [b'{"id":1,"v":"fine","l":["fine"],"m":{"a":"fine"}}']
    (letter,) = errors.letters
    assert letter.key == b"\xff\xfe"
    assert letter.value == b'{"id":2,"v":"//4=","l":["//4="],"m":[["b","//4="]]}'


def test_topics_of_rows_part_them_and_the_default_fills_gaps():
    batch = pa.RecordBatch.from_pydict({"value": [b"1", b"2", b"3"], "topic": ["a", None, "a"]})
    ddl = types("value BINARY, topic STRING")
    found = converted(batch, ddl, pipeline("d", value=bytes_converter()))
    assert [(c.topic, c.records.value.to_pylist()) for c in found] == [("a", [b"1", b"3"]), ("d", [b"2"])]
    with pytest.raises(DataError, match="have no topic"):
        converted(batch, ddl, pipeline(None, value=bytes_converter()))


@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary(), pa.string()])
def test_nulls_of_a_batch_stay_null_with_any_converter(kind: pa.DataType):
    class Writing(StringConverter):
        def from_connect_data(self, topic: str, schema: spark.DataType | None, values: pa.Array) -> pa.Array:
            del topic, schema
            return pa.array([None if value == 0 else str(value) for value in values.to_pylist()]).cast(kind)

    batch = pa.record_batch({"value": pa.array([7, None, 5, 0, None, 3])})
    steps = replace(pipeline(), value_converter=Writing(), default_topic="topic")
    (found,) = converted(batch, types("value BIGINT"), steps)
    assert found.records.value.to_pylist() == [b"7", None, b"5", None, None, b"3"]


def part(rows: list[int], topic: str = "t", partition: int | None = None) -> Converted:
    values = pa.array([str(row).encode() for row in rows], pa.binary())
    partitions = None if partition is None else pa.array([partition] * len(rows), pa.int32())
    return Converted(topic, Records(values), partitions, pa.array(rows, pa.int64()))


def test_groups_of_a_topic_are_joined_in_record_order():
    joined, other = in_record_order([part([0, 3]), part([1], "u"), part([2, 4], partition=7)])
    assert joined.records.value.to_pylist() == [b"0", b"2", b"3", b"4"]
    assert joined.partition is not None
    assert joined.partition.to_pylist() == [None, 7, None, 7]
    assert joined.rows is not None
    assert joined.rows.to_pylist() == [0, 2, 3, 4]
    assert other.topic == "u"


@pytest.mark.parametrize("schema", [None, spark.NullType()])
def test_a_column_of_nulls_without_a_schema_is_null_whatever_its_type(schema: spark.DataType | None):
    """The type is arbitrary, for example the type of a field that a transform extracts."""
    values = pa.nulls(2, pa.string())
    assert converted_by(bytes_converter(), "t", schema, values).to_pylist() == [None, None]
    assert header_converted_by(bytes_converter(), "t", schema, values).to_pylist() == [None, None]
    with pytest.raises(DataError, match="ByteArrayConverter takes BINARY only"):
        converted_by(bytes_converter(), "t", spark.StringType(), values)


def test_a_topic_that_is_not_text_is_reported():
    batch = pa.record_batch({"value": pa.array(["a", "b"]), "topic": pa.array([b"t", b"\xfe"]).view(pa.string())})
    with pytest.raises(DataError, match=r"A record is for the topic '.*xfe'"):
        converted(batch, types("value STRING, topic STRING"), pipeline("t"))
