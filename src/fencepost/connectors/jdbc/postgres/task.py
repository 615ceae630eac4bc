"""The task of JdbcSource on PostgreSQL: polls its tables one after the other over one connection."""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

from fencepost.api.errors import RetriableError
from fencepost.api.record import PollResult, SourceBatch
from fencepost.api.source import Config, SourceTask
from fencepost.connectors.jdbc.connection import PostgresAddress, translated
from fencepost.connectors.jdbc.offsets import (
    QUERY_PARTITION,
    Offset,
    bulk_partition,
    first_found,
    table_partitions,
)
from fencepost.connectors.jdbc.postgres.bulk_reader import BulkReader
from fencepost.connectors.jdbc.postgres.column_reader import ColumnReader
from fencepost.connectors.jdbc.postgres.ranges import ExportedSnapshot
from fencepost.connectors.jdbc.postgres.reader import LargeRows, QuerySource, Reader
from fencepost.connectors.jdbc.postgres.server import OpenServer
from fencepost.connectors.jdbc.postgres.snapshot_reader import SnapshotReader
from fencepost.connectors.jdbc.properties import POLL_INTERVAL, JdbcConfig, Mode
from fencepost.connectors.jdbc.rounds import Rounds
from fencepost.connectors.jdbc.tables import TableId

TASK_TABLES: Final = "task.tables"
"""The tables of a task, as a JSON list of [schema, name]. Without this property the task reads the query."""

_READERS: Final[dict[Mode, type[Any]]] = {Mode.SNAPSHOT: SnapshotReader, Mode.BULK: BulkReader}


class PostgresTableTask(SourceTask):
    """Returns new rows of its tables, or of the query. A batch contains rows of one table."""

    def __init__(self) -> None:
        self._stopping = threading.Event()
        self._polling = threading.Lock()
        self._server: OpenServer | None = None
        self._readers: list[Reader] | None = None
        self._export: ExportedSnapshot | None = None

    def start(self, config: Config) -> None:
        """Read the configuration. The first poll contacts the database, because a poll may be retried."""
        self._config = JdbcConfig.parse(config)
        self._address = PostgresAddress.of(self._config.values, self.context.allowed_paths)
        self._rounds: Rounds[Reader] = Rounds(self._config.values[POLL_INTERVAL] / 1000)
        tables = config.get(TASK_TABLES)
        self._tables: Sequence[TableId | None] = (
            [None] if tables is None else [TableId(schema, name) for schema, name in json.loads(tables)]
        )

    def poll(self) -> PollResult:
        """Return the next rows of a table, or None if there are no rows or no poll is due within a second."""
        try:
            with self._polling:
                return self._poll()
        except RetriableError:
            raise
        except BaseException:
            self._disconnect()
            raise
        finally:
            # `stop` does not disconnect during a poll, and perhaps no method is called after the poll. So the poll
            # disconnects.
            if self._stopping.is_set():
                self._disconnect()

    def _poll(self) -> SourceBatch | None:
        self._end_export()
        return self._rounds.first_result(self._connected, self._ask, self._stopping)

    def _ask(self, reader: Reader) -> SourceBatch | None:
        with translated(reader.source.title, self._address, on_loss=self._disconnect):
            rows = reader.read(self._open())
        if rows is None:
            return None
        self._export = rows.export if isinstance(rows, LargeRows) else None
        return rows.batch(reader.partition)

    def _open(self) -> OpenServer:
        if self._server is None:
            self._server = OpenServer.open(self._address)
        return self._server

    def _connected(self) -> list[Reader]:
        if self._readers is None:
            with translated("the database", self._address, on_loss=self._disconnect):
                database = self._open().database
            self._readers = [self._reader(table, database) for table in self._tables]
        return self._readers

    def _reader(self, table: TableId | None, database: str) -> Reader:
        partitions: list[dict[str, str]] = [QUERY_PARTITION] if table is None else table_partitions(table, database)
        if self._config.mode is Mode.BULK:
            partitions = [bulk_partition(partitions[0])]
        offsets: list[Offset | None] = list(self.context.offset_reader.offsets(partitions))
        position, offset = first_found(offsets)
        source = QuerySource(table, self._config, self._address)
        reader: Reader = _READERS.get(self._config.mode, ColumnReader)(source, partitions[position], offset)
        return reader

    def commit(self) -> None:
        """End the transaction in which a large batch was read."""
        self._end_export()

    def _end_export(self) -> None:
        export, self._export = self._export, None
        if export is not None:
            export.close()

    def _disconnect(self) -> None:
        server, self._server = self._server, None
        if server is not None:
            server.connection.close()

    def stop(self) -> None:
        """Wake a blocked poll, and cancel its statement; without a running poll, disconnect."""
        self._stopping.set()
        server = self._server
        if self._polling.acquire(blocking=False):
            self._disconnect()
            self._polling.release()
        elif server is not None:
            with suppress(Exception):
                # A failure means that the statement has already ended, or that the server is gone; the statement then
                # fails anyway.
                server.connection.cancel_safe(timeout=5)

    def at_end(self) -> bool:
        """Return whether every table was read to its end at least once."""
        return self._rounds.exhausted
