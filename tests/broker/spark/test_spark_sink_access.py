"""The Kafka permissions of the Spark sink: a missing one is named, and those in docs/spark.md suffice."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from confluent_kafka.admin import AclOperation, ResourceType
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from fencepost.api.errors import FencepostError
from fencepost.engine.engine import SparkEngine
from fencepost.spark import write_kafka
from tests.support.checker import read_topic
from tests.support.security import SecuredBroker
from tests.support.spark_queries import users_session
from tests.support.topics import Topics, unique

CREATE, DESCRIBE, READ, WRITE = AclOperation.CREATE, AclOperation.DESCRIBE, AclOperation.READ, AclOperation.WRITE
TOPIC, IDS = ResourceType.TOPIC, ResourceType.TRANSACTIONAL_ID

Write = Callable[[DataFrame, dict[str, str]], object]


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    # As in a user's session, Spark's own daemon is used: a worker's daemon imports fencepost itself.
    engine = SparkEngine({"spark.master": "local[2]", "spark.python.daemon.module": "pyspark.daemon"})
    with users_session(engine) as session:
        yield session


@pytest.fixture
def rows(spark: SparkSession) -> DataFrame:
    return spark.range(0, 3, numPartitions=1).selectExpr("CAST(id AS STRING) AS value")


def by_function(frame: DataFrame, options: dict[str, str]) -> object:
    return write_kafka(frame, **options)


def by_format(frame: DataFrame, options: dict[str, str]) -> object:
    return frame.write.format("fencepost").options(**options).mode("append").save()


def missing(write: Write, frame: DataFrame, options: dict[str, str]) -> str:
    with pytest.raises((FencepostError, PySparkException)) as raised:
        write(frame, options)
    return str(raised.value)


@pytest.mark.parametrize("write", [by_function, by_format])
def test_each_missing_right_is_named_and_the_documented_ones_suffice(
    rows: DataFrame, secured: SecuredBroker, write: Write
):
    user, sinks, name = "nobody", unique("sinks"), unique("name")
    tasks, ids = f"{sinks}-tasks", f"fencepost-sink-{name}"
    topic = Topics(secured.sasl_servers, secured.rdkafka()).create(partitions=1)
    options = secured.properties(user) | {"topic": topic, "name": name, "run": "1", "sink.storage.topic": sinks}
    create = "CREATE (or CREATE on the cluster)"
    rights = [
        (TOPIC, sinks, DESCRIBE, f"DESCRIBE on topic {sinks}"),
        (TOPIC, sinks, CREATE, f"{create} on topic {sinks}"),
        (IDS, ids, DESCRIBE, "DESCRIBE on transactional id"),
        (IDS, ids, WRITE, "WRITE on transactional id"),
        (TOPIC, topic, DESCRIBE, f"DESCRIBE on topic {topic}"),
    ]
    of_tasks = [
        (TOPIC, tasks, DESCRIBE, f"DESCRIBE on topic {tasks}"),
        (TOPIC, tasks, CREATE, f"{create} on topic {tasks}"),
        (TOPIC, tasks, WRITE, f"WRITE on topic {tasks}"),
        (TOPIC, tasks, READ, f"READ on topic {tasks}"),
    ]
    last = [(TOPIC, topic, WRITE, f"WRITE on topic {topic}"), (TOPIC, sinks, WRITE, f"WRITE on topic {sinks}")]
    given: list[tuple[AclOperation, ResourceType, str]] = []
    try:
        for kind, resource, operation, told in [*rights, *(of_tasks if write is by_format else []), *last]:
            assert f"the principal lacks {told}" in missing(write, rows, options)
            secured.allow(user, operation, kind, resource, prefix=kind is IDS)
            given.append((operation, kind, resource))
        write(rows, options)
        # From here on, there is a record to read.
        assert f"the principal lacks READ on topic {sinks}" in missing(write, rows, options)
        secured.allow(user, READ, TOPIC, sinks)
        given.append((READ, TOPIC, sinks))
        # WRITE and READ include DESCRIBE, and no topic has to be created again.
        for operation, kind, resource in given:
            if operation in (DESCRIBE, CREATE):
                secured.revoke(user, operation, kind, resource)
        write(rows, options)
        write(rows, options | {"run": "2"})
        for operation in (READ, WRITE):
            secured.revoke(user, operation, TOPIC, sinks)
        # A write without the option `run` writes no progress record.
        del options["run"]
        write(rows, options)
    finally:
        for operation, kind, resource in given:
            secured.revoke(user, operation, kind, resource)
    found = read_topic(secured.sasl_servers, topic, settings=secured.rdkafka())
    assert sorted(record.value or b"" for record in found) == [value for value in (b"0", b"1", b"2") for _ in range(3)]
