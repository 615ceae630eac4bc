"""Micro-batches of exactly_once: one transaction each, with its progress."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everywhere in Spark's own documentation

from fencepost.spark import ExactlyOnce, exactly_once
from fencepost.spark.frame.rows import record_columns
from tests.support.checker import read_topic
from tests.support.spark_queries import FileQuery, functions, numbered, progress_of, texts
from tests.support.topics import Topics


def test_each_micro_batch_is_one_transaction_with_its_progress(query: FileQuery, name: str, bootstrap_servers: str):
    query.add("3", "4")
    query.run()
    query.add("5")
    query.run()
    assert texts(bootstrap_servers, name) == ["0", "1", "2", "3", "4", "5"]
    assert [found["batch"] for found in progress_of(bootstrap_servers, name)] == [0, 1, 2]


def test_the_function_shows_its_commits(query: FileQuery, name: str, sink: ExactlyOnce):
    query.add("3", "4")
    query.run()
    (first,) = sink.statistics
    assert (first.sink, first.transactional_id) == (name, f"fencepost-sink-{name}")
    assert (first.records, first.transactions, first.skipped, first.last_batch) == (5, 2, 0, 1)
    assert first.bytes > 0
    query.forget_commit(1)
    query.add("5")
    query.run()
    (second,) = sink.statistics
    assert (second.records, second.transactions, second.skipped, second.last_batch) == (1, 1, 1, 2)


def test_keyed_rows_of_small_and_large_batches_keep_their_order(query: FileQuery, name: str, bootstrap_servers: str):
    def spread(frame: DataFrame) -> DataFrame:
        rows = frame.select(F.explode(F.sequence(F.lit(0), F.col("value").cast("int"))).alias("number"))
        return rows.selectExpr("CAST(number % 5 AS STRING) AS key", "CAST(number AS STRING) AS value")

    query.shape = spread
    for last in (499, 1_499, 499):
        query.add(str(last))
    query.run()
    by_key: dict[bytes | None, list[int]] = {}
    for record in read_topic(bootstrap_servers, name):
        by_key.setdefault(record.key, []).append(int(record.value or b""))
    expected = [*range(1), *range(2), *range(3), *range(500), *range(1_500), *range(500)]
    assert by_key == {str(k).encode(): [n for n in expected if n % 5 == k] for k in range(5)}


def test_columns_of_records_need_no_select(spark: SparkSession, sink: ExactlyOnce):
    rows = spark.range(1).selectExpr("string(id) AS value")
    assert record_columns(rows, sink._config) is rows
    assert record_columns(rows.selectExpr("*", "1 AS other"), sink._config).columns == ["value"]


def test_one_query_may_have_several_sinks(spark: SparkSession, bootstrap_servers: str, topics: Topics, tmp_path: Path):
    kafka = {"bootstrap.servers": bootstrap_servers}
    one, two = topics.create(), topics.create()
    query = FileQuery(spark, tmp_path, functions(exactly_once(topic=one, **kafka), exactly_once(topic=two, **kafka)))
    query.add("0")
    query.run()
    query.forget_commit(0)
    query.run()
    assert texts(bootstrap_servers, one) == texts(bootstrap_servers, two) == ["0"]


def test_two_functions_for_one_sink_in_one_query_are_refused(query: FileQuery, name: str, bootstrap_servers: str):
    kafka = {"bootstrap.servers": bootstrap_servers}
    one, two = (exactly_once(topic=name, name=name, **kafka) for _ in range(2))
    query.function = functions(one, two)
    assert "give each a name of its own" in query.refusal()


def test_a_large_batch_is_in_one_transaction(
    spark: SparkSession, sink: ExactlyOnce, name: str, bootstrap_servers: str, tmp_path: Path
):
    def many(frame: DataFrame) -> DataFrame:
        rows = frame.select(F.explode(F.sequence(F.lit(0), F.lit(19_999))).alias("number"))
        return rows.selectExpr("CAST(number AS STRING) AS value")

    query = FileQuery(spark, tmp_path, sink, many)
    query.add("once")
    query.run()
    assert texts(bootstrap_servers, name) == sorted(numbered(0, 20_000))


@pytest.mark.parametrize("count", [10, 2_000], ids=["small", "large"])
def test_refused_rows_are_dead_letters_of_the_same_transaction(
    query: FileQuery, name: str, bootstrap_servers: str, topics: Topics, count: int
):
    letters = topics.create()
    options = {
        "bootstrap.servers": bootstrap_servers,
        "value.converter": "ByteArrayConverter",
        "errors.tolerance": "all",
        "errors.deadletterqueue.topic.name": letters,
    }
    query.function = exactly_once(topic=name, name=name, **options)
    query.run()
    query.add(*numbered(0, count))
    query.run()
    assert texts(bootstrap_servers, name) == []
    assert texts(bootstrap_servers, letters) == sorted(["0", "1", "2", *numbered(0, count)])
    headers = dict(read_topic(bootstrap_servers, letters)[0].headers)
    assert headers["__connect.errors.connector.name"] == name.encode()
