"""Python functions as transforms: in the worker without Spark, next to other transforms, and on executors."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from fencepost import DataError, transform
from fencepost.api.record import SourceBatch, SourceRecord
from fencepost.config.error_handling import ErrorHandling, Tolerance
from fencepost.engine.engine import SparkEngine
from fencepost.engine.errors import RecordRefusedError
from fencepost.transforms.chain import Step
from fencepost.transforms.declared_function import ROW_INDEX
from fencepost.transforms.fields import InsertField
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


def test_an_exception_names_its_record_or_skips_only_that_one(
    engine: SparkEngine, bootstrap_servers: str, topics: Topics
):
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


class RowReader:
    """Reads numbers as rows with all columns that a reader may provide."""

    schema = "value STRUCT<id: BIGINT>, key STRING, topic STRING, timestamp TIMESTAMP"

    def __init__(self, topic: str) -> None:
        self._topic = topic

    def place(self, split: range, row: int) -> dict[str, int]:
        return {"number": split[row]}

    def read(self, split: range) -> Iterator[pa.RecordBatch]:
        count = len(split)
        yield pa.RecordBatch.from_pydict(
            {
                "value": pa.array([{"id": n} for n in split], pa.struct([("id", pa.int64())])),
                "key": pa.array([str(n) for n in split]),
                "topic": pa.nulls(count, pa.string()),
                "timestamp": pa.array([dt.datetime(2024, 1, 1, tzinfo=dt.UTC)] * count, pa.timestamp("us", "UTC")),
            }
        )


@transform(schema="topic STRING, value STRUCT<id: BIGINT, at: BIGINT>", on="record")
def rerouted(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Puts odd numbers into another topic, and the timestamp into the value."""
    numbers = rows["value"].field("id")
    odd = pc.equal(pc.bit_wise_and(numbers, 1), 1)
    value = pa.StructArray.from_arrays([numbers, rows["timestamp"]], ["id", "at"])
    topic = pc.if_else(odd, pc.binary_join_element_wise(rows["topic"], pa.scalar("odd"), "-"), rows["topic"])
    return pa.RecordBatch.from_pydict({"topic": topic, "value": value})


def rows_of(topic: str, size: int | None, *numbers: range) -> SourceBatch:
    return SourceBatch(reader=RowReader(topic), splits=list(numbers), bytes=size)


@pytest.mark.parametrize("size", [100, None])
def test_rows_of_a_reader_pass_a_function_where_they_are_written(
    engine: SparkEngine, bootstrap_servers: str, topics: Topics, size: int | None
):
    topic = topics.create(partitions=2)
    other = topics.create(f"{topic}-odd", partitions=1)
    steps = pipeline(topic, value=json_converter(), transforms=[step(rerouted(), {})])
    with producer(bootstrap_servers) as owner:
        write(engine, owner, rows_of(topic, size, range(10), range(10, 20)), steps)
    assert found(bootstrap_servers, other) == [{"id": n, "at": 1_704_067_200_000} for n in range(1, 20, 2)]
    even = read_topic(bootstrap_servers, topic)
    assert sorted(int(one.key) for one in even) == list(range(0, 20, 2))
    assert {one.timestamp for one in even} == {1_704_067_200_000}


@pytest.mark.parametrize("size", [100, None])
def test_rows_of_a_reader_that_a_function_refuses_are_skipped(
    engine: SparkEngine, bootstrap_servers: str, topics: Topics, size: int | None
):
    topic, dead = topics.create(partitions=1), topics.create(partitions=1)
    errors = ErrorHandling(Tolerance.ALL, dead_letter_topic=dead)
    steps = pipeline(topic, value=json_converter(), transforms=[Step(halves(), alias="t")])
    with producer(bootstrap_servers) as owner:
        with pytest.raises(RecordRefusedError, match=r"ValueError: thirteen.* \(transforms\.t\)"):
            write(engine, owner, rows_of(topic, size, range(20)), steps)
        result = write(engine, owner, rows_of(topic, size, range(20)), replace(steps, errors=errors))
    assert found(bootstrap_servers, topic) == halved(*(n for n in range(20) if n not in (5, 13)))
    assert result.errors.skipped == 1
    assert len(read_topic(bootstrap_servers, dead)) == 1


@transform(schema="id BIGINT")
def strict(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Refuses 13 and 17."""
    return pa.RecordBatch.from_pydict({"id": pa.array([_checked(number) for number in rows["id"].to_pylist()])})


def _checked(number: int) -> int:
    if number == 13:
        raise DataError("thirteen is no number.")
    return int("seventeen" if number == 17 else number)


_INT = "    return int("
_LINES = Path(__file__).read_text().splitlines()
LINES = {
    13: next(n for n, line in enumerate(_LINES, 1) if 'raise DataError("thirteen' in line),
    17: next(n for n, line in enumerate(_LINES, 1) if line.startswith(_INT)),
}
TOLD = {13: "thirteen is no number", 17: "invalid literal for int() with base 10: 'seventeen'"}


@pytest.mark.parametrize("number", [13, 17])
@pytest.mark.parametrize("how", ["polled", "small", "large", "frame", "beside"])
def test_a_refused_row_is_named_with_the_function_and_its_line(
    engine: SparkEngine, bootstrap_servers: str, topic: str, *, how: str, number: int
):
    first = number - 2
    batch: Any = rows_of(topic, 100 if how == "small" else None, range(0), range(first, number), range(number, 20))
    place, chain = f"It is at number {number}.", [step(strict(), {})]
    if how == "polled":
        batch, place = [record(topic, number)], f"the source offset {{'position': {number}}}"
    if how == "frame":
        frame = engine.session().range(first, 20, numPartitions=1).selectExpr("struct(id) AS value")
        batch, place = SourceBatch(frame, [({"frame": 1}, {"done": 1})]), ""
    if how == "beside":
        chain.append(step(Sql(), {"key": "value.id"}))
    with producer(bootstrap_servers) as owner, pytest.raises(RecordRefusedError) as failure:
        write(engine, owner, batch, pipeline(topic, value=json_converter(), transforms=chain))
    told = str(failure.value)
    assert f"{TOLD[number]} ({__file__}:{LINES[number]})." in told
    assert "TRANSFORMATION (strict" in told
    assert place in told


def test_a_small_batch_through_functions_starts_no_spark(bootstrap_servers: str, topics: Topics):
    engine, topic = SparkEngine({}), topics.create(partitions=1)
    steps = pipeline(topic, value=json_converter(), transforms=[step(halves(), {})])
    with producer(bootstrap_servers) as owner:
        write(engine, owner, rows_of(topic, 100, range(4)), steps)
    assert not engine.started
    assert found(bootstrap_servers, topic) == halved(0, 1, 2, 3)


def test_a_time_before_1970_is_refused_as_without_a_function(
    engine: SparkEngine, bootstrap_servers: str, topics: Topics
):
    class Early(RowReader):
        def read(self, split: range) -> Iterator[pa.RecordBatch]:
            for batch in super().read(split):
                column = pa.array([-1] * batch.num_rows, pa.timestamp("us", "UTC"))
                yield batch.set_column(3, "timestamp", column)

    topic = topics.create(partitions=1)
    steps = pipeline(topic, value=json_converter(), transforms=[step(rerouted(), {})])
    batch = SourceBatch(reader=Early(topic), splits=[range(2)], bytes=100)
    with producer(bootstrap_servers) as owner, pytest.raises(RecordRefusedError, match="before 1970"):
        write(engine, owner, batch, steps)
