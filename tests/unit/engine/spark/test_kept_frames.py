"""DataFrames in Spark's cache while a batch is written, and a session that stops meanwhile."""

from __future__ import annotations

from typing import Any

import pytest
from py4j.protocol import Py4JNetworkError
from pyspark import StorageLevel

from fencepost.engine.errors import SparkJobError
from fencepost.engine.spark.tolerant_transform import kept_frames


class StoppedFrame:
    """A DataFrame of a session whose JVM has ended."""

    def persist(self, _: StorageLevel) -> StoppedFrame:
        return self

    def unpersist(self) -> None:
        raise Py4JNetworkError("Answer from Java side is empty")


def test_the_error_of_a_job_is_reported_even_if_the_cache_stays() -> None:
    stopped: Any = StoppedFrame()
    with pytest.raises(SparkJobError, match="the memory is full"), kept_frames() as keep:  # noqa: PT012 - as a job fails
        keep(stopped)
        raise SparkJobError("the memory is full")
