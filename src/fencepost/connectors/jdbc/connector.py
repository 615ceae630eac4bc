"""JdbcSource: rows of a database's tables, or of a query.

The tables are found when the connector starts, and distributed over up to `tasks.max` tasks. The value of a record is
the row as a struct. The key is null (the transform ValueToKey makes a key of columns).
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Sequence
from typing import Final

from fencepost.api.config_def import ConfigDef, ConfigValue
from fencepost.api.context import ExactlyOnceSupport
from fencepost.api.errors import ConfigError, DataError, FencepostError
from fencepost.api.record import SourceOffset, SourcePartition
from fencepost.api.source import Config, SourceConnector, SourceTask
from fencepost.config.config_transformer import without_placeholders
from fencepost.connectors.distribution import distribute
from fencepost.connectors.jdbc.connection import PostgresAddress, translated
from fencepost.connectors.jdbc.drivers import check_url
from fencepost.connectors.jdbc.offsets import ColumnOffset, SnapshotOffset, bulk_time, is_partition
from fencepost.connectors.jdbc.postgres.reader import QuerySource
from fencepost.connectors.jdbc.postgres.task import TASK_TABLES, PostgresTableTask
from fencepost.connectors.jdbc.properties import CONFIG, MODE, SINGLE_WRITER, URL, JdbcConfig, Mode
from fencepost.connectors.jdbc.spark_task import SparkJdbcTask
from fencepost.connectors.jdbc.tables import TableId, find_tables
from fencepost.connectors.table_schemas import in_time
from fencepost.version import __version__

_log: Final = logging.getLogger(__name__)


class JdbcSourceConnector(SourceConnector):
    """Reads tables of PostgreSQL, and of other databases by Spark's JDBC."""

    def version(self) -> str:
        """Return fencepost's version: the connector is part of it."""
        return __version__

    def config(self) -> ConfigDef:
        """Return the definitions of the connector's properties."""
        return CONFIG

    def validate(self, config: Config) -> list[ConfigValue]:
        """Check each property, and the properties that depend on others. The database is not contacted."""
        values = super().validate(config)
        if not any(value.errors for value in values):
            _blame(values, lambda: self._check(JdbcConfig.parse(config)))
        return values

    def _check(self, parsed: JdbcConfig) -> None:
        if parsed.on_postgres:
            self._address(parsed)
        else:
            check_url(parsed.values[URL], self.context.allowed_paths)

    def start(self, config: Config) -> None:
        """Find the tables. Raises ConfigError, and RetriableError if the database cannot be reached."""
        parsed = JdbcConfig.parse(config)
        self._check(parsed)
        self._config = dict(config)
        self._tables: list[TableId] | None = None
        if parsed.on_postgres and not parsed.query:
            address = self._address(parsed)
            with translated("the catalogs", address, on_loss=lambda: None), address.connect() as connection:
                self._tables = find_tables(connection, parsed)
            parsed.check_topics([(str(table), table.name) for table in self._tables])
        if not parsed.exact:
            _log.warning(
                "%s=%s loses rows of transactions that commit out of the order of their ids or timestamps. Use %s=%s, or "
                "promise with %s=true that there is a single writer",
                MODE, parsed.mode, MODE, Mode.SNAPSHOT, SINGLE_WRITER,
            )  # fmt: skip

    def known_schemas(self, config: Config) -> dict[str, str]:
        """Return the present columns of the tables or the query, if the database is PostgreSQL.

        The result is empty if the database cannot be reached, if a column names the topic, and for other databases:
        only Spark knows their types.
        """
        parsed = JdbcConfig.parse(config)
        if not parsed.on_postgres or parsed.record.topic:
            return {}
        try:
            return self._schemas(parsed)
        except FencepostError as error:
            _log.warning("The columns of the tables could not be read for the schema registry: %s", error)
            return {}

    def _schemas(self, parsed: JdbcConfig) -> dict[str, str]:
        address = self._address(parsed)
        with translated("the catalogs", address, on_loss=lambda: None), address.connect() as connection:
            tables = [None] if parsed.query else find_tables(connection, parsed)
            sources = [QuerySource(table, parsed, address) for table in tables]
            return {source.topic: source.describe(connection).schema for source in in_time(sources)}

    def _address(self, parsed: JdbcConfig) -> PostgresAddress:
        return PostgresAddress.of(parsed.values, self.context.allowed_paths)

    def task_class(self) -> type[SourceTask]:
        """Return the task class for PostgreSQL, or the task class for databases that Spark's JDBC reads."""
        return PostgresTableTask if JdbcConfig.parse(self.context.configs()).on_postgres else SparkJdbcTask

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        """Distribute the tables over at most `max_tasks` tasks.

        Task configurations leave out the framework's properties, because a changed `tasks.max` would restart all tasks.
        """
        own = {name: value for name, value in self._config.items() if name in CONFIG.keys()}  # noqa: SIM118 - a method
        if self._tables is None:
            return [own]
        tables = [without_placeholders(json.dumps((table.schema, table.name))) for table in self._tables]
        shares = distribute(tables, min(max_tasks, len(tables)))
        return [own | {TASK_TABLES: f"[{', '.join(share)}]"} for share in shares]

    def partitions_follow_task_configs(self, config: Config) -> bool:  # noqa: ARG002 - it is so in all configurations
        """Return True: a task's configuration names its tables, and each table belongs to one task."""
        return True

    def exactly_once_support(self, config: Config) -> ExactlyOnceSupport:
        """Return SUPPORTED, except for modes that compare ids or timestamps without a single writer: they lose rows."""
        return ExactlyOnceSupport.SUPPORTED if JdbcConfig.parse(config).exact else ExactlyOnceSupport.UNSUPPORTED

    def alter_offsets(
        self, config: Config, offsets: Sequence[tuple[SourcePartition | None, SourceOffset | None]]
    ) -> bool:
        """Return True. Raises DataError for offsets at which a task could not start."""
        mode = JdbcConfig.parse(config).mode
        for partition, offset in offsets:
            if offset is None:
                continue
            if partition is None or not is_partition(partition):
                raise DataError(f"The source partition {partition} is not one of a table or query")
            if mode is Mode.SNAPSHOT:
                SnapshotOffset.of(offset)
            elif mode is Mode.BULK:
                bulk_time(offset)
            else:
                ColumnOffset.of(offset)
        return True


def _blame(values: Sequence[ConfigValue], check: Callable[[], object]) -> None:
    """Run a check, and assign its ConfigError to the property that the error names."""
    try:
        check()
    except ConfigError as error:
        next(value for value in values if value.name == error.name).errors.append(str(error))
