"""One Spark session for all tests of this folder: its start takes longer than most of the tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fencepost.engine.engine import SparkEngine


@pytest.fixture(scope="package")
def engine() -> Iterator[SparkEngine]:
    """An engine with a started session, so that no test's deadline includes the start of Spark."""
    engine = SparkEngine({"spark.sql.shuffle.partitions": "2"})
    engine.session()
    yield engine
    engine.stop()
