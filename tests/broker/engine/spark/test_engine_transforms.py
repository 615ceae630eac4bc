"""Transforms run on Spark between the source and the converters, for polled records and for batches."""

from __future__ import annotations

import datetime as dt
import decimal
import json
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everywhere in Spark's own documentation

from fencepost.api.config_def import ConfigDef
from fencepost.api.ddl import parse_columns
from fencepost.api.errors import DataError
from fencepost.api.plugin import Transformation
from fencepost.api.record import SourceBatch, SourceRecord
from fencepost.connectors.files.content.ranges import FileRange
from fencepost.connectors.files.formats.csv_reader import CsvReader
from fencepost.converters.json_converter import JsonConverter
from fencepost.engine.engine import SparkEngine
from fencepost.engine.spark.local_rows import local_rows
from fencepost.transforms.chain import Step
from fencepost.transforms.fields import ExtractField, InsertField
from fencepost.transforms.filter import Filter
from fencepost.transforms.new_record_state import ExtractNewRecordState
from fencepost.transforms.predicates import RecordIsTombstone
from fencepost.transforms.records import InsertHeader, RegexRouter, ValueToKey
from fencepost.transforms.schema_metadata import SetSchemaMetadata
from tests.support.checker import read_topic, values
from tests.support.engine import SKIP, NumberReader, bytes_converter, json_converter, pipeline, producer, splits, write
from tests.support.topics import Topics


def step(transform: Transformation, properties: dict[str, str], predicate: RecordIsTombstone | None = None) -> Step:
    transform.configure(properties)
    return Step(transform, predicate)


class Shouted(Transformation):
    """A transform that no optimizer can fold: it calls Python for each value."""

    def config(self) -> ConfigDef:
        return ConfigDef()

    def configure(self, configs: Mapping[str, str]) -> None:
        """The transform has no configuration."""

    def apply(self, records: DataFrame) -> DataFrame:
        return records.withColumn("value", F.udf(str.upper)("value"))


def tombstones() -> RecordIsTombstone:
    predicate = RecordIsTombstone()
    predicate.configure({})
    return predicate


def record(topic: str, value: object, **more: object) -> SourceRecord:
    return SourceRecord({"source": "s"}, {"position": 1}, topic, value, **more)  # type: ignore[arg-type]


def test_schemaless_records_are_transformed_and_stay_schemaless(
    engine: SparkEngine, bootstrap_servers: str, topic: str
):
    steps = pipeline(
        value=json_converter(schemas=True),
        transforms=[step(InsertField(), {"static.field": "source", "static.value": "shop"})],
    )
    records = [record(topic, {"n": n, "tags": ["a"]} if n % 2 else {"other": n}) for n in range(10)]
    with producer(bootstrap_servers) as owner:
        write(engine, owner, records, steps)
    found = [json.loads(value or b"") for value in values(read_topic(bootstrap_servers, topic))]
    expected = [{"n": n, "tags": ["a"]} if n % 2 else {"other": n} for n in range(10)]
    assert found == [{"schema": None, "payload": {**value, "source": "shop"}} for value in expected]


@pytest.mark.parametrize("beside", [[], [{"n": 1}]])
def test_a_tombstone_without_a_schema_passes_transforms_of_values(
    engine: SparkEngine, bootstrap_servers: str, topic: str, beside: list[object]
):
    """As in Connect, a tombstone passes whatever records share its batch: where a batch ends is up to the connector."""
    steps = pipeline(
        value=json_converter(schemas=False),
        transforms=[step(InsertField(), {"static.field": "source", "static.value": "shop"})],
    )
    with producer(bootstrap_servers) as owner:
        write(engine, owner, [record(topic, value, key="k") for value in [*beside, None]], steps)
    assert values(read_topic(bootstrap_servers, topic)) == [b'{"n":1,"source":"shop"}' for _ in beside] + [None]


def test_a_null_left_by_a_transform_is_null_as_bytes(engine: SparkEngine, bootstrap_servers: str, topic: str):
    """A schemaless column of nulls has an arbitrary type, which ByteArrayConverter must not see."""
    steps = pipeline(value=bytes_converter(), transforms=[step(ExtractField(), {"field": "a"})])
    records = [record(topic, None), record(topic, {"a": None}), record(topic, {"a": b"x"}), record(topic, None)]
    with producer(bootstrap_servers) as owner:
        write(engine, owner, records, steps)
    assert values(read_topic(bootstrap_servers, topic)) == [None, None, b"x", None]


@pytest.mark.parametrize(("mode", "null"), [("tombstone", b"null"), ("delete-to-tombstone", None)])
def test_the_null_of_a_polled_delete_has_a_schema_unless_it_is_to_have_none(
    engine: SparkEngine, bootstrap_servers: str, topic: str, mode: str, null: bytes | None
):
    schema = "before: STRUCT<id: INT>, after: STRUCT<id: INT>, source: STRUCT<lsn: BIGINT>, op: STRING"
    events = [({}, {"id": 1}, "c"), ({"id": 1}, None, "d")]
    records = [
        record(topic, {"before": before or None, "after": after, "source": {"lsn": 1}, "op": op}, value_schema=schema)
        for before, after, op in events
    ]
    chain = [step(ExtractNewRecordState(), {"delete.tombstone.handling.mode": mode, "add.headers": "op"})]
    with producer(bootstrap_servers) as owner:
        for _ in range(3):  # All but the first use a cached plan.
            write(engine, owner, records, pipeline(value=json_converter(), transforms=chain))
    found = read_topic(bootstrap_servers, topic)
    assert [(one.value, one.headers) for one in found] == [
        (b'{"id":1}', (("__op", b"c"),)), (null, (("__op", b"d"),)),
    ] * 3  # fmt: skip


def test_a_dropped_record_has_no_metadata_and_the_others_keep_theirs(
    engine: SparkEngine, bootstrap_servers: str, topic: str
):
    steps = pipeline(transforms=[step(Filter(), {}, tombstones())])
    records = [record(topic, None if n % 3 == 0 else f"v{n}", key=f"k{n}", headers=[("n", n)]) for n in range(12)]
    with producer(bootstrap_servers) as owner:
        result = write(engine, owner, records, steps)
    found = {r.offset: r for r in read_topic(bootstrap_servers, topic)}
    assert result.metadata is not None
    assert len(result.metadata) == len(records)
    for n, metadata in enumerate(result.metadata):
        assert (metadata is None) == (n % 3 == 0)
        if metadata is not None:
            got = found[metadata.offset]
            assert (got.value, got.key, got.headers) == (f"v{n}".encode(), f"k{n}".encode(), (("n", b"%d" % n),))


def jobs_run(session: SparkSession) -> int:
    """The number of jobs that the session's Spark context has run."""
    return int(session.sparkContext._jsc.sc().dagScheduler().numTotalJobs())


def test_a_polled_batch_with_foldable_transforms_runs_no_spark_job(
    engine: SparkEngine, bootstrap_servers: str, topic: str
):
    steps = pipeline(transforms=[step(ValueToKey(), {"fields": "n"}), step(Filter(), {}, tombstones())])
    records = [record(topic, {"n": n, "text": "x" * 1_000}) for n in range(100)]
    with producer(bootstrap_servers) as owner:
        write(engine, owner, records, steps)
        session = engine.session()
        before = jobs_run(session)
        write(engine, owner, records, steps)
        assert jobs_run(session) == before
    assert len(read_topic(bootstrap_servers, topic)) == 200


def test_later_batches_with_the_same_columns_are_written_as_the_first(
    engine: SparkEngine, bootstrap_servers: str, topic: str
):
    steps = pipeline(
        value=json_converter(),
        transforms=[
            step(Filter(), {}, tombstones()),
            step(InsertField(), {"topic.field": "from", "static.field": "source", "static.value": "shop"}),
        ],
    )
    with producer(bootstrap_servers) as owner:
        for first in range(0, 40, 10):
            rows = [
                record(topic, None if n % 3 == 0 else {"n": n}, value_schema="n INT", key=f"k{n}")
                for n in range(first, first + 10)
            ]
            result = write(engine, owner, rows, steps)
            assert result.metadata is not None
            assert [sent is None for sent in result.metadata] == [one.value is None for one in rows]
    found = [(r.key, json.loads(r.value or b"")) for r in read_topic(bootstrap_servers, topic)]
    expected = [n for n in range(40) if n % 3]
    assert found == [(f"k{n}".encode(), {"n": n, "from": topic, "source": "shop"}) for n in expected]


def test_a_polled_batch_with_a_python_function_runs_as_a_job(engine: SparkEngine, bootstrap_servers: str, topic: str):
    steps = pipeline(transforms=[Step(Shouted())])
    with producer(bootstrap_servers) as owner:
        write(engine, owner, [record(topic, f"v{n}") for n in range(3)], steps)
    assert [r.value for r in read_topic(bootstrap_servers, topic)] == [b"V0", b"V1", b"V2"]


def test_a_polled_batch_whose_rows_are_all_dropped_writes_nothing(
    engine: SparkEngine, bootstrap_servers: str, topic: str
):
    steps = pipeline(transforms=[step(Filter(), {}, tombstones())])
    with producer(bootstrap_servers) as owner:
        result = write(engine, owner, [record(topic, None), record(topic, None)], steps)
    assert result.metadata is not None
    assert list(result.metadata) == [None, None]
    assert read_topic(bootstrap_servers, topic) == []


def test_rows_taken_without_a_job_equal_the_rows_of_to_arrow(engine: SparkEngine):
    session = engine.session()
    moment = dt.datetime(2024, 3, 31, 1, 30, 0, 123_456, tzinfo=dt.UTC)
    table = pa.table(
        {
            "number": pa.array([1, None, -(2**63)], pa.int64()),
            "fraction": pa.array([float("nan"), -0.0, None], pa.float64()),
            "money": pa.array(
                [decimal.Decimal("12345678901234567890.12"), None, decimal.Decimal("-0.01")], pa.decimal128(38, 2)
            ),
            "bytes": pa.array([b"\0\xff", None, b""], pa.binary()),
            "text": pa.array(["\u00e9\u4e2d\U0001f600", "", None], pa.string()),
            "instant": pa.array([moment, None, moment], pa.timestamp("us", "UTC")),
            "local": pa.array([moment, None, moment], pa.timestamp("us")),
            "day": pa.array([dt.date(1, 1, 1), None, dt.date(9999, 12, 31)], pa.date32()),
            "list": pa.array([[1, None], None, []], pa.list_(pa.int32())),
            "struct": pa.array(
                [{"a": 1, "b": "x"}, None, {"a": None, "b": None}], pa.struct([("a", pa.int32()), ("b", pa.string())])
            ),
        }
    )
    frame = session.createDataFrame(table).select("*", F.create_map(F.lit("k"), "number").alias("map"))
    folded = local_rows(frame)
    assert folded is not None
    expected = frame.toArrow()
    assert folded.schema == expected.schema
    assert str(folded.to_pylist()) == str(expected.to_pylist())


def test_declared_schemas_survive_the_transforms(engine: SparkEngine, bootstrap_servers: str, topic: str):
    steps = pipeline(
        value=json_converter(schemas=True),
        transforms=[step(InsertField(), {"static.field": "source", "static.value": "shop"})],
    )
    records = [record(topic, {"id": 1}, value_schema="id BIGINT NOT NULL", timestamp=1_700_000_000_123)]
    with producer(bootstrap_servers) as owner:
        write(engine, owner, records, steps)
    (found,) = read_topic(bootstrap_servers, topic)
    envelope = json.loads(found.value or b"")
    assert envelope["payload"] == {"id": 1, "source": "shop"}
    assert [(f["field"], f["type"]) for f in envelope["schema"]["fields"]] == [("id", "int64"), ("source", "string")]
    assert found.timestamp == 1_700_000_000_123


def test_a_schemas_name_is_written_for_polled_records_and_by_executors(
    engine: SparkEngine, bootstrap_servers: str, topic: str
):
    steps = pipeline(
        topic, value=json_converter(schemas=True), transforms=[step(SetSchemaMetadata(), {"schema.name": "org.N"})]
    )
    frame = engine.session().createDataFrame([((2,),)], "value STRUCT<n: INT>")
    with producer(bootstrap_servers) as owner:
        write(engine, owner, [record(topic, {"n": 1}, value_schema="n INT")], steps)
        write(engine, owner, SourceBatch(dataframe=frame), steps)
        with pytest.raises(DataError, match="have no schema, so SetSchemaMetadata cannot name it"):
            write(engine, owner, [record(topic, {"n": 1})], steps)
    found = [json.loads(value or b"") for value in values(read_topic(bootstrap_servers, topic))]
    assert [(each["schema"]["name"], each["payload"]["n"]) for each in found] == [("org.N", 1), ("org.N", 2)]


def test_schemaless_fields_of_changing_types_ask_for_a_schema(engine: SparkEngine, bootstrap_servers: str, topic: str):
    steps = pipeline(transforms=[step(InsertField(), {"static.field": "a", "static.value": "b"})])
    with producer(bootstrap_servers) as owner, pytest.raises(DataError, match="value_schema"):
        write(engine, owner, [record(topic, {"list": [1, "x"]})], steps)


def test_a_polled_record_changes_its_topic(engine: SparkEngine, bootstrap_servers: str, topics: Topics):
    source, target = topics.create("before-1"), topics.create("after-1")
    steps = pipeline(transforms=[step(RegexRouter(), {"regex": "before-(.*)", "replacement": "after-$1"})])
    with producer(bootstrap_servers) as owner:
        result = write(engine, owner, [record(source, "x")], steps)
    assert result.topics == frozenset({target})
    assert values(read_topic(bootstrap_servers, target)) == [b"x"]


@pytest.mark.parametrize("columns", [(), ("key",)])
def test_a_batch_is_transformed_on_the_executors_in_its_order(
    engine: SparkEngine, bootstrap_servers: str, topics: Topics, columns: tuple[str, ...]
):
    topic = topics.create(partitions=3)
    steps = pipeline(topic, transforms=[step(InsertHeader(), {"header": "origin", "value.literal": "file"})])
    batch = SourceBatch(reader=NumberReader(columns), splits=splits(6_000, 4), bytes=1)
    with producer(bootstrap_servers) as owner:
        write(engine, owner, batch, steps)
    found = read_topic(bootstrap_servers, topic)
    assert sorted(int(r.value or b"") for r in found) == list(range(6_000))
    assert {r.headers for r in found} == {(("origin", b"file"),)}
    assert {r.key for r in found} == ({f"k{n}".encode() for n in range(7)} if columns else {None})
    for partition in range(3):
        own = [int(r.value or b"") for r in found if r.partition == partition]
        assert own == sorted(own)


def test_a_batch_gets_keys_and_another_topic_by_transforms(engine: SparkEngine, bootstrap_servers: str, topics: Topics):
    topic, target = topics.create("plain-2"), topics.create("routed-2", partitions=3)
    frame = engine.session().sql("SELECT struct(id, id % 5 AS shop) AS value FROM range(1000)")
    steps = pipeline(
        topic,
        value=json_converter(),
        transforms=[
            step(RegexRouter(), {"regex": "plain-(.*)", "replacement": "routed-$1"}),
            step(ValueToKey(), {"fields": "shop"}),
        ],
    )
    with producer(bootstrap_servers) as owner:
        result = write(engine, owner, SourceBatch(dataframe=frame), steps)
    found = read_topic(bootstrap_servers, target)
    assert result.topics == frozenset({target})
    assert sorted(json.loads(r.value or b"")["id"] for r in found) == list(range(1_000))
    assert len({r.key for r in found}) == 5
    assert len({(r.key, r.partition) for r in found}) == 5


def test_a_reader_that_fails_ahead_of_transforms_fails_with_its_own_error(
    engine: SparkEngine, bootstrap_servers: str, topic: str
):
    steps = pipeline(topic, transforms=[step(InsertHeader(), {"header": "a", "value.literal": "b"})])
    batch = SourceBatch(reader=NumberReader(rows=0), splits=splits(10, 2))
    with producer(bootstrap_servers) as owner, pytest.raises(DataError, match="rows=0"):
        write(engine, owner, batch, steps)
    assert read_topic(bootstrap_servers, topic) == []


def csv_batch(path: Path, text: str, schema: str) -> SourceBatch:
    path.write_text(text)
    columns = parse_columns(schema)
    reader = CsvReader(columns, file_columns=tuple(columns.names))
    return SourceBatch(reader=reader, splits=[FileRange(str(path), 0, len(text))])


def test_a_decimal_that_does_not_fit_is_skipped_ahead_of_transforms_with_its_line(
    engine: SparkEngine, bootstrap_servers: str, topic: str, tmp_path: Path
):
    path = tmp_path / "rows"
    batch = csv_batch(path, "1.50\n9999999999\n400000000000000000000\n-2\n", "price DECIMAL(10,2)")
    numbers = JsonConverter()
    numbers.configure({"schemas.enable": "false", "decimal.format": "NUMERIC"}, is_key=False)
    transforms = [step(InsertField(), {"static.field": "source", "static.value": "shop"})]
    with producer(bootstrap_servers) as owner:
        with pytest.raises(DataError, match=rf"{path}, line 2, does not fit.*column price.*'9999999999'"):
            write(engine, owner, batch, pipeline(topic, value=numbers, transforms=transforms))
        with producer(bootstrap_servers) as other:
            result = write(engine, other, batch, pipeline(topic, value=numbers, transforms=transforms, errors=SKIP))
    assert [json.loads(value or b"") for value in values(read_topic(bootstrap_servers, topic))] == [
        {"price": 1.5, "source": "shop"}, {"price": -2.0, "source": "shop"}
    ]  # fmt: skip
    assert result.errors.skipped == 2


def test_a_time_in_1969_is_refused_after_transforms_and_not_replaced(
    engine: SparkEngine, bootstrap_servers: str, topic: str
):
    times = ["1970-01-01 00:00:00", "1969-12-31 23:59:59.999"]
    rows = engine.session().createDataFrame([(at, at) for at in times], "value STRING, at STRING")
    frame = rows.selectExpr("value", "CAST(at || 'Z' AS TIMESTAMP) AS timestamp")
    transforms = [step(InsertHeader(), {"header": "h", "value.literal": "x"})]
    with producer(bootstrap_servers) as owner:
        with pytest.raises(DataError, match="has the timestamp -1, which is before 1970"):
            write(engine, owner, SourceBatch(dataframe=frame), pipeline(topic, transforms=transforms))
        with producer(bootstrap_servers) as other:
            write(engine, other, SourceBatch(dataframe=frame), pipeline(topic, transforms=transforms, errors=SKIP))
    [found] = read_topic(bootstrap_servers, topic)
    assert (found.value, found.timestamp) == (times[0].encode(), 0)
