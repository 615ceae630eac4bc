"""Reads large tables: ranges in parallel, on Spark's executors, all in one snapshot of the database.

One connection exports its snapshot, keeps it open and prevents changes of the columns until the rows are committed.
Each executor adopts the snapshot for its range, so that all executors see the table at the same moment. A range is a
range of pages (`ctid`), which needs no key. Before PostgreSQL 14 the server cannot scan only a range of pages, so a
table is read as one range.
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
"""Up to this size the task itself reads a table: that is faster than starting a Spark job."""

NULL_COLUMN: Final = "null"
"""The first column of each SELECT for a RangeReader: null, because no transaction number or position is needed."""

_RANGE_BYTES: Final = 32 << 20
_MOST_RANGES: Final = 64
_BLOCK_BYTES: Final = 1 << 22
"""The size of a block in bytes.

Blocks are large, so that there are few: each one displaces Python's own code and data from the processor's cache, which
costs milliseconds.
"""

# The exporting connection has locked the table. A command that waits for this lock, such as ALTER TABLE, blocks the
# reads on executors, and waits for their end. The timeout ends this deadlock.
_LOCK_TIMEOUT: Final = "5s"

_SIZES: Final = """
select coalesce(sum(pg_relation_size(r)), 0)::bigint, coalesce(max(pg_relation_size(r)), 0)::bigint,
       current_setting('block_size')::bigint
from (select %s::regclass union select relid from pg_partition_tree(%s::regclass)) t(r)
"""


def table_bytes(server: OpenServer, table: TableId) -> int:
    """Return the size in bytes of a table with its partitions."""
    return int(server.row(_SIZES, (table.sql(), table.sql()))[0])


def range_conditions(server: OpenServer, table: TableId) -> list[str]:
    """Return conditions for rows `t` that divide a table into ranges of about 32 MiB, or into 64 larger ranges."""
    total, largest, page = server.row(_SIZES, (table.sql(), table.sql()))
    count = max(1, min(_MOST_RANGES, -(-total // _RANGE_BYTES)))
    version = server.connection.info.server_version
    return [
        part.condition("t.ctid") for part in page_ranges(largest // page, -(-largest // page // count) + 1, version)
    ]


class ExportedSnapshot:
    """A connection with an open transaction whose snapshot other connections can adopt until this one is closed."""

    def __init__(self, address: PostgresAddress) -> None:
        self.server = OpenServer.open(address)
        try:
            self.server.connection.execute("set idle_in_transaction_session_timeout = 0")
            self.server.connection.execute("begin isolation level repeatable read read only")
        except BaseException:
            self.close()
            raise

    def lock(self, table: str) -> None:
        """Prevent changes of a table's columns."""
        self.server.connection.execute(f"lock table {table} in access share mode".encode())

    def export(self) -> str:
        """Export the snapshot, and return its name."""
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
    """An ArrowReader whose splits are SELECTs of a null and the columns of `shape`. It can be pickled.

    The rows are transferred in the binary format if `shape.forms` is not None, else as text. The SELECTs must be
    written for this format.
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
