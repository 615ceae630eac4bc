"""The Spark session for tasks that are tested in the test's own process."""

from __future__ import annotations

import math
import threading
import time
from functools import cache
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from fencepost.engine.engine import SparkEngine


def spark_session() -> SparkSession:
    """Return a local session with the same settings as a worker's. It lasts until the process ends.

    If the process already has a session, that one is used. Raises SparkStartError, or JavaNotFoundError without Java.
    """
    return _START.session()


def seconds_since_start() -> float:
    """Return the age of the session in seconds: 0 while it starts, infinity if none was requested."""
    return _START.seconds_since()


class _Start:
    def __init__(self) -> None:
        self._starting = threading.Lock()
        self._ready: float | None = None

    def session(self) -> SparkSession:
        with self._starting:
            session = _engine().session()
            if self._ready is None:
                self._ready = time.monotonic()
        return session

    def seconds_since(self) -> float:
        if self._ready is not None:
            return time.monotonic() - self._ready
        return 0.0 if self._starting.locked() else math.inf


_START: Final = _Start()


@cache
def _engine() -> SparkEngine:
    from fencepost.engine.engine import SparkEngine  # noqa: PLC0415 - takes seconds, and few tests need Spark

    return SparkEngine({"spark.sql.shuffle.partitions": "2"})
