"""The Spark session of tasks that are tested in the test's own process."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from fencepost.engine.engine import SparkEngine


def spark_session() -> SparkSession:
    """Return a local session with a worker's settings, which lasts until the process ends.

    A session that the process has already is used instead. Raises SparkStartError, or JavaNotFoundError without a Java.
    """
    return _engine().session()


@cache
def _engine() -> SparkEngine:
    from fencepost.engine.engine import SparkEngine  # noqa: PLC0415 - takes seconds, and few tests need Spark

    return SparkEngine({"spark.sql.shuffle.partitions": "2"})
