"""PostgresSource: captures the changes in a PostgreSQL database, and keeps its transactions together."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final

from fencepost.api.config_def import ConfigDef, ConfigValue
from fencepost.api.context import ConnectorTransactionBoundaries, ExactlyOnceSupport
from fencepost.api.errors import ConfigError, FencepostError, RetriableError
from fencepost.api.record import SourceOffset, SourcePartition
from fencepost.api.source import Config, SourceConnector, SourceTask
from fencepost.connectors.postgres.changes.catalog import relation_of, table_events
from fencepost.connectors.postgres.changes.config import PostgresConfig
from fencepost.connectors.postgres.changes.connection import query
from fencepost.connectors.postgres.changes.definitions import DEFINITIONS
from fencepost.connectors.postgres.changes.held_tables import limit_lock_waits
from fencepost.connectors.postgres.changes.left_out import left_out, refusal
from fencepost.connectors.postgres.changes.position import SourceState
from fencepost.connectors.postgres.changes.slot.slot import check_primary, tables_to_publish
from fencepost.connectors.postgres.changes.task import PostgresSourceTask
from fencepost.connectors.postgres.server.connect import LoginRefusedError
from fencepost.connectors.table_schemas import in_time
from fencepost.version import __version__

if TYPE_CHECKING:
    import psycopg

_BOUNDARY: Final = "transaction.boundary"

_log: Final = logging.getLogger(__name__)


class PostgresSourceConnector(SourceConnector):
    """Captures the tables of one database with one task."""

    default_transaction_boundary: ClassVar[str] = "connector"

    def version(self) -> str:
        """Return fencepost's version: the connector is part of it."""
        return __version__

    def config(self) -> ConfigDef:
        """Return the definitions of the connector's properties."""
        return DEFINITIONS

    def validate(self, config: Config) -> list[ConfigValue]:
        """Check each property, the properties that depend on others, and whether the server's changes can be captured.

        If the server is not available, the configuration is still valid: the task waits for the server.
        """
        values = super().validate(config)
        if not any(value.errors for value in values):
            boundary = config.get(_BOUNDARY, "connector").strip().lower()
            if boundary != "connector":
                why = (
                    f"{_BOUNDARY}={boundary} would tear the database's transactions apart: remove the property, or set "
                    f"it to connector"
                )
                values.append(ConfigValue(_BOUNDARY, boundary, errors=[why]))
            try:
                parsed = PostgresConfig.parse(config)
                parsed.check_files(self.context.allowed_paths)
                _check_server(parsed)
            except FencepostError as error:
                name = (error.name if isinstance(error, ConfigError) else None) or "database.hostname"
                found = next((value for value in values if value.name == name), None)
                if found is None:
                    # The error names a property that the connector does not define, but refuses.
                    found = ConfigValue(name, config.get(name))
                    values.append(found)
                found.errors.append(str(error))
        return values

    def known_schemas(self, config: Config) -> dict[str, str]:
        """Return the DDL of the key and value columns of each topic, from the present columns of the captured tables.

        If the tables cannot be read, this is logged and the result is empty.
        """
        parsed = PostgresConfig.parse(config)
        try:
            with parsed.connection.connect() as connection:
                limit_lock_waits(connection)
                return _schemas(connection, parsed)
        except FencepostError as error:
            _log.warning("The columns of the tables could not be read for the schema registry: %s", error)
            return {}

    def start(self, config: Config) -> None:
        """Check the configuration. Raises ConfigError."""
        PostgresConfig.parse(config)

    def task_class(self) -> type[SourceTask]:
        """Return PostgresSourceTask."""
        return PostgresSourceTask

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:  # noqa: ARG002 - a slot has one reader
        """Return the connector's configuration for its one task."""
        return [dict(self.context.configs())]

    def exactly_once_support(self, config: Config) -> ExactlyOnceSupport:
        """Return SUPPORTED if Kafka transactions follow the database's transactions, as they do by default."""
        boundary = config.get(_BOUNDARY, "connector").strip().lower()
        return ExactlyOnceSupport.SUPPORTED if boundary == "connector" else ExactlyOnceSupport.UNSUPPORTED

    def can_define_transaction_boundaries(self, config: Config) -> ConnectorTransactionBoundaries:  # noqa: ARG002
        """Return SUPPORTED: Kafka transactions follow the database's transactions."""
        return ConnectorTransactionBoundaries.SUPPORTED

    def alter_offsets(
        self,
        config: Config,  # noqa: ARG002 - positions mean the same in all configurations
        offsets: Sequence[tuple[SourcePartition | None, SourceOffset | None]],
    ) -> bool:
        """Accept offsets in the connector's form, else raise DataError. The slot is checked when the task starts."""
        for _, offset in offsets:
            if offset is not None:
                SourceState.of(offset)
        return True


def _schemas(connection: psycopg.Connection[Any], config: PostgresConfig) -> dict[str, str]:
    tables = [table for table in tables_to_publish(connection, config.publication) if config.captures(table.name)]
    made = (table_events(connection, relation_of(connection, table), config) for table in in_time(tables))
    return {events.topic: events.schema for events in made if events is not None}


def _check_server(config: PostgresConfig) -> None:
    """Raise ConfigError or PostgresError if the server is reachable, but its changes cannot be captured."""
    try:
        with config.connection.connect() as connection:
            check_primary(connection, config.connection)
            ((level,),) = query(connection, "SELECT current_setting('wal_level')")
            refused = refusal(left_out(connection, config))
    except LoginRefusedError as error:
        raise ConfigError(str(error), name="database.password") from error
    except RetriableError as error:
        _log.warning("The server could not be asked whether its changes can be captured: %s", error)
        return
    if level != "logical":
        raise ConfigError(
            f"The server at {config.connection} has wal_level={level}: set wal_level=logical and restart it",
            name="database.hostname",
        )
    if refused is not None:
        raise ConfigError(refused, name="table.include.list")
