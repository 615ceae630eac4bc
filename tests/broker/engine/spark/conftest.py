"""One Spark session for all tests of this folder: it takes longer to start than most of them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fencepost.engine.engine import SparkEngine


@pytest.fixture(scope="package")
def engine() -> Iterator[SparkEngine]:
    """An engine with a session: no test's deadline has to hold for the start of Spark as well."""
    engine = SparkEngine({"spark.sql.shuffle.partitions": "2"})
    engine.session()
    yield engine
    engine.stop()
