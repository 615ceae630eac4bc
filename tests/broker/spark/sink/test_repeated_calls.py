"""Several calls of the sink for one micro-batch: a call is skipped only if its rows are surely the same as before."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everywhere in Spark's own documentation

from fencepost.spark import ExactlyOnce, exactly_once, write_kafka
from tests.support.spark_queries import FileQuery, functions, texts
from tests.support.topics import Topics

_PARTS = (["a", "b"], ["c", "d"])
_REFUSED = "was called twice for batch 0, with two DataFrames, or with one that is read anew"


def stage_in_path(spark: SparkSession, folder: Path, part: list[str]) -> DataFrame:
    stage = str(folder / "stage")
    spark.createDataFrame([(value,) for value in part], "value STRING").write.mode("overwrite").parquet(stage)
    return spark.read.parquet(stage)


def stage_in_table(spark: SparkSession, folder: Path, part: list[str]) -> DataFrame:
    table = f"stage_{folder.name.replace('-', '_')}"
    rows = spark.createDataFrame([(value,) for value in part], "value STRING")
    rows.write.mode("overwrite").option("path", str(folder / "table")).saveAsTable(table)
    return spark.table(table)


def stage_in_view(spark: SparkSession, folder: Path, part: list[str]) -> DataFrame:
    stage_in_path(spark, folder, part).createOrReplaceTempView("stage_view")
    return spark.sql("SELECT upper(value) AS value FROM stage_view")


@pytest.mark.parametrize("stage", [stage_in_path, stage_in_table, stage_in_view])
def test_a_batch_that_is_staged_part_by_part_is_refused(
    query: FileQuery,
    sink: ExactlyOnce,
    name: str,
    bootstrap_servers: str,
    stage: Callable[[SparkSession, Path, list[str]], DataFrame],
):
    def parts(_frame: DataFrame, batch: int) -> None:
        for part in _PARTS:
            sink(stage(query.spark, query.folder, part), batch)

    query.function = parts
    first = [value.upper() for value in _PARTS[0]] if stage is stage_in_view else _PARTS[0]
    # In the second run, Kafka has the rows of the first call already.
    for _ in range(2):
        told = query.refusal()
        assert _REFUSED in told
        assert "first.batch=0" in told
        assert texts(bootstrap_servers, name) == first


def test_a_table_that_is_written_between_two_calls_is_refused(
    query: FileQuery, sink: ExactlyOnce, name: str, bootstrap_servers: str
):
    def parts(_frame: DataFrame, batch: int) -> None:
        staged = stage_in_table(query.spark, query.folder, _PARTS[0])
        sink(staged, batch)
        query.spark.createDataFrame([("c",)], "value STRING").write.insertInto(
            f"stage_{query.folder.name.replace('-', '_')}"
        )
        sink(staged, batch)

    query.function = parts
    assert _REFUSED in query.refusal()
    assert texts(bootstrap_servers, name) == _PARTS[0]


def test_the_very_same_dataframe_adds_nothing(query: FileQuery, sink: ExactlyOnce, name: str, bootstrap_servers: str):
    def twice(frame: DataFrame, batch: int) -> None:
        rows = stage_in_path(query.spark, query.folder, _PARTS[0]) if batch == 0 else frame
        sink(rows, batch)
        sink(rows, batch)

    query.function = twice
    query.add("3")
    query.run()
    query.forget_commit(1)
    query.run()
    assert texts(bootstrap_servers, name) == ["3", "a", "b"]


_EVEN, _ODD = "CAST(value AS BIGINT) = 0", "CAST(value AS BIGINT) = -1"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        # Spark's semanticHash of the two plans is the same.
        (lambda rows: rows.where(_EVEN), lambda rows: rows.where(_ODD)),
        (lambda rows: rows.select(F.udf(lambda value: value.upper())("value").alias("value")),) * 2,
        (lambda rows: rows.where(F.rand(7) < 2),) * 2,
        (lambda rows: rows.dropDuplicates(),) * 2,
        (lambda rows: rows, lambda rows: rows.where("true")),
        (lambda rows: rows, lambda rows: rows.sparkSession.createDataFrame(rows.rdd, rows.schema)),
    ],
    ids=["another filter", "a function", "random", "an aggregate", "a part", "another RDD"],
)
def test_two_dataframes_of_a_batch_that_may_differ_are_refused(
    query: FileQuery,
    sink: ExactlyOnce,
    one: Callable[[DataFrame], DataFrame],
    other: Callable[[DataFrame], DataFrame],
):
    def parts(frame: DataFrame, batch: int) -> None:
        sink(one(frame), batch)
        sink(other(frame), batch)

    query.function = parts
    assert _REFUSED in query.refusal()


def test_a_batch_that_failed_between_two_calls_is_refused(query: FileQuery, name: str, bootstrap_servers: str):
    failed = query.folder / "failed"

    def parts(frame: DataFrame, batch: int) -> None:
        function = exactly_once(topic=name, name=name, **{"bootstrap.servers": bootstrap_servers})
        function(frame.where("value < '1'"), batch)
        if not failed.exists():
            failed.touch()
            raise RuntimeError("between the calls")
        function(frame.where("value >= '1'"), batch)

    query.function = parts
    assert "between the calls" in query.refusal()
    assert _REFUSED in query.refusal()
    assert texts(bootstrap_servers, name) == ["0"]


def test_two_spellings_of_the_servers_are_one_cluster(query: FileQuery, name: str, bootstrap_servers: str):
    other = bootstrap_servers.replace("127.0.0.1", "localhost")
    assert other != bootstrap_servers
    query.function = functions(
        *(
            exactly_once(topic=name, name=name, **{"bootstrap.servers": servers})
            for servers in (bootstrap_servers, other)
        )
    )
    assert f"Two functions of exactly_once(...) write to sink {name} in one query" in query.refusal()
    assert texts(bootstrap_servers, name) == ["0", "1", "2"]


def test_another_spelling_of_the_servers_means_the_same_sink(query: FileQuery, name: str, bootstrap_servers: str):
    def parts(frame: DataFrame, batch: int) -> None:
        for number, servers in enumerate((bootstrap_servers, bootstrap_servers.replace("127.0.0.1", "localhost"))):
            function = exactly_once(topic=name, name=name, **{"bootstrap.servers": servers})
            function(frame.where(f"value {'<' if number == 0 else '>='} '1'"), batch)

    query.function = parts
    assert _REFUSED in query.refusal()
    assert texts(bootstrap_servers, name) == ["0"]


def test_a_run_in_kafka_is_reported_if_the_dataframe_differs(
    spark: SparkSession, bootstrap_servers: str, topics: Topics, caplog: pytest.LogCaptureFixture
):
    topic, options = topics.create(), {"bootstrap.servers": bootstrap_servers}
    write_kafka(spark.range(2).selectExpr("id AS value"), topic=topic, run="1", **options)
    with caplog.at_level(logging.WARNING):
        assert write_kafka(spark.range(2, 4).selectExpr("id AS value"), topic=topic, run="1", **options).skipped
    assert f"The run 1 of sink {topic} is in Kafka" in caplog.text
    assert "write them as another run" in caplog.text
    assert texts(bootstrap_servers, topic) == ["0", "1"]
