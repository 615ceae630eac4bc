"""Functions of Python as transforms: in the worker without Spark, beside others, and on executors."""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from fencepost import transform
from fencepost.api.record import SourceBatch, SourceRecord
from fencepost.config.error_handling import ErrorHandling, Tolerance
from fencepost.engine.engine import SparkEngine
from fencepost.engine.errors import RecordRefusedError
from fencepost.transforms.chain import Step
from fencepost.transforms.fields import InsertField
from fencepost.transforms.function_transform import ROW_INDEX
from fencepost.transforms.sql import Sql
from tests.broker.engine.spark.test_engine_transforms import jobs_run, step
from tests.support.checker import read_topic, values
from tests.support.engine import json_converter, pipeline, producer, write
from tests.support.topics import Topics


@transform(schema="id BIGINT, half DOUBLE")
def halves(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Halves even numbers, drops 5, and refuses 13."""
    if 13 in rows["id"].to_pylist():
        raise ValueError("thirteen")
    kept = rows.filter(pc.not_equal(rows["id"], 5))
    half = pc.divide(pc.cast(kept["id"], pa.float64()), 2.0)
    return pa.RecordBatch.from_pydict({"id": kept["id"], "half": half, ROW_INDEX: kept[ROW_INDEX]})


def record(topic: str, number: int) -> SourceRecord:
    return SourceRecord({"source": "s"}, {"position": number}, topic, {"id": number}, key={"k": number})


def halved(*numbers: int) -> list[dict[str, float]]:
    return [{"id": n, "half": n / 2} for n in numbers]


def found(bootstrap_servers: str, topic: str) -> list[object]:
    return [json.loads(value or b"null") for value in values(read_topic(bootstrap_servers, topic))]


def test_small_batches_need_no_spark(bootstrap_servers: str, topic: str):
    engine = SparkEngine({})
    steps = pipeline(value=json_converter(schemas=True), transforms=[step(halves(), {})])
    with producer(bootstrap_servers) as owner:
        result = write(engine, owner, [record(topic, n) for n in (4, 5, 6)], steps)
    assert not engine.started
    assert [one["payload"] for one in found(bootstrap_servers, topic)] == halved(4, 6)  # type: ignore[index]
    assert [one["schema"]["type"] for one in found(bootstrap_servers, topic)] == ["struct"] * 2  # type: ignore[index]
    assert read_topic(bootstrap_servers, topic)[0].key == b'{"k":4}'
    assert result.metadata is not None
    assert [one is None for one in result.metadata] == [False, True, False]


def test_functions_stand_between_other_transforms_without_a_job(
    engine: SparkEngine, bootstrap_servers: str, topic: str
):
    before, after = Sql(), InsertField()
    steps = pipeline(
        value=json_converter(),
        transforms=[
            step(before, {"where": "value.id < 8", "value": "struct(CAST(value.id + 1 AS BIGINT) AS id)"}),
            step(halves(), {}),
            step(after, {"static.field": "source", "static.value": "shop"}),
        ],
    )
    with producer(bootstrap_servers) as owner:
        for _ in range(3):
            jobs = jobs_run(engine.session())
            result = write(engine, owner, [record(topic, n) for n in range(3, 10)], steps)
            assert jobs_run(engine.session()) == jobs
    expected = [{**one, "source": "shop"} for one in halved(4, 6, 7, 8)]
    assert found(bootstrap_servers, topic) == expected * 3
    assert result.metadata is not None
    assert [one is None for one in result.metadata] == [False, True, False, False, False, True, True]
    assert read_topic(bootstrap_servers, topic)[0].key == b'{"k":3}'


def test_an_exception_names_its_record_or_skips_it_alone(engine: SparkEngine, bootstrap_servers: str, topics: Topics):
    topic, dead = topics.create(partitions=1), topics.create(partitions=1)
    records = [record(topic, n) for n in range(10, 17)]
    with producer(bootstrap_servers) as owner:
        with pytest.raises(RecordRefusedError, match=r"ValueError: thirteen.*\{'position': 13\}"):
            write(engine, owner, records, pipeline(value=json_converter(), transforms=[step(halves(), {})]))
        errors = ErrorHandling(Tolerance.ALL, dead_letter_topic=dead)
        steps = pipeline(value=json_converter(), transforms=[step(halves(), {})], errors=errors)
        result = write(engine, owner, records, steps)
    assert found(bootstrap_servers, topic) == halved(10, 11, 12, 14, 15, 16)
    assert found(bootstrap_servers, dead) == [{"id": 13}]
    assert result.errors.skipped == 1


def test_rows_of_a_dataframe_pass_a_function_on_executors(engine: SparkEngine, bootstrap_servers: str, topics: Topics):
    topic = topics.create(partitions=1)
    frame = engine.session().range(20, 3_000, numPartitions=3).selectExpr("struct(id) AS value")
    steps = pipeline(topic, value=json_converter(), transforms=[step(halves(), {})])
    with producer(bootstrap_servers) as owner:
        write(engine, owner, SourceBatch(frame, [({"frame": 1}, {"done": 1})]), steps)
    assert found(bootstrap_servers, topic) == halved(*range(20, 3_000))


def test_rows_of_a_dataframe_that_a_function_refuses_are_skipped(
    engine: SparkEngine, bootstrap_servers: str, topics: Topics
):
    topic = topics.create(partitions=1)
    frame = engine.session().range(0, 20, numPartitions=2).selectExpr("struct(id) AS value")
    steps = pipeline(topic, value=json_converter(), transforms=[Step(halves())], errors=ErrorHandling(Tolerance.ALL))
    with producer(bootstrap_servers) as owner:
        result = write(engine, owner, SourceBatch(frame, [({"frame": 1}, {"done": 1})]), steps)
    assert found(bootstrap_servers, topic) == halved(*(n for n in range(20) if n not in (5, 13)))
    assert result.errors.skipped == 1
