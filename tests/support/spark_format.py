"""Helpers for tests of format("fencepost"): rows, writes, and a way to wait for a write."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everywhere in Spark's own documentation

from tests.support.checker import read_topic
from tests.support.processes import wait_for

COUNT = 40_000
PATIENCE = 500.0
"""How many seconds Spark may take to retry a task on a busy machine."""


def values(spark: SparkSession, partitions: int, count: int = COUNT) -> DataFrame:
    """The numbers below `count` as text."""
    return spark.range(0, count, numPartitions=partitions).select(F.col("id").cast("string").alias("value"))


def save(frame: DataFrame, servers: str, topic: str, **options: str) -> None:
    given = {"kafka.bootstrap.servers": servers, "topic": topic, **options}
    frame.write.format("fencepost").options(**given).mode("append").save()


def numbers(servers: str, topic: str) -> list[int]:
    return sorted(int(record.value or b"") for record in read_topic(servers, topic))


@contextmanager
def waits_until_written(servers: str, topic: str, file: Path) -> Iterator[Callable[[], None]]:
    """Gives a function with which a Python worker waits until the topic has records of the open transaction."""
    ended = threading.Event()

    def watch() -> None:
        wait_for(lambda: ended.is_set() or read_topic(servers, topic, isolation="read_uncommitted") != [], PATIENCE)
        file.touch()

    def wait() -> None:
        deadline = time.monotonic() + PATIENCE
        while not file.exists() and time.monotonic() < deadline:
            time.sleep(0.05)

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield wait
    finally:
        ended.set()
        thread.join()
