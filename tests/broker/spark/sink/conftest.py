"""A Spark session, and a query that writes to a sink with a name."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from fencepost.engine.engine import SparkEngine
from fencepost.spark import ExactlyOnce, exactly_once
from tests.support.spark_queries import FileQuery
from tests.support.topics import Topics, unique


@pytest.fixture(scope="package")
def spark() -> Iterator[SparkSession]:
    """One Spark session for this folder."""
    engine = SparkEngine({"spark.sql.shuffle.partitions": "2", "spark.driver.maxResultSize": "32m"})
    yield engine.session()
    engine.stop()


@pytest.fixture
def sink(bootstrap_servers: str, topics: Topics) -> ExactlyOnce:
    """A sink with a name, and a topic of that name."""
    name = topics.create(unique("sink"), partitions=2)
    return exactly_once(topic=name, name=name, **{"bootstrap.servers": bootstrap_servers})


@pytest.fixture
def name(sink: ExactlyOnce) -> str:
    return str(sink._config.name)


@pytest.fixture
def query(spark: SparkSession, sink: ExactlyOnce, tmp_path: Path) -> FileQuery:
    """A query that writes to the sink, with one micro-batch of three rows."""
    query = FileQuery(spark, tmp_path, sink)
    query.add("0", "1", "2")
    return query
