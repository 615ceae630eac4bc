"""A small Spark session for transforms."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from fencepost.engine.spark.session import LazySession

SETTINGS = {
    "spark.master": "local[1]",
    "spark.sql.shuffle.partitions": "1",
    # Compiling a small plan takes longer than running it.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    # Transforms do not depend on the session's time zone.
    "spark.sql.session.timeZone": "America/New_York",
}


@pytest.fixture(scope="package")
def spark() -> Iterator[SparkSession]:
    """One session for the folder. It ends with its JVM, before tests elsewhere start another one."""
    session = LazySession(SETTINGS)
    yield session.get()
    session.stop()
