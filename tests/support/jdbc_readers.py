"""JdbcSource's readers without a worker: the rows of each poll, and a restart from any offset."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

from fencepost.api.allowed_paths import ANYWHERE
from fencepost.connectors.jdbc.connection import PostgresAddress
from fencepost.connectors.jdbc.postgres.bulk_reader import BulkReader
from fencepost.connectors.jdbc.postgres.column_reader import ColumnReader
from fencepost.connectors.jdbc.postgres.reader import LargeRows, PolledRows, QuerySource, Reader
from fencepost.connectors.jdbc.postgres.server import OpenServer
from fencepost.connectors.jdbc.postgres.snapshot_reader import SnapshotReader
from fencepost.connectors.jdbc.properties import JdbcConfig, Mode
from fencepost.connectors.jdbc.tables import TableId
from tests.support.postgres import Database

_READERS: dict[Mode, Any] = {Mode.SNAPSHOT: SnapshotReader, Mode.BULK: BulkReader}


class TableReading:
    """Reads the table `t` of a database, or the configured query. The columns are kept over `restart`."""

    def __init__(self, database: Database, config: Mapping[str, Any] | None = None, table: str | None = "t") -> None:
        properties = {"connection.url": database.jdbc_url, "connection.user": "postgres", "topic.prefix": "p-"}
        self.config = JdbcConfig.parse(properties | {name: str(value) for name, value in (config or {}).items()})
        self.offset: Mapping[str, Any] | None = None
        self._table = None if table is None else TableId("public", table)
        self.address = PostgresAddress.of(self.config.values, ANYWHERE)
        self.server = OpenServer.open(self.address)
        self.polls: list[PolledRows | LargeRows] = []
        self.restart()

    def restart(self, offset: Mapping[str, Any] | None = None) -> None:
        """Go on from the last offset or a given one, like a new task."""
        self.offset = offset or self.offset
        source = QuerySource(self._table, self.config, self.address)
        self.reader: Reader = _READERS.get(self.config.mode, ColumnReader)(source, source.partition, self.offset)

    def poll(self) -> list[dict[str, Any]]:
        """The rows of one poll."""
        found = self.reader.read(self.server)
        if found is None:
            return []
        self.offset = found.offset
        self.polls.append(found)
        if isinstance(found, PolledRows):
            return list(found.rows["value"].to_pylist())
        batch = found.batch(self.reader.partition)
        assert batch.reader is not None
        # Each select is read as Spark's executors do it, in a separate process.
        reader = pickle.loads(pickle.dumps(batch.reader))  # noqa: S301 - our own
        rows = [row for split in batch.splits for part in reader.read(split) for row in part["value"].to_pylist()]
        found.export.close()
        return rows

    def rest(self) -> list[dict[str, Any]]:
        """The rows of all polls until a poll has none."""
        rows: list[dict[str, Any]] = []
        while found := self.poll():
            rows += found
        return rows

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.server.connection.close()
