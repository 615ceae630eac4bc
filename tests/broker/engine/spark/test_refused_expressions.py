"""Rows that expressions refuse, with errors of Spark SQL and of Java, in small batches and in jobs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from fencepost import transform
from fencepost.api.record import SourceBatch, SourceRecord
from fencepost.config.error_handling import ErrorHandling, Tolerance
from fencepost.engine.engine import SparkEngine
from fencepost.engine.errors import RecordRefusedError, SparkJobError
from fencepost.transforms.chain import Step
from tests.broker.engine.spark.test_engine_sql import sql
from tests.support.checker import read_topic
from tests.support.engine import json_converter, pipeline, producer, write
from tests.support.topics import Topics

SCHEMA = "id BIGINT, s STRING"
ROWS: list[Mapping[str, Any]] = [
    {"id": 1, "s": "ok"},
    {"id": 2, "s": "x"},
    {"id": 3, "s": "ok2"},
    {"id": 4, "s": "ok3"},
]
EXPRESSIONS: Mapping[str, tuple[dict[str, str], str]] = {
    "key twice": ({"value": "map(value.s, 'a', 'x', 'b')"}, "DUPLICATED_MAP_KEY"),
    "header twice": ({"headers": "map(value.s, 'a', 'x', 'b')"}, "DUPLICATED_MAP_KEY"),
    "too many items": (
        {"value": "size(sequence(1, if(value.id = 2, 9999999999, value.id)))"},
        "COLLECTION_SIZE_LIMIT_EXCEEDED",
    ),
    "error of Java": (
        {"value": "size(sequence(1, value.id, if(value.id = 2, -1, 1)))"},
        "Illegal sequence boundaries",
    ),
    "stack of Java": (
        {"value": "repeat('ab', if(value.id = 2, 300000, 1)) rlike '^(a|b)*$'"},
        "StackOverflowError",
    ),
}
ROUTES = ("polled", "small", "job")


class Rows:
    """Reads ROWS."""

    schema = f"value STRUCT<{SCHEMA}>"

    def read(self, split: str) -> Iterator[pa.RecordBatch]:
        del split
        kind = pa.struct([("id", pa.int64()), ("s", pa.string())])
        yield pa.RecordBatch.from_pydict({"value": pa.array(ROWS, kind)})


def batch(topic: str, route: str) -> list[SourceRecord] | SourceBatch:
    if route == "polled":
        return [
            SourceRecord({"source": "s"}, {"position": row["id"]}, topic, row, value_schema=SCHEMA, key=None)
            for row in ROWS
        ]
    return SourceBatch(reader=Rows(), splits=["rows"], bytes=100 if route == "small" else None)


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("name", EXPRESSIONS)
def test_a_refused_row_is_a_dead_letter_whatever_its_error(
    engine: SparkEngine, bootstrap_servers: str, topics: Topics, name: str, route: str
):
    topic, dead = topics.create(partitions=1), topics.create(partitions=1)
    properties, reason = EXPRESSIONS[name]
    errors = ErrorHandling(Tolerance.ALL, dead_letter_topic=dead)
    steps = pipeline(topic, value=json_converter(), transforms=[sql(**properties)], errors=errors)
    with producer(bootstrap_servers) as owner:
        result = write(engine, owner, batch(topic, route), steps)
    assert len(read_topic(bootstrap_servers, topic)) == 3
    assert result.errors.skipped == 1
    (letter,) = read_topic(bootstrap_servers, dead)
    assert json.loads(letter.value or b"")["id"] == 2
    headers = dict(letter.headers)
    assert headers["__connect.errors.stage"] == b"TRANSFORMATION"
    assert reason.encode() in (headers["__connect.errors.exception.message"] or b"")


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("name", EXPRESSIONS)
def test_a_refused_row_fails_a_task_and_is_named(
    engine: SparkEngine, bootstrap_servers: str, topic: str, name: str, route: str
):
    properties, reason = EXPRESSIONS[name]
    steps = pipeline(topic, value=json_converter(), transforms=[sql(**properties)])
    with producer(bootstrap_servers) as owner, pytest.raises(RecordRefusedError, match=reason) as failure:
        write(engine, owner, batch(topic, route), steps)
    if route == "polled":
        assert "{'position': 2}" in str(failure.value)


PLACES: Mapping[str, tuple[dict[str, str], str]] = {
    "value": ({"value": "1 / (value.id - 2)"}, "(transforms.t.value)"),
    "timestamp": ({"timestamp": "CAST(if(value.id = 2, 'no', '2026-01-01') AS TIMESTAMP)"}, "(transforms.t"),
}


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("name", PLACES)
def test_a_dead_letter_names_the_property_whose_expression_failed(
    engine: SparkEngine, bootstrap_servers: str, topics: Topics, name: str, route: str
):
    topic, dead = topics.create(partitions=1), topics.create(partitions=1)
    properties, place = PLACES[name]
    errors = ErrorHandling(Tolerance.ALL, dead_letter_topic=dead)
    step = replace(sql(**properties), alias="t")
    steps = pipeline(topic, value=json_converter(), transforms=[step], errors=errors)
    with producer(bootstrap_servers) as owner:
        write(engine, owner, batch(topic, route), steps)
    (letter,) = read_topic(bootstrap_servers, dead)
    assert place in (dict(letter.headers)["__connect.errors.exception.message"] or b"").decode()


@pytest.mark.parametrize("route", ["small", "job"])
def test_a_row_that_needs_more_memory_than_there_is_fails_its_batch(
    engine: SparkEngine, bootstrap_servers: str, topic: str, route: str
):
    errors = ErrorHandling(Tolerance.ALL)
    large = "size(sequence(1, if(value.id = 2, 2000000000, value.id)))"
    steps = pipeline(topic, value=json_converter(), transforms=[sql(value=large)], errors=errors)
    with producer(bootstrap_servers) as owner, pytest.raises(SparkJobError, match="the JVM's memory is full"):
        write(engine, owner, batch(topic, route), steps)
    assert engine.session().range(1).count() == 1, "the JVM of all tasks is still there"


@transform(schema="id BIGINT")
def misspelt(rows: pa.RecordBatch) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"id": rows["idd"]})


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("chain", ["Sql", "function"])
def test_the_only_cause_of_a_batch_is_known_whatever_refused_its_rows(
    engine: SparkEngine, bootstrap_servers: str, topic: str, chain: str, route: str
):
    step, cause = Step(misspelt(), alias="t"), f"KeyError: 'Field \"idd\" does not exist in schema' ({__file__}:"
    if chain == "Sql":
        step, cause = replace(sql(value="value.idd"), alias="t"), "transforms.t.value: Sql needs the field value.idd in"
    steps = pipeline(topic, transforms=[step], errors=ErrorHandling(Tolerance.ALL))
    with producer(bootstrap_servers) as owner:
        result = write(engine, owner, batch(topic, route), steps)
        some = write(engine, owner, batch(topic, route), replace(steps, transforms=[sql(value="1 / (value.id - 2)")]))
    assert result.errors.skipped == len(ROWS)
    assert cause in (result.only_cause or "")
    assert (some.errors.skipped, some.only_cause) == (1, None)
