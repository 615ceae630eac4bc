"""Batches with many refused rows: one pass finds each of them with its own error, and the others are written."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everywhere in Spark's own documentation

from fencepost.api.config_def import ConfigDef
from fencepost.api.plugin import Transformation
from fencepost.api.record import SourceBatch, SourceRecord
from fencepost.config.error_handling import ErrorHandling, Tolerance
from fencepost.engine import batch_write
from fencepost.engine.engine import SparkEngine
from fencepost.engine.spark.row_check import RowCheck
from fencepost.transforms.cast import Cast
from fencepost.transforms.chain import Step
from fencepost.transforms.sql import Sql
from tests.broker.engine.spark.test_engine_transforms import jobs_run
from tests.support.checker import read_topic
from tests.support.engine import NumberReader, json_converter, pipeline, producer, splits, write
from tests.support.topics import Topics

TEXT = "CASE WHEN value % 10 < 5 THEN concat('no', value) ELSE value END"


def sql(**properties: str) -> Step:
    transform = Sql()
    transform.configure(properties)
    return Step(transform)


def numbers(count: int, topic: str) -> list[SourceRecord]:
    """Texts, every third of which is not a number."""
    texts = [f"no{n}" if n % 3 == 0 else str(n) for n in range(count)]
    return [SourceRecord({"s": 1}, {"n": n}, topic, {"text": text, "n": n}) for n, text in enumerate(texts)]


def refusals(session: SparkSession, rows: pa.RecordBatch, schema: str, *steps: Any) -> list[tuple[int, str]] | None:
    """The refused rows of a batch with their errors; each step is a function from DataFrame to DataFrame."""
    frame = table = session.createDataFrame(session.sparkContext.emptyRDD(), schema)
    for step in steps:
        frame = step(frame)
    check = RowCheck.of(frame, table)
    return None if check is None else [(position, str(error)) for position, error in check.refused(rows)]


def test_each_refused_row_has_its_own_error(engine: SparkEngine):
    rows = pa.RecordBatch.from_pydict({"a": ["x0", "1", "x2", "x3", "4", "x5"]})
    found = refusals(engine.session(), rows, "a STRING", lambda frame: frame.select(F.col("a").cast("INT")))
    assert found is not None
    assert [position for position, _ in found] == [0, 2, 3, 5]
    assert [f"'x{position}'" in error for position, error in found] == [True] * 4
    assert refusals(engine.session(), rows, "a STRING", lambda frame: frame.select(F.length("a"))) == []


def test_a_row_after_a_refused_one_is_not_taken_for_another(engine: SparkEngine):
    rows = pa.RecordBatch.from_pydict({"a": ["x", "y", "x", "x", "z"]})
    pairs = F.create_map(F.col("a"), F.lit(1), F.lit("x"), F.lit(2))
    found = refusals(engine.session(), rows, "a STRING", lambda frame: frame.select(pairs))
    assert found is not None
    assert [position for position, _ in found] == [0, 2, 3], "a map's expression keeps the keys of a refused row"


def test_expressions_with_random_values_refuse_no_row(engine: SparkEngine):
    rows = pa.RecordBatch.from_pydict({"a": ["1", "x", "2"]})
    found = refusals(
        engine.session(), rows, "a STRING", lambda frame: frame.select(F.rand(), F.uuid(), F.col("a").cast("INT"))
    )
    assert found is not None
    assert [position for position, _ in found] == [1]


def test_what_a_filter_drops_is_not_evaluated_after_it(engine: SparkEngine):
    rows = pa.RecordBatch.from_pydict({"a": ["1", "x", None, "y", "2", "12"]})
    number = F.col("a").cast("INT")
    steps = [
        lambda frame: frame.where(F.col("a") != "x"),
        lambda frame: frame.select(number.alias("a"), (number + F.length("a")).alias("b")),
        lambda frame: frame.where(F.assert_true(F.col("b") < 14).isNull()).select(F.col("a") / (F.col("a") - 2)),
    ]
    found = refusals(engine.session(), rows, "a STRING", *steps)
    assert found is not None
    assert [position for position, _ in found] == [3, 4, 5]
    assert "DIVIDE_BY_ZERO" in found[1][1]


def test_rows_with_refused_items_of_arrays_are_found(engine: SparkEngine):
    arrays = [["1", "2"], ["3", "x", "y"], [], None, ["4"], ["z"], ["12", "13"], ["5"]]
    rows = pa.RecordBatch.from_pydict({"a": arrays, "b": ["0", "0", "0", "0", "0", "0", "0", "x"]})
    number = F.col("item").cast("INT")
    steps = [
        lambda frame: frame.select("b", F.explode("a").alias("item")),
        lambda frame: frame.where(F.col("b").cast("INT") == 0).select(
            F.explode(F.array(number, 13 - number)).alias("n")
        ),
        lambda frame: frame.where(F.col("n") < 9).select(1 / F.col("n")),
    ]
    found = refusals(engine.session(), rows, "a ARRAY<STRING>, b STRING", *steps)
    assert found is not None
    assert [position for position, _ in found] == [1, 5, 6, 7]
    assert ["'x'" in found[0][1], "'z'" in found[1][1], "DIVIDE_BY_ZERO" in found[2][1]] == [True] * 3


def test_a_plan_of_other_rows_has_no_check(engine: SparkEngine):
    rows = pa.RecordBatch.from_pydict({"a": ["x"]})
    other = engine.session().createDataFrame(engine.session().sparkContext.emptyRDD(), "a STRING")
    assert refusals(engine.session(), rows, "a STRING", lambda _: other.select(F.col("a").cast("INT"))) is None


def test_a_plan_with_more_than_rows_and_arrays_has_no_check(engine: SparkEngine):
    rows = pa.RecordBatch.from_pydict({"a": [["1"], ["x"]]})
    sizes = [lambda frame: frame.groupBy("a").count()]
    assert refusals(engine.session(), rows, "a ARRAY<STRING>", *sizes) is None


@pytest.mark.parametrize("chain", ["one", "several", "exploded"])
def test_many_refused_records_cost_no_attempts_of_their_own(
    engine: SparkEngine, bootstrap_servers: str, topics: Topics, monkeypatch: pytest.MonkeyPatch, chain: str
):
    """Refused records are found together, not each by an attempt of its own."""
    topic, dead = topics.create(partitions=1), topics.create(partitions=1)
    attempts: list[int] = []
    whole = batch_write.transform_group

    def counted(session: Any, group: Any, *more: Any) -> Any:
        attempts.append(group.columns.num_rows)
        return whole(session, group, *more)

    monkeypatch.setattr(batch_write, "transform_group", counted)
    transforms = [sql(value="named_struct('n', CAST(value.text AS INT))", where="value.n <> 3")]
    if chain == "several":
        cast = Cast()
        cast.configure({"spec": "text:int32"})
        transforms = [sql(where="value.n <> 3"), Step(cast), sql(value="named_struct('n', value.text)")]
    if chain == "exploded":
        transforms = [
            sql(explode="array(value.text)", value="named_struct('n', CAST(item AS INT))", where="value.n <> 3")
        ]
    errors = ErrorHandling(Tolerance.ALL, dead_letter_topic=dead)
    steps = pipeline(value=json_converter(), transforms=transforms, errors=errors)
    with producer(bootstrap_servers) as owner:
        result = write(engine, owner, numbers(60, topic), steps)
    assert [json.loads(one.value or b"")["n"] for one in read_topic(bootstrap_servers, topic)] == [
        n for n in range(60) if n % 3
    ]
    letters = read_topic(bootstrap_servers, dead)
    assert [json.loads(letter.value or b"")["text"] for letter in letters] == [
        f"no{n}" for n in range(0, 60, 3) if n != 3
    ]
    for letter in letters:
        told = dict(letter.headers)["__connect.errors.exception.message"] or b""
        assert f"'{json.loads(letter.value or b'')['text']}'".encode() in told
    assert result.errors.skipped == 19
    assert attempts == [60, 41]


class AsNumber(Transformation):
    """An author's own transform, which Spark plans again for each batch."""

    def config(self) -> ConfigDef:
        return ConfigDef()

    def configure(self, configs: Mapping[str, str]) -> None:
        pass

    def apply(self, records: DataFrame) -> DataFrame:
        return records.withColumn("value", F.expr(f"CAST(CAST({TEXT} AS INT) AS STRING)"))


@pytest.mark.parametrize("kind", ["sql", "filtered", "exploded", "author"])
def test_many_refused_rows_of_a_large_batch_cost_no_jobs_of_their_own(
    engine: SparkEngine, bootstrap_servers: str, topics: Topics, kind: str
):
    topic, dead = topics.create(partitions=1), topics.create(partitions=1)
    changed = {
        "sql": sql(value=f"CAST(CAST({TEXT} AS INT) AS STRING)"),
        "filtered": sql(where=f"CAST({TEXT} AS INT) >= 0"),
        "exploded": sql(explode=f"array({TEXT})", value="CAST(CAST(item AS INT) AS STRING)"),
        "author": Step(AsNumber()),
    }[kind]
    errors = ErrorHandling(Tolerance.ALL, dead_letter_topic=dead)
    steps = pipeline(topic, transforms=[changed], errors=errors)
    with producer(bootstrap_servers) as owner:
        before = jobs_run(engine.session())
        result = write(engine, owner, SourceBatch(reader=NumberReader(), splits=splits(400, 2)), steps)
        jobs = jobs_run(engine.session()) - before
    found = [int(one.value or b"") for one in read_topic(bootstrap_servers, topic)]
    assert sorted(found) == [n for n in range(400) if n % 10 >= 5]
    assert (result.written, result.errors.skipped) == (200, 200)
    letters = [int(one.value or b"") for one in read_topic(bootstrap_servers, dead)]
    assert sorted(letters) == [n for n in range(400) if n % 10 < 5]
    assert jobs < 20
