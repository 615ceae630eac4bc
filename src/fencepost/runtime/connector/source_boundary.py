"""Checks whether a connector can have `transaction.boundary=source`: its records must say where transactions end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from fencepost.api.config_def import ConfigValue
from fencepost.api.source import SourceConnector
from fencepost.config.connector_config import TransactionBoundary
from fencepost.java.connector import JavaConnector

_NAME: Final = "transaction.boundary"
_METADATA: Final = "provide.transaction.metadata"
_DEBEZIUM: Final = "io.debezium."
_LATE: Final = tuple(f"{_DEBEZIUM}connector.{database}." for database in ("sqlserver", "db2", "mongodb"))
"""Packages of connectors that do not see the ends of transactions.

These connectors report a transaction as ended only when the next one comes, or after a pause.
"""


def source_boundary_errors(connector: type[SourceConnector], config: Mapping[str, str]) -> list[ConfigValue]:
    """Return the property's error if its value is `source` but the connector does not mark ends of transactions."""
    if config.get(_NAME, "").strip().lower() != TransactionBoundary.SOURCE:
        return []
    if not issubclass(connector, JavaConnector) or not connector.plugin.java_class.startswith(_DEBEZIUM):
        said = (
            f"{_NAME}=source is for connectors of Debezium in Java, whose records say where a transaction of the database "
            "ends, and this is another connector: set it to poll, interval or connector"
        )
    elif connector.plugin.java_class.startswith(_LATE):
        said = (
            f"{_NAME}=source does not fit to this connector: it does not see where a transaction of the database ends, and "
            "says so when the next one comes, or some time later; until then the last one would not be visible in Kafka: set it "
            "to poll"
        )
    elif config.get(_METADATA, "").strip().lower() != "true":
        said = (
            f"{_NAME}=source needs the records that say where a transaction of the database ends: set {_METADATA}=true, or "
            f"{_NAME} to poll"
        )
    else:
        return []
    return [ConfigValue(_NAME, config[_NAME], errors=[said])]
