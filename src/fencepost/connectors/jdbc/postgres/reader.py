"""The base class of the readers of each mode, which read a table or query poll by poll."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from fencepost.api.errors import ConfigError, DataError
from fencepost.api.record import SourceBatch
from fencepost.connectors.jdbc.connection import PostgresAddress
from fencepost.connectors.jdbc.offsets import QUERY_PARTITION, Offset, table_partition
from fencepost.connectors.jdbc.pg_types import PgType
from fencepost.connectors.jdbc.postgres.binary import BinaryForm
from fencepost.connectors.jdbc.postgres.ranges import (
    NULL_COLUMN,
    SMALL_BYTES,
    ExportedSnapshot,
    RangeReader,
    csv_of,
    range_conditions,
    table_bytes,
)
from fencepost.connectors.jdbc.postgres.row_shape import FIRST_COLUMN, RowShape, RowsInMemory
from fencepost.connectors.jdbc.properties import QUERY_SUFFIX, JdbcConfig, ended
from fencepost.connectors.jdbc.tables import Catalog, JdbcColumn, TableId
from fencepost.connectors.postgres.server.connect import load_driver
from fencepost.connectors.postgres.server.copy_blocks import copy_rows
from fencepost.connectors.postgres.server.quoting import quoted

if TYPE_CHECKING:
    from fencepost.connectors.jdbc.connection import Connection
    from fencepost.connectors.jdbc.postgres.server import OpenServer

_log: Final = logging.getLogger(__name__)


class QuerySource:
    """A table, or the query: its name, columns and topic. Detects changes of the columns."""

    def __init__(self, table: TableId | None, config: JdbcConfig, address: PostgresAddress) -> None:
        self.table = table
        self.config = config
        self._address = address
        self._record = config.record
        self.title = "the query" if table is None else f"the table {table}"
        self.topic = config.topic("" if table is None else table.name)
        self.partition: Mapping[str, str] = QUERY_PARTITION if table is None else table_partition(table)
        self._catalog = Catalog(config.numeric_mapping)
        self._known: tuple[JdbcColumn, ...] | None = None

    @property
    def sql(self) -> str:
        """The table's name in SQL, or the query in brackets."""
        return f"({ended(self.config.query)})" if self.table is None else self.table.sql()

    def describe(self, connection: Connection) -> RowShape:
        """Return the present columns. The connection's transaction prevents changes of the columns until it ends.

        Raises DataError if the type of a column has changed since the last call.
        """
        if self.table is not None:
            connection.execute(f"select from {self.sql} limit 0".encode())
        return self._describe(connection)

    def _describe(self, connection: Connection) -> RowShape:
        if self.table is None:
            columns = self._catalog.columns_of_query(connection, self.config.query)
        else:
            columns = self._catalog.columns(connection, self.table)
        self._compare(columns)
        self._known = columns
        shape = RowShape(self.title, columns, self._record)
        try:
            self._record.check(shape.struct)
        except ConfigError as error:
            raise ConfigError(f"{self.title[0].upper()}{self.title[1:]}: {error}", name=error.name) from None
        return shape

    def _compare(self, columns: tuple[JdbcColumn, ...]) -> None:
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

    def select(
        self,
        first: str,
        shape: RowShape,
        rest: str = "",
        *,
        forms: Sequence[BinaryForm] | None = None,
        suffix: bool = True,
    ) -> str:
        """Return a SELECT of `first` (SQL or NULL_COLUMN) and the columns of `shape`. The alias of the rows is `t`.

        `forms` are the columns' forms in the binary format, None for text.
        """
        expressions = [self._expression(column) for column in shape.columns]
        if forms is not None:
            expressions = [
                f"{text}::text" if form.cast else text for text, form in zip(expressions, forms, strict=True)
            ]
        columns, end = ", ".join(expressions), ended(self.config.values[QUERY_SUFFIX]) if suffix else ""
        return f"select {first}, {columns} from {self.sql} t {rest} {end}"  # noqa: S608 - see above

    def _expression(self, column: JdbcColumn) -> str:
        name, zone = f"t.{quoted(column.name)}", f"at time zone '{self.config.time_zone}'"
        if _is_timestamp(column.type):
            return f"{name} {zone}"
        if column.type.element is not None and _is_timestamp(column.type.element):
            # Other arrays are null or empty, or have several dimensions and are refused later.
            return (
                f"case when array_ndims({name}) = 1 then array(select i {zone} from unnest({name}) "  # noqa: S608 - quoted
                f"with ordinality u(i, n) order by n) else {name}::timestamptz[] end"
            )
        return name

    def copy(
        self,
        connection: Connection,
        select: str,
        shape: RowShape,
        *,
        most_bytes: int | None = None,
        first: pa.DataType = FIRST_COLUMN,
    ) -> tuple[pa.Array, pa.RecordBatch]:
        """Run a SELECT, and return its first column, which is of the type `first`, and its rows.

        Raises DataError for values that cannot be represented, and TooMuchError for more than `most_bytes` of text.
        """
        rows, size = [], 0
        found = copy_rows(connection, csv_of(select))
        for row in found:
            rows.append(row)
            size += len(row)
            if most_bytes is not None and size > most_bytes:
                connection.cancel_safe()
                with suppress(load_driver().errors.QueryCanceled):
                    for _ in found:
                        pass
                raise TooMuchError
        return shape.parse(b"".join(rows), first)

    def is_large(self, server: OpenServer) -> bool:
        """Return whether the table is so large that a Spark job reads it faster than the task does."""
        return self.table is not None and table_bytes(server, self.table) > SMALL_BYTES

    def read_in_ranges(self, condition: str | None, offset: Offset, *, ranges: bool = True) -> LargeRows:
        """Return all rows, or the rows that match a condition. Spark will read them in one new snapshot.

        With `ranges`, a table is divided into ranges of pages. Raises DataError and psycopg's errors.
        """
        # A limit in query.suffix would apply to each range separately.
        ranges = ranges and not self.config.values[QUERY_SUFFIX]
        export = ExportedSnapshot(self._address)
        try:
            if self.table is not None:
                # Unlike a SELECT, LOCK waits for the table before the transaction gets its snapshot of the catalogs.
                export.lock(self.sql)
            shape = self._describe(export.server.connection)
            parts = range_conditions(export.server, self.table) if self.table is not None and ranges else [None]
            selects = [self.select(NULL_COLUMN, shape, _where(part, condition), forms=shape.forms) for part in parts]
            reader = RangeReader(shape, self._address, export.export())
        except BaseException:
            export.close()
            raise
        return LargeRows(self.topic, reader, selects, offset, export)


def _where(*conditions: str | None) -> str:
    """Return a WHERE clause of conditions, empty if there are no conditions: a query.suffix may have its own WHERE."""
    given = [f"({condition})" for condition in conditions if condition is not None]
    return f"where {' and '.join(given)}" if given else ""


def _is_timestamp(kind: PgType) -> bool:
    return kind.name == "timestamp" and kind.built_in


class TooMuchError(Exception):
    """The rows do not fit into the task's memory."""


@dataclass(frozen=True, slots=True)
class PolledRows:
    """Rows that a poll has read for a topic, with the offset after them."""

    topic: str
    shape: RowShape
    rows: pa.RecordBatch
    offset: Offset

    def batch(self, partition: Mapping[str, str]) -> SourceBatch:
        """Return the rows as a batch for Kafka."""
        return SourceBatch(
            reader=RowsInMemory(self.shape.schema),
            splits=[self.rows] if self.rows.num_rows else [],
            offsets=[(partition, self.offset)],
            bytes=self.rows.nbytes,
            topic=self.topic,
        )


@dataclass(frozen=True, slots=True)
class LargeRows:
    """Rows that Spark will read for a topic, with the offset after them.

    `export` must stay open until the rows are read.
    """

    topic: str
    reader: RangeReader
    selects: Sequence[str]
    offset: Offset
    export: ExportedSnapshot

    def batch(self, partition: Mapping[str, str]) -> SourceBatch:
        """Return the rows as a batch for Kafka."""
        return SourceBatch(
            reader=self.reader, splits=self.selects, offsets=[(partition, self.offset)], topic=self.topic
        )


class Reader(ABC):
    """Reads one source, starting at an offset."""

    def __init__(self, source: QuerySource, partition: Mapping[str, str]) -> None:
        self.source = source
        self.partition = partition
        self.whole = True
        """Whether the last read returned all rows that existed, and was not limited by `batch.max.rows`."""

    @abstractmethod
    def read(self, server: OpenServer) -> PolledRows | LargeRows | None:
        """Return new rows, or an offset without rows; None if there is nothing new.

        Raises DataError, and psycopg's errors; after an error the next call reads the same rows.
        """
