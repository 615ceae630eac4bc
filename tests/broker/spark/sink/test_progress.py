"""`query.lastProgress["sink"]` says how much was committed."""

from __future__ import annotations

import logging
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
from pyspark.sql import DataFrame, SparkSession

from fencepost.spark import ExactlyOnce, exactly_once
from fencepost.spark.query.sink_metrics import SinkMetrics
from fencepost.spark.query.streaming_batch import StreamingBatch
from fencepost.spark.written import SinkStatistics
from tests.support.processes import wait_for
from tests.support.spark_queries import FileQuery
from tests.support.topics import Topics, unique


def finished(query: FileQuery) -> list[Any]:
    """Run a query to its end, and return the progress of each batch."""
    running = query.start()
    try:
        assert running.awaitTermination(500), "the query did not end"
        return [progress for progress in running.recentProgress if progress["numInputRows"]]
    finally:
        running.stop()


def test_the_progress_of_each_batch_has_the_metrics_up_to_it(query: FileQuery, name: str, sink: ExactlyOnce):
    query.add("3", "4")
    before = datetime.now(UTC) - timedelta(milliseconds=1)
    first, second = (progress["sink"] for progress in finished(query))
    (known,) = sink.statistics
    assert first["description"] == second["description"] == "ForeachBatchSink"
    assert {key: first["metrics"][key] for key in ("records", "transactions")} == {"records": "3", "transactions": "1"}
    commit = second["metrics"].pop("lastCommit")
    assert commit.endswith("Z")
    assert before <= datetime.fromisoformat(commit) <= datetime.now(UTC)
    assert second["metrics"] == {
        "records": "5",
        "bytes": str(known.bytes),
        "transactions": "2",
        "retries": "0",
        "skipped": "0",
        "transactionalId": f"fencepost-sink-{name}",
    }


def test_the_progress_of_a_new_run_counts_from_its_start(query: FileQuery):
    finished(query)
    query.forget_commit(0)
    query.add("3", "4")
    skipped, written = (progress["sink"]["metrics"] for progress in finished(query))
    assert (skipped["records"], skipped["skipped"]) == ("0", "1")
    assert "lastCommit" not in skipped
    assert (written["records"], written["skipped"]) == ("2", "1")


def test_the_progress_without_new_rows_keeps_the_metrics(query: FileQuery, spark: SparkSession):
    spark.conf.set("spark.sql.streaming.noDataProgressEventInterval", "100ms")
    running = query.start(available_now=False)

    def reported(batch: int, rows: int) -> Any:
        last = running.lastProgress
        return last if last and (last["batchId"], last["numInputRows"]) == (batch, rows) else None

    try:
        idle = wait_for(lambda: reported(batch=1, rows=0), 60, what="progress without rows")
        assert idle["sink"]["metrics"]["records"] == "3"
        query.add("3", "4")
        idle = wait_for(lambda: reported(batch=2, rows=0), 60, what="progress without rows")
        assert idle["sink"]["metrics"]["records"] == "5"
    finally:
        running.stop()
        spark.conf.unset("spark.sql.streaming.noDataProgressEventInterval")


def test_the_progress_of_a_query_with_two_sinks_has_their_sums(
    query: FileQuery, sink: ExactlyOnce, topics: Topics, bootstrap_servers: str
):
    other_name = topics.create(unique("other"))
    other = exactly_once(topic=other_name, name=other_name, **{"bootstrap.servers": bootstrap_servers})

    def both(frame: DataFrame, batch: int) -> None:
        sink(frame, batch)
        other(frame.limit(1), batch)

    query.function = both
    (progress,) = finished(query)
    metrics = progress["sink"]["metrics"]
    assert (metrics["records"], metrics["transactions"]) == ("4", "2")
    ids = [found.transactional_id for one in (sink, other) for found in one.statistics]
    assert metrics["transactionalId"] == ", ".join(ids)


def test_metrics_that_spark_does_not_take_fail_nothing(spark: SparkSession, caplog: pytest.LogCaptureFixture):
    unknown = StreamingBatch(query=str(uuid4()), run=str(uuid4()), batch=0, timestamp_ms=None)
    with caplog.at_level(logging.DEBUG, logger="fencepost.spark.query.sink_metrics"):
        SinkMetrics().report(spark.range(1), unknown, SinkStatistics("orders", "fencepost-sink-orders"))
    assert "has no metrics of sink orders" in caplog.text
