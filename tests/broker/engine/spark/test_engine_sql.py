"""Sql on the engine: records that become several, cached plans, and the position that an error names."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fencepost.api.errors import DataError
from fencepost.api.record import SourceBatch, SourceRecord
from fencepost.config.error_handling import ErrorHandling, Tolerance
from fencepost.engine.engine import SparkEngine
from fencepost.engine.errors import RecordRefusedError
from fencepost.transforms.chain import Step
from fencepost.transforms.sql import Sql
from tests.broker.engine.spark.test_engine_transforms import jobs_run
from tests.broker.engine.test_error_handling import PickyConverter
from tests.support.checker import read_topic, values
from tests.support.engine import SKIP, json_converter, pipeline, producer, write
from tests.support.topics import Topics

SCHEMA = "id INT, items ARRAY<STRING>"


def sql(**properties: str) -> Step:
    transform = Sql()
    transform.configure(properties)
    return Step(transform)


def picky() -> PickyConverter:
    converter = PickyConverter()
    converter.configure({})
    return converter


def record(topic: str, number: int, *items: str) -> SourceRecord:
    value = {"id": number, "items": list(items)}
    return SourceRecord({"source": "s"}, {"position": number}, topic, value, value_schema=SCHEMA, key=f"k{number}")


def test_a_record_that_becomes_several_is_reported_with_the_last_one(
    engine: SparkEngine, bootstrap_servers: str, topics: Topics
):
    topic, other = topics.create(partitions=1), topics.create(partitions=1)
    routed = f"CASE item WHEN 'there' THEN '{other}' END"
    steps = pipeline(transforms=[sql(explode="value.items", topic=routed, value="concat(value.id, item)")])
    records = [
        record(topic, 1, "a", "b", "there"), record(topic, 2), record(topic, 3, "there", "c"), record(topic, 4, "d"),
    ]  # fmt: skip
    with producer(bootstrap_servers) as owner:
        for _ in range(3):
            result = write(engine, owner, records, steps)
    assert [one.value for one in read_topic(bootstrap_servers, topic)] == [b"1a", b"1b", b"3c", b"4d"] * 3
    assert [one.value for one in read_topic(bootstrap_servers, other)] == [b"1there", b"3there"] * 3
    assert result.written == 6
    assert result.metadata is not None
    found = {(name, one.offset): one.value for name in (topic, other) for one in read_topic(bootstrap_servers, name)}
    assert result.metadata[1] is None
    last = [found[one.topic, one.offset] for one in result.metadata if one is not None]
    assert last == [b"1there", b"3c", b"4d"]


@pytest.mark.parametrize("letters", [True, False])
def test_all_rows_of_a_record_are_skipped_if_a_converter_refuses_one(
    engine: SparkEngine, bootstrap_servers: str, topics: Topics, *, letters: bool
):
    topic, other, dead = (topics.create(partitions=1) for _ in range(3))
    errors = ErrorHandling(Tolerance.ALL, dead_letter_topic=dead if letters else None)
    routed = f"CASE item WHEN 'there' THEN '{other}' END"
    steps = pipeline(
        value=picky(),
        errors=errors,
        transforms=[sql(explode="value.items", topic=routed, value="concat(value.id, item)")],
    )
    records = [
        record(topic, 1, "a", "refuse", "there", "refuse"),
        record(topic, 2, "b", "there"),
        record(topic, 3, "refuse"),
    ]
    with producer(bootstrap_servers) as owner:
        result = write(engine, owner, records, steps)
    assert values(read_topic(bootstrap_servers, topic)) == [b"2b"]
    assert values(read_topic(bootstrap_servers, other)) == [b"2there"]
    assert (result.errors.skipped, result.errors.failures) == (2, 2)
    assert result.metadata is not None
    assert [one is None for one in result.metadata] == [True, False, True]
    found = [json.loads(value or b"")["id"] for value in values(read_topic(bootstrap_servers, dead))]
    assert found == ([1, 3] if letters else []), "the dead letter is the record that was polled"


def test_a_plan_of_expressions_is_kept(engine: SparkEngine, bootstrap_servers: str, topic: str):
    steps = pipeline(
        value=json_converter(),
        transforms=[sql(where="value.id % 2 = 0", key="upper(key)", value="struct(value.id * 2 AS twice)")],
    )
    with producer(bootstrap_servers) as owner:
        for first in range(0, 40, 10):
            jobs = jobs_run(engine.session())
            write(engine, owner, [record(topic, n) for n in range(first, first + 10)], steps)
            assert jobs_run(engine.session()) == jobs
    found = [(r.key, json.loads(r.value or b"")) for r in read_topic(bootstrap_servers, topic)]
    assert found == [(f"K{n}".encode(), {"twice": n * 2}) for n in range(0, 40, 2)]


def test_an_error_names_the_record_and_the_expression(engine: SparkEngine, bootstrap_servers: str, topic: str):
    steps = pipeline(transforms=[sql(value="CAST(value.items[0] AS INT) + 1")])
    good = [record(topic, n, "1") for n in range(5)]
    with producer(bootstrap_servers) as owner:
        for _ in range(3):
            write(engine, owner, good, steps)
        with pytest.raises(RecordRefusedError) as failure:
            write(engine, owner, [*good, record(topic, 5, "five"), *good], steps)
    told = str(failure.value)
    assert "(Sql)" in told
    assert "The value 'five' of the type \"STRING\"" in told
    assert "in CAST(value.items[0] AS INT)" in told
    assert "the source partition {'source': 's'} and the source offset {'position': 5}" in told


@pytest.mark.parametrize("polled", [True, False], ids=["polled", "frame"])
def test_an_error_names_the_property_with_the_expression(
    engine: SparkEngine, bootstrap_servers: str, topic: str, *, polled: bool
):
    first, second = sql(key="upper(key)").transform, sql(value="CAST(value.items[0] AS INT)").transform
    steps = pipeline(topic, transforms=[Step(first, alias="k"), Step(second, alias="v")])
    frame = engine.session().createDataFrame(
        [((1, ["x"]), "k")], "value STRUCT<id: INT, items: ARRAY<STRING>>, key STRING"
    )
    batch: Any = [record(topic, 1, "x")] if polled else SourceBatch(dataframe=frame)
    named = r"in CAST\(value.items\[0\] AS INT\) \(transforms\.v\.value\)\."
    with producer(bootstrap_servers) as owner, pytest.raises(RecordRefusedError, match=named):
        write(engine, owner, batch, steps)


def test_a_record_that_an_expression_refuses_is_skipped_alone(engine: SparkEngine, bootstrap_servers: str, topic: str):
    steps = pipeline(transforms=[sql(explode="value.items", value="CAST(item AS INT)")], errors=SKIP)
    records = [record(topic, 1, "1", "2"), record(topic, 2, "3", "x", "4"), record(topic, 3, "5")]
    with producer(bootstrap_servers) as owner:
        result = write(engine, owner, records, steps)
    assert values(read_topic(bootstrap_servers, topic)) == [b"1", b"2", b"5"]
    assert result.errors.skipped == 1


def test_the_rows_of_a_dataframe_are_multiplied_in_order(engine: SparkEngine, bootstrap_servers: str, topics: Topics):
    topic = topics.create(partitions=1)
    frame = (
        engine.session()
        .range(0, 3_000, numPartitions=3)
        .selectExpr("struct(id, transform(sequence(0, 2), i -> concat(id, '-', i)) AS items) AS value")
    )
    steps = pipeline(topic, transforms=[sql(explode="value.items", value="item", where="item NOT LIKE '%-1'")])
    with producer(bootstrap_servers) as owner:
        result = write(engine, owner, SourceBatch(frame, [({"frame": 1}, {"done": 1})]), steps)
    expected = [f"{n}-{i}".encode() for n in range(3_000) for i in (0, 2)]
    assert values(read_topic(bootstrap_servers, topic)) == expected
    assert result.written == len(expected)


def test_a_row_with_a_null_beside_required_fields_becomes_a_dead_letter(
    engine: SparkEngine, bootstrap_servers: str, topics: Topics
):
    topic, dead = topics.create(partitions=1), topics.create(partitions=1)
    errors = ErrorHandling(Tolerance.ALL, dead_letter_topic=dead)
    steps = pipeline(topic, value=json_converter(), errors=errors, transforms=[sql(value="CAST(value.text AS INT)")])
    schema = (
        "value STRUCT<text: STRING NOT NULL, at: TIMESTAMP, inner: STRUCT<id: INT NOT NULL>, "
        "many: ARRAY<STRUCT<id: INT NOT NULL>>, map: MAP<STRING, STRUCT<id: INT NOT NULL>>>"
    )
    rows = [(("1", None, (1,), [], {}),), (("x", None, None, [None, (2,)], {"a": None}),), (None,)]
    batch = SourceBatch(dataframe=engine.session().createDataFrame(rows, schema))
    with producer(bootstrap_servers) as owner:
        result = write(engine, owner, batch, steps)
    assert (result.written, result.errors.skipped) == (2, 1)
    assert set(values(read_topic(bootstrap_servers, topic))) == {None, b"1"}
    (letter,) = values(read_topic(bootstrap_servers, dead))
    told = json.loads(letter or b"")
    assert {name: told[name] for name in ("text", "inner", "many")} == {
        "text": "x", "inner": None, "many": [None, {"id": 2}],
    }  # fmt: skip


PLACES = {
    "topic": "CASE item WHEN 'bad' THEN 'no topic' END",
    "timestamp": "CASE item WHEN 'bad' THEN -5 END",
    "partition": "CASE item WHEN 'bad' THEN -1 END",
}


@pytest.mark.parametrize("column", PLACES)
def test_a_record_with_a_place_that_cannot_be_is_skipped_whole(
    engine: SparkEngine, bootstrap_servers: str, topics: Topics, column: str
):
    topic, dead = topics.create(partitions=1), topics.create(partitions=1)
    handling = ErrorHandling(Tolerance.ALL, dead_letter_topic=dead)
    transforms = [sql(explode="value.items", value="concat(value.id, item)", **{column: PLACES[column]})]
    records = [record(topic, 1, "a", "bad"), record(topic, 2, "b"), record(topic, 3, "bad")]
    with producer(bootstrap_servers) as owner:
        for _ in range(3):
            result = write(engine, owner, records, pipeline(transforms=transforms, errors=handling))
        with pytest.raises(
            RecordRefusedError, match=r"stage KAFKA_PRODUCE \(Sql\).*number 0 of its batch.*'position': 1"
        ):
            write(engine, owner, records, pipeline(transforms=transforms))
    assert values(read_topic(bootstrap_servers, topic)) == [b"2b"] * 3
    assert result.errors.skipped == 2
    assert [json.loads(value or b"")["id"] for value in values(read_topic(bootstrap_servers, dead))] == [1, 3] * 3


def test_a_record_for_a_partition_that_is_not_there_is_named(
    engine: SparkEngine, bootstrap_servers: str, topics: Topics
):
    topic = topics.create(partitions=1)
    transforms = [sql(partition="CASE WHEN value.id = 2 THEN 1 END", value="value.id")]
    named = r"partition 1 of topic .* add partitions to the topic\. It is number 1 of its batch.*'position': 2"
    with producer(bootstrap_servers) as owner, pytest.raises(DataError, match=named):
        write(engine, owner, [record(topic, 1), record(topic, 2)], pipeline(transforms=transforms, errors=SKIP))
