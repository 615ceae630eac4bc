"""The task of JdbcSource: one implementation for PostgreSQL, one for all other databases."""

from __future__ import annotations

from fencepost.api.record import PollResult
from fencepost.api.source import Config, SourceTask
from fencepost.connectors.jdbc.postgres.task import PostgresTableTask
from fencepost.connectors.jdbc.properties import JdbcConfig
from fencepost.connectors.jdbc.spark_task import SparkJdbcTask


class JdbcSourceTask(SourceTask):
    """Reads the database of its configuration."""

    def __init__(self) -> None:
        # Stopped before its start, it has nothing to wake.
        self._database: SourceTask = PostgresTableTask()

    def start(self, config: Config) -> None:
        """Choose the implementation, and start it."""
        if not JdbcConfig.parse(config).on_postgres:
            self._database = SparkJdbcTask()
        self._database.context = self.context
        self._database.start(config)

    def poll(self) -> PollResult:
        """Return the next rows of a table, or None after a second without any."""
        return self._database.poll()

    def commit(self) -> None:
        """Release the resources of committed rows."""
        self._database.commit()

    def stop(self) -> None:
        """Wake a blocked poll."""
        self._database.stop()

    def at_end(self) -> bool:
        """Return whether every table was once read to its end."""
        return self._database.at_end()
