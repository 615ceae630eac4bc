"""Reads large tables: ranges in parallel, on Spark's executors, all in one snapshot of the database.

A connection exports its snapshot, and keeps it, and the table's columns, until the rows are committed. Each executor
adopts it for its range, so that all of them see the table at the same moment. A range is a range of pages (`ctid`),
which needs no key. Before PostgreSQL 14 the server cannot scan a range of pages alone: there a table is one range.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from fencepost.connectors.jdbc.connection import PostgresAddress, translated
from fencepost.connectors.jdbc.postgres.binary import marks
from fencepost.connectors.jdbc.postgres.row_shape import RowShape
from fencepost.connectors.jdbc.postgres.server import OpenServer
from fencepost.connectors.postgres.server.copy_blocks import copy_blocks, copy_messages
from fencepost.connectors.postgres.server.page_ranges import page_ranges

if TYPE_CHECKING:
    from fencepost.connectors.jdbc.tables import TableId

SMALL_BYTES: Final = 8 << 20
"""The size up to which the task itself reads a table: that is faster than starting a Spark job."""

NO_NUMBER: Final = "null"
"""The first column of a SELECT for a RangeReader."""

_RANGE_BYTES: Final = 32 << 20
_MOST_RANGES: Final = 64
_BLOCK_BYTES: Final = 1 << 22
"""Large, because each block pushes Python's own code and data out of the cache, which takes milliseconds."""

# A command that waits for the connection that holds the table also blocks later readers: neither would end.
_LOCK_TIMEOUT: Final = "5s"

_SIZES: Final = """
select coalesce(sum(pg_relation_size(r)), 0)::bigint, coalesce(max(pg_relation_size(r)), 0)::bigint,
       current_setting('block_size')::bigint
from (select %s::regclass union select relid from pg_partition_tree(%s::regclass)) t(r)
"""


def table_bytes(server: OpenServer, table: TableId) -> int:
    """Return the size of a table with its partitions."""
    return int(server.row(_SIZES, (table.sql(), table.sql()))[0])


def range_conditions(server: OpenServer, table: TableId) -> list[str]:
    """Return conditions for the rows `t` of a table that cut it into ranges of about 32 MiB."""
    total, largest, page = server.row(_SIZES, (table.sql(), table.sql()))
    count = max(1, min(_MOST_RANGES, -(-total // _RANGE_BYTES)))
    version = server.connection.info.server_version
    return [
        part.condition("t.ctid") for part in page_ranges(largest // page, -(-largest // page // count) + 1, version)
    ]


class ExportedSnapshot:
    """A connection with a transaction whose snapshot others can adopt, until it is closed."""

    def __init__(self, address: PostgresAddress) -> None:
        self.server = OpenServer.open(address)
        try:
            self.server.connection.execute("set idle_in_transaction_session_timeout = 0")
            self.server.connection.execute("begin isolation level repeatable read read only")
        except BaseException:
            self.close()
            raise

    def lock(self, table: str) -> None:
        """Keep the columns of a table unchanged."""
        self.server.connection.execute(f"lock table {table} in access share mode".encode())

    def export(self) -> str:
        """Return the name of the snapshot."""
        return str(self.server.one("select pg_export_snapshot()"))

    def close(self) -> None:
        """Close the connection."""
        self.server.connection.close()

    def __del__(self) -> None:
        """Close the connection of a batch that was never committed."""
        if hasattr(self, "server"):
            self.close()


@dataclass(frozen=True)
class RangeReader:
    """An ArrowReader whose splits are SELECTs of the columns of `shape`, after a null. It can be pickled.

    The rows are transferred in the binary format if the columns have forms in it; the SELECTs are made for that.
    """

    shape: RowShape
    address: PostgresAddress
    snapshot: str

    @property
    def schema(self) -> str:
        """The DDL of the rows."""
        return self.shape.schema

    def read(self, split: str) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one SELECT.

        Raises DataError, and RetriableError if the connection is lost or another command waits to alter the table.
        """
        with (
            translated(self.shape.title, self.address, on_loss=lambda: None),
            self.address.connect() as connection,
        ):
            connection.execute(f"set lock_timeout = '{_LOCK_TIMEOUT}'".encode())
            connection.execute("begin isolation level repeatable read read only")
            connection.execute(f"set transaction snapshot '{self.snapshot}'".encode())
            if self.shape.forms is None:
                for block in copy_blocks(connection, csv_of(split), _BLOCK_BYTES):
                    yield self.shape.parse(block)[1]
            else:
                row_marks = marks(len(self.shape.columns))
                for messages in copy_messages(connection, binary_of(split), _BLOCK_BYTES, row_marks):
                    yield self.shape.decode(messages)


def csv_of(select: str) -> str:
    """Return the statement that writes the rows of a SELECT as CSV."""
    return f"copy ({select}) to stdout (format csv)"


def binary_of(select: str) -> str:
    """Return the statement that writes the rows of a SELECT in the binary format."""
    return f"copy ({select}) to stdout (format binary)"
