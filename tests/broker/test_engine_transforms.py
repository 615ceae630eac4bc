"""Transforms run on Spark between the source and the converters, for polled records and for batches."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from fencepost.api.errors import DataError
from fencepost.api.plugin import Transformation
from fencepost.api.record import SourceBatch, SourceRecord
from fencepost.spark.engine import SparkEngine
from fencepost.transforms.chain import Step
from fencepost.transforms.fields import InsertField
from fencepost.transforms.filter import Filter
from fencepost.transforms.predicates import RecordIsTombstone
from fencepost.transforms.records import InsertHeader, RegexRouter, ValueToKey
from fencepost.transforms.schema_metadata import SetSchemaMetadata
from tests.support.checker import read_topic, values
from tests.support.engine import NumberReader, json_converter, pipeline, producer, splits, write
from tests.support.topics import Topics


@pytest.fixture(scope="module")
def engine() -> Iterator[SparkEngine]:
    engine = SparkEngine({"spark.sql.shuffle.partitions": "2"})
    yield engine
    engine.stop()


def step(transform: Transformation, properties: dict[str, str], predicate: RecordIsTombstone | None = None) -> Step:
    transform.configure(properties)
    return Step(transform, predicate)


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
