"""What reads a table or query, poll by poll: the base of the readers of each mode."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from fencepost.api.errors import DataError
from fencepost.api.record import SourceBatch
from fencepost.connectors.jdbc.copy_out import copy_rows
from fencepost.connectors.jdbc.offsets import QUERY_PARTITION, table_partition
from fencepost.connectors.jdbc.properties import QUERY_SUFFIX, JdbcConfig
from fencepost.connectors.jdbc.row_shape import RowShape, RowsInMemory
from fencepost.connectors.jdbc.tables import Catalog, Column, TableId, quoted

if TYPE_CHECKING:
    from fencepost.connectors.jdbc.connection import Connection
    from fencepost.connectors.jdbc.server import OpenServer

_log: Final = logging.getLogger(__name__)


class Source:
    """A table, or the query: its name, columns and topic. It notices changes of the columns."""

    def __init__(self, table: TableId | None, config: JdbcConfig) -> None:
        self.table = table
        self.config = config
        self.title = "the query" if table is None else f"the table {table}"
        self.topic = config.topic("" if table is None else table.name)
        self.partition: Mapping[str, str] = QUERY_PARTITION if table is None else table_partition(table)
        self._catalog = Catalog(config.numeric_mapping)
        self._known: tuple[Column, ...] | None = None

    @property
    def sql(self) -> str:
        """The table's name in SQL, or the query in brackets."""
        return f"({self.config.query})" if self.table is None else self.table.sql()

    def describe(self, connection: Connection) -> RowShape:
        """Return the columns as they are until the end of the connection's transaction, which protects them.

        Raises DataError if the type of a column has changed since the last call.
        """
        if self.table is None:
            columns = self._catalog.columns_of_query(connection, self.config.query)
        else:
            connection.execute(f"select from {self.sql} limit 0".encode())
            columns = self._catalog.columns(connection, self.table)
        self._compare(columns)
        self._known = columns
        return RowShape(self.title, columns)

    def _compare(self, columns: tuple[Column, ...]) -> None:
        if self._known is None or columns == self._known:
            return
        before = {column.name: column for column in self._known}
        after = {column.name: column for column in columns}
        for name in before.keys() & after.keys():
            if before[name].type != after[name].type:
                raise DataError(
                    f"The column {before[name].label} of {self.title} has become {after[name].type.text}. Check that the "
                    f"consumers of the topic {self.topic} accept that, and restart the task to go on with the new type"
                )
        added, dropped = after.keys() - before.keys(), before.keys() - after.keys()
        if added or dropped:
            _log.info(
                "The columns of %s have changed: new %s, dropped %s",
                self.title,
                ", ".join(sorted(added)) or "none",
                ", ".join(sorted(dropped)) or "none",
            )

    def select(self, first: str, shape: RowShape, rest: str = "") -> str:
        """Return a SELECT of the columns after `first`, a whole number of 64 bits. The rows' alias is `t`."""
        columns = ", ".join(self._expression(column) for column in shape.columns)
        return f"select {first}, {columns} from {self.sql} t {rest} {self.config.values[QUERY_SUFFIX]}"  # noqa: S608 - see above

    def _expression(self, column: Column) -> str:
        name = f"t.{quoted(column.name)}"
        if column.type.name == "timestamp" and column.type.built_in:
            return f"{name} at time zone '{self.config.time_zone}'"
        return name

    def copy(self, connection: Connection, select: str, shape: RowShape) -> tuple[pa.Array, pa.RecordBatch]:
        """Return the first column and the rows of a SELECT. Raises DataError for values that cannot be represented."""
        return shape.parse(b"".join(copy_rows(connection, select)))


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows for a topic that a poll read, with the offset after them."""

    topic: str
    shape: RowShape
    rows: pa.RecordBatch
    offset: Mapping[str, Any]

    def batch(self, partition: Mapping[str, str]) -> SourceBatch:
        """Return the rows as a batch for Kafka."""
        return SourceBatch(
            reader=RowsInMemory(self.shape.schema),
            splits=[self.rows],
            offsets=[(partition, self.offset)],
            bytes=self.rows.nbytes,
            topic=self.topic,
        )


class Reader(ABC):
    """Reads one source, from an offset on."""

    def __init__(self, source: Source, partition: Mapping[str, str]) -> None:
        self.source = source
        self.partition = partition

    @abstractmethod
    def read(self, server: OpenServer) -> Rows | None:
        """Return what is new, None if nothing is.

        Raises DataError, and psycopg's errors: then the same is read at the next call.
        """
