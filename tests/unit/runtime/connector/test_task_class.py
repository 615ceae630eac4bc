"""A worker does not run one task in place of another that only has the same connector's name."""

from __future__ import annotations

import pytest

from fencepost import ConfigError
from fencepost.api.source import SourceTask, describe
from fencepost.config.ids import ConnectorTaskId
from fencepost.connectors.files.stream_source import FileStreamSourceTask
from fencepost.connectors.postgres.changes.task import PostgresSourceTask
from fencepost.java.task import JavaTask
from fencepost.runtime.connector.task_class import check_task_class

TASK = ConnectorTaskId("shop", 0)
JAVA_STREAM_TASK = "org.apache.kafka.connect.file.FileStreamSourceTask"
JAVA_POSTGRES_TASK = "io.debezium.connector.postgresql.PostgresConnectorTask"


class InJava(JavaTask):
    """The task of any connector in Java."""


class OfAnotherPackage(PostgresSourceTask):
    """A task that is not fencepost's own."""


def test_a_python_task_does_not_run_in_place_of_a_java_task() -> None:
    with pytest.raises(ConfigError, match=r"(?s)shop-0.*PostgresConnectorTask.*plugin\.path of each worker"):
        check_task_class(TASK, JAVA_POSTGRES_TASK, PostgresSourceTask)


def test_a_java_task_does_not_run_in_place_of_a_python_task() -> None:
    with pytest.raises(ConfigError, match=r"(?s)shop-0.*PostgresSourceTask.*put fencepost: before"):
        check_task_class(TASK, describe(PostgresSourceTask), InJava)


@pytest.mark.parametrize(
    ("configured", "found"),
    [
        (describe(PostgresSourceTask), PostgresSourceTask),
        (JAVA_STREAM_TASK, FileStreamSourceTask),
        (describe(FileStreamSourceTask), FileStreamSourceTask),
        (JAVA_POSTGRES_TASK, InJava),
        ("com.acme.OwnTask", OfAnotherPackage),
        (None, PostgresSourceTask),
    ],
)
def test_a_task_runs_with_the_class_of_its_configuration(configured: str | None, found: type[SourceTask]) -> None:
    check_task_class(TASK, configured, found)
