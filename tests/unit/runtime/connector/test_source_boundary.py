"""The connectors that may use transaction.boundary=source."""

from __future__ import annotations

from pathlib import Path

import pytest

from fencepost.api.source import SourceConnector
from fencepost.config.java_plugins import JavaPlugin
from fencepost.config.java_settings import JavaSettings
from fencepost.connectors.files.stream_source import FileStreamSourceConnector
from fencepost.java.connector import java_connector_class
from fencepost.runtime.connector.source_boundary import source_boundary_errors

SOURCE = {"transaction.boundary": "Source"}
METADATA = {"provide.transaction.metadata": "true"}


def java(name: str) -> type[SourceConnector]:
    return java_connector_class(JavaPlugin(name, Path("folder"), ()), JavaSettings())


DEBEZIUM = java("io.debezium.connector.postgresql.PostgresConnector")


@pytest.mark.parametrize(
    ("connector", "config", "message"),
    [
        (FileStreamSourceConnector, SOURCE | METADATA, "this is another connector"),
        (java("acme.Source"), SOURCE | METADATA, "this is another connector"),
        *(
            (java(f"io.debezium.connector.{name}"), SOURCE | METADATA, "set it to poll")
            for name in ("sqlserver.SqlServerConnector", "db2.Db2Connector", "mongodb.MongoDbConnector")
        ),
        (DEBEZIUM, SOURCE, "set provide.transaction.metadata=true"),
        (DEBEZIUM, SOURCE | {"provide.transaction.metadata": "false"}, "set provide.transaction.metadata=true"),
    ],
)
def test_a_connector_that_marks_no_ends_is_refused(
    connector: type[SourceConnector], config: dict[str, str], message: str
):
    (found,) = source_boundary_errors(connector, config)
    assert found.name == "transaction.boundary"
    assert message in found.errors[0]


@pytest.mark.parametrize("config", [SOURCE | METADATA, {}, {"transaction.boundary": "poll"}])
def test_debezium_with_records_of_transactions_is_accepted(config: dict[str, str]):
    assert source_boundary_errors(DEBEZIUM, config) == []
