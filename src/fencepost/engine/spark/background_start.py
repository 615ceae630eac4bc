"""Starts Spark in the background, while the worker continues without it."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Final

from pyspark.sql import SparkSession

_log: Final = logging.getLogger(__name__)

_AGAIN_SECONDS: Final = 60.0
"""The minimum time between a failed start and the next start."""

_CHECK_INTERVAL_SECONDS: Final = 0.2
"""The interval at which a waiting start checks whether it may begin."""


class BackgroundStart:
    """Starts a session with `get`, and runs its first job. Safe to use from several threads."""

    def __init__(self, get: Callable[[], SparkSession]) -> None:
        self._get = get
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._not_before = 0.0
        self._waiting = False
        self._wait_no_more = threading.Event()
        self._stopping = False

    @property
    def under_way(self) -> bool:
        """Whether Spark is starting, or running its first job. False while the start still waits."""
        return self._is_alive and not self._waiting

    def begin(self, quiet: Callable[[], bool] | None = None) -> None:
        """Begin, unless Spark is already starting or a start failed recently. A failure is logged.

        With `quiet` the start waits until `quiet` returns True, or until `begin` is called without `quiet`.
        """
        with self._lock:
            if quiet is None:
                self._wait_no_more.set()
            if self._is_alive or time.monotonic() < self._not_before:
                return
            self._stopping = False
            self._waiting = quiet is not None
            if self._waiting:
                self._wait_no_more.clear()
            # The thread is a daemon: a worker that ends does not wait for a JVM that may never start.
            self._thread = threading.Thread(target=self._run, args=(quiet,), name="spark-warm-up", daemon=True)
            self._thread.start()

    def expect_failure(self) -> None:
        """Prepare for the stop of Spark: a failed start logs no warning any more, and a waiting start is cancelled."""
        self._stopping = True
        self._wait_no_more.set()

    @property
    def _is_alive(self) -> bool:
        thread = self._thread
        return thread is not None and thread.is_alive()

    def _run(self, quiet: Callable[[], bool] | None) -> None:
        if quiet is not None:
            while not quiet() and not self._wait_no_more.wait(_CHECK_INTERVAL_SECONDS):
                pass
            if self._stopping:
                return
            self._waiting = False
        try:
            run_first_job(self._get())
        except Exception as error:  # noqa: BLE001 - the caller that needs the session gets the error
            self._not_before = time.monotonic() + _AGAIN_SECONDS
            level = logging.DEBUG if self._stopping else logging.WARNING
            _log.log(level, "Spark could not be started ahead of time: %s", error)


def run_first_job(session: SparkSession) -> None:
    """Run jobs without data, one on a DataFrame and one on an RDD: they load classes, and start Python workers."""
    session.sparkContext.setLocalProperty("spark.scheduler.pool", "fencepost-warm-up")
    partitions = session.sparkContext.defaultParallelism
    numbers = session.range(0, partitions, numPartitions=partitions)
    # The function is sent to the workers by value, so they need not import this module.
    numbers.mapInArrow(lambda batches: batches, "id BIGINT").toArrow()
    session.sparkContext.parallelize(range(partitions), partitions).mapPartitions(list).collect()
