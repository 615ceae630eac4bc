"""The rows of small batches are collected to the driver, which never gets more than some megabytes.

The session allows at most 32 MiB of results (spark.driver.maxResultSize): a job that collects more fails.
"""

from __future__ import annotations

import pytest
from pyspark.ml.linalg import SparseVector, VectorUDT
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everywhere in Spark's own documentation
from pyspark.sql import types as t

from fencepost.spark import ExactlyOnce
from fencepost.spark.frame.few_rows import few_rows
from tests.support.checker import read_topic
from tests.support.processes import wait_for
from tests.support.spark_queries import FileQuery
from tests.support.topics import unique

MIB = 1024 * 1024


@pytest.mark.parametrize("partitions", [1, 3, 12])
def test_few_rows_are_taken_in_their_order_and_more_are_not(spark: SparkSession, partitions: int):
    numbers = spark.range(0, 100, 1, partitions)
    rows = few_rows(numbers, 100, MIB)
    assert rows is not None
    assert rows["id"].to_pylist() == list(range(100))
    assert few_rows(numbers, 99, MIB) is None
    none = few_rows(numbers.where("id < 0"), 99, MIB)
    assert none is not None
    assert none.num_rows == 0


def test_few_rows_of_an_adaptive_plan_keep_their_order(spark: SparkSession):
    sorted_rows = spark.range(0, 100, 1, 3).orderBy(F.col("id").desc())
    rows = few_rows(sorted_rows, 100, MIB)
    assert rows is not None
    assert rows["id"].to_pylist() == list(range(99, -1, -1))
    assert few_rows(sorted_rows, 99, MIB) is None


def test_few_rows_take_one_job_of_one_stage(spark: SparkSession):
    context, group = spark.sparkContext, unique("group")
    tracker = context.statusTracker()
    context.setLocalProperty("spark.jobGroup.id", group)
    try:
        few_rows(spark.range(0, 100_000, 1, 3), 1_000, MIB)
        # Spark's listeners learn of jobs later, but in order: once this job has ended, they know the earlier ones.
        spark.range(1).toArrow()
    finally:
        context.setLocalProperty("spark.jobGroup.id", None)
    wait_for(lambda: len(tracker.getJobIdsForGroup(group)) >= 2)
    jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(group)]
    assert [len(job.stageIds) for job in jobs if job is not None] == [1, 1]


@pytest.mark.parametrize("partitions", [1, 8, 12])
def test_rows_that_are_too_large_together_are_not_taken(spark: SparkSession, partitions: int):
    rows = spark.range(0, 100, 1, partitions).selectExpr("repeat('x', 20000) AS value")
    taken = few_rows(rows, 1_000, 4 * MIB)
    assert taken is not None
    assert taken["value"].to_pylist() == ["x" * 20_000] * 100
    assert few_rows(rows, 1_000, MIB) is None
    assert (
        few_rows(spark.range(0, 8_000, 1, partitions).selectExpr("repeat('x', 20000) AS value"), 1_000, 4 * MIB) is None
    )


@pytest.mark.parametrize("partitions", [1, 8, 12])
@pytest.mark.parametrize("place", [0, 50, 99])
def test_one_large_row_among_small_ones_is_not_taken(spark: SparkSession, partitions: int, place: int):
    large = F.when(F.col("id") == place, F.expr("repeat(left(CAST(id AS STRING), 1), 50000000)")).otherwise(
        F.col("id").cast("string")
    )
    assert few_rows(spark.range(0, 100, 1, partitions).select(large.alias("value")), 1_000, 4 * MIB) is None


def test_large_rows_of_an_adaptive_plan_are_not_taken(spark: SparkSession):
    rows = spark.range(0, 2_000, 1, 3).selectExpr("id", "repeat('x', 50000) AS value").orderBy(F.col("id").desc())
    assert few_rows(rows.drop("id"), 1_000, 4 * MIB) is None
    assert few_rows(rows.drop("id"), 5_000, 4 * MIB) is None


_TEXT = "repeat('x', 30000)"


@pytest.mark.parametrize(
    "value",
    [
        _TEXT,
        f"CAST({_TEXT} AS BINARY)",
        f"named_struct('a', 1, 'b', named_struct('c`d', {_TEXT}, 'e', CAST(NULL AS STRING)))",
        f"array('', NULL, {_TEXT})",
        f"array(array({_TEXT}), NULL, array(NULL))",
        f"map('k', array(named_struct('a', {_TEXT})))",
        f"map({_TEXT}, 1)",
        "sequence(1, 4000)",
        f"parse_json(concat('\"', {_TEXT}, '\"'))",
    ],
)
def test_the_size_of_rows_is_known_for_any_type(spark: SparkSession, value: str):
    rows = spark.range(0, 100, 1, 2).selectExpr(f"{value} AS value", "CAST(NULL AS ARRAY<STRING>) AS headers")
    assert few_rows(rows, 1_000, MIB) is None
    taken = few_rows(rows, 1_000, 16 * MIB)
    assert taken is not None
    assert taken.to_pylist() == rows.toArrow().to_pylist()


def test_rows_of_all_types_are_taken_as_they_are(spark: SparkSession):
    rows = spark.range(0, 3, 1, 2).selectExpr(
        "named_struct('a', id, 'b', 1.5BD, 'c', true, 'd', DATE '2026-11-22', 'e', TIMESTAMP '2026-11-22 01:02:03', "
        "'f', TIMESTAMP_NTZ '2026-11-22 01:02:03', 'g', 1.5F, 'h', INTERVAL '1' DAY, 'i', NULL, 'j', X'00ff', "
        "'k', map('a', array(1, NULL)), 'l', TIME '01:02:03') AS value",
        "CAST(id AS INT) AS partition",
    )
    taken = few_rows(rows, 1_000, MIB)
    assert taken is not None
    assert taken.to_pylist() == rows.toArrow().to_pylist()


def test_a_vector_is_taken_to_the_driver(spark: SparkSession):
    schema = t.StructType([t.StructField("value", VectorUDT())])
    rows = spark.createDataFrame([(SparseVector(1_000_000, {7: 1.5}),)], schema)
    taken = few_rows(rows, 10, MIB)
    assert taken is not None
    assert taken.to_pylist() == rows.toArrow().to_pylist()


def test_rows_with_fields_that_differ_in_case_only_are_left_to_executors(spark: SparkSession):
    assert few_rows(spark.range(3).selectExpr("named_struct('a', 'x', 'A', 'y') AS value"), 10, MIB) is None


def test_a_burst_of_large_rows_after_a_small_batch_is_written_by_executors(
    query: FileQuery, sink: ExactlyOnce, name: str, bootstrap_servers: str
):
    def burst(frame: DataFrame) -> DataFrame:
        numbers = frame.select(F.explode(F.sequence(F.lit(1), F.col("value").cast("int"))).alias("number"))
        return numbers.selectExpr("CAST(number AS STRING) AS key", "repeat('x', IF(number > 3, 100000, 1)) AS value")

    query.shape = burst
    for last in ("3", "900", "3", "2"):
        query.add(last)
    query.run()
    sizes = [(int(record.key or b""), len(record.value or b"")) for record in read_topic(bootstrap_servers, name)]
    # sequence(1, 0) counts down.
    once = [(0, 1), *((number, 1) for last in (1, 1, 2, 3, 3, 3, 2) for number in range(1, last + 1))]
    assert sorted(sizes) == sorted([*once, *((number, 100_000) for number in range(4, 901))])
    assert [sink.statistics[0].transactions, sink.statistics[0].retries] == [5, 0]
