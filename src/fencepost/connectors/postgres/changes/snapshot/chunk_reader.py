"""Reads the chunks of incremental snapshots from the server. `chunks` describes how they are merged with the stream.

Each chunk is read in its own transaction, which sees the table at one moment. At its end the transaction writes a
logical message: when the stream has passed this message, it has passed everything that the chunk saw. No table is
written.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fencepost.api.errors import RetriableError
from fencepost.connectors.postgres.changes.catalog import relation_of, table_shape, unique_key
from fencepost.connectors.postgres.changes.connection import PostgresError, check_statement, query, run_together
from fencepost.connectors.postgres.changes.database import SourceDatabase
from fencepost.connectors.postgres.changes.events.envelope import TableEvents
from fencepost.connectors.postgres.changes.held_tables import lock_unaltered
from fencepost.connectors.postgres.changes.incremental import Key, SnapshotProgress, TableRead
from fencepost.connectors.postgres.changes.slot.slot import PublishedTable
from fencepost.connectors.postgres.changes.snapshot.chunks import Chunk, ended
from fencepost.connectors.postgres.changes.snapshot.first_snapshot import text_blocks, text_columns
from fencepost.connectors.postgres.changes.snapshot.key_order import KeyOrder, key_order
from fencepost.connectors.postgres.changes.stream.messages import WATERMARK
from fencepost.connectors.postgres.server.pg_snapshot import Snapshot
from fencepost.connectors.postgres.server.quoting import quoted

if TYPE_CHECKING:
    import psycopg

# This time is short, because the stream stops while a chunk is read.
_LOCK_TIMEOUT: Final = "100ms"
# If the stream is further behind the end of the log, no chunk is read: until the stream reaches the chunk's end, the
# keys of changes are kept in memory.
_MAX_LAG_BYTES: Final = 64 << 20


class NotYetError(Exception):
    """A chunk cannot be read now; the message is the reason.

    `snapshot` has the transactions that the attempt saw, None if the attempt ended before it had a snapshot.
    """

    def __init__(self, reason: str, snapshot: Snapshot | None = None) -> None:
        super().__init__(reason)
        self.snapshot = snapshot


class TableAlteredError(Exception):
    """The table was altered after its reading began."""


@dataclass(frozen=True, slots=True)
class _Seen:
    """The transactions that a read sees, and the end of the log at that time."""

    snapshot: Snapshot
    log_end: int


@dataclass(frozen=True, slots=True)
class TableRun:
    """A table whose chunks are being read.

    `key` are the columns of the table's key. `shape` is a text that changes when the table is altered.

    `writers` has the lower 32 bits of the ids of transactions that held a lock for writing to the table when reading
    began. Chunks are read after these transactions have ended, for two reasons. Their commits may already be before the
    stream's position although no session sees them yet. And their writes from before the table was published are not in
    the stream.
    """

    read: TableRead
    table: PublishedTable
    events: TableEvents
    key: tuple[str, ...]
    order: KeyOrder
    shape: str | None
    writers: frozenset[int]


def begin_table(database: SourceDatabase, read: TableRead) -> TableRun:
    """Begin to read a table. Raises PostgresError if the table cannot be read; also NotYetError and RetriableError."""
    with _transaction(database) as connection, _not_yet_if_retriable(connection):
        table = next((table for table in database.published() if table.name == read.table), None)
        # The shape is read in the same transaction as the columns. So the first chunk detects if the table was altered
        # since.
        shape = None if table is None else table_shape(connection, table.oid)
    if table is None:
        raise PostgresError(f"The table {read.table} is not captured, or not in the publication")
    relation = relation_of(connection, table)
    key = unique_key(connection, relation)
    if not key:
        raise PostgresError(f"The table {read.table} has no primary key and no other replica identity of some columns")
    events = database.table_events(relation)
    if events is None or not set(key) <= set(table.columns):
        raise PostgresError(f"The publication leaves out columns of the key of the table {read.table}")
    order = key_order(connection, table.oid, key)
    # The writers are determined after the publication has shown the table.
    run = TableRun(read, table, events, key, order, shape, _writers(connection, table))
    if read.condition is not None:
        # The condition is a user's text, and could contain further statements. Only the preparation of a statement
        # refuses several statements.
        check_statement(connection, _select(run, SnapshotProgress(), 0))
    return run


def greatest_key(database: SourceDatabase, run: TableRun) -> Key | None:
    """Return the greatest key in a table, None if the table is empty.

    Raises NotYetError, RetriableError and PostgresError.
    """
    with _table_as_it_is(database, run) as (connection, _):
        names, order = run.order.names(), run.order.sorting(run.table.table, descending=True)
        select = f"SELECT {names} FROM {run.table.sql()} ORDER BY {order} LIMIT 1"  # noqa: S608 - names are quoted
        columns = _texts(connection, select, run, len(run.key))
        return tuple(column[0].as_py() for column in columns) if len(columns[0]) else None


def read_chunk(database: SourceDatabase, run: TableRun, progress: SnapshotProgress, size: int, position: int) -> Chunk:
    """Read the next `size` rows of a table, while the stream is at `position`.

    Raises NotYetError, RetriableError and PostgresError.
    """
    with _table_as_it_is(database, run) as (connection, seen):
        behind = seen.log_end - position
        if behind > _MAX_LAG_BYTES:
            raise NotYetError(f"the stream is {behind} bytes behind", seen.snapshot)
        width = len(run.key) + len(run.events.columns)
        texts = _texts(connection, _select(run, progress, size), run, width + 1)
        # The message is flushed at the commit, so the stream reaches it even without further writes.
        ((_, high),) = query(
            connection,
            "SELECT set_config('synchronous_commit', 'local', true), "
            "pg_logical_emit_message(true, %s, '') - '0/0'::pg_lsn",
            [WATERMARK],
        )
    matches = pc.equal(texts[width], "t").to_numpy(zero_copy_only=False)
    return Chunk(
        seen.snapshot, int(high), texts[: len(run.key)], texts[len(run.key) : width], matches, len(matches) < size
    )


@contextmanager
def _table_as_it_is(database: SourceDatabase, run: TableRun) -> Iterator[tuple[psycopg.Connection[Any], _Seen]]:
    """Run a transaction that sees the table at one moment. Raises NotYetError if that is not possible yet."""
    with _transaction(database) as connection:
        with _not_yet_if_retriable(connection):
            held = lock_unaltered(connection, [run.table])
        if not held or table_shape(connection, run.table.oid) != run.shape:
            raise TableAlteredError
        ((text, end),) = query(
            connection, "SELECT pg_current_snapshot()::text, pg_current_wal_flush_lsn() - '0/0'::pg_lsn"
        )
        snapshot = Snapshot.parse(text)
        if not ended(snapshot, np.array(sorted(run.writers), np.int64)).all():
            raise NotYetError(f"transactions that had written to {run.table.name} before have not ended", snapshot)
        yield connection, _Seen(snapshot, int(end))


@contextmanager
def _transaction(database: SourceDatabase) -> Iterator[psycopg.Connection[Any]]:
    """Run a transaction that sees the database at one moment, and does not wait long for locks.

    A statement raises RetriableError if it takes so long that the server might end the stream meanwhile.
    """
    connection = database.connection()
    try:
        # A chunk is small, so separate round trips would be a large part of its cost: the statements are sent together.
        # Reading pg_settings would be a large part, too, because it recomputes all settings.
        run_together(
            connection,
            "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",
            f"SET LOCAL lock_timeout = '{_LOCK_TIMEOUT}'",
            "SELECT set_config('statement_timeout', "
            "(extract(epoch FROM current_setting('wal_sender_timeout')::interval) * 500)::bigint::text, true)",
        )
        yield connection
        query(connection, "COMMIT")
    except BaseException:
        with suppress(Exception):
            query(connection, "ROLLBACK")
        raise


@contextmanager
def _not_yet_if_retriable(connection: psycopg.Connection[Any]) -> Iterator[None]:
    """Raise NotYetError for temporary errors, unless the connection broke."""
    try:
        yield
    except RetriableError as error:
        if connection.closed:
            raise
        raise NotYetError(str(error)) from error


def _writers(connection: psycopg.Connection[Any], table: PublishedTable) -> frozenset[int]:
    """Return the transactions that hold a lock for writing rows of a table, or of one of its partitions."""
    rows = query(
        connection,
        "SELECT x.transactionid::text::bigint FROM pg_locks w JOIN pg_locks x "
        "ON x.virtualtransaction = w.virtualtransaction AND x.pid IS NOT DISTINCT FROM w.pid "
        "WHERE w.locktype = 'relation' AND w.database = (SELECT oid FROM pg_database WHERE datname = current_database()) "
        "AND w.relation IN (SELECT %s::oid UNION SELECT relid::oid FROM pg_partition_tree(%s::oid::regclass)) "
        "AND w.mode IN ('RowExclusiveLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock') "
        "AND x.locktype = 'transactionid' AND x.mode = 'ExclusiveLock' AND x.granted",
        [table.oid, table.oid],
    )
    return frozenset(xid for (xid,) in rows)


def _select(run: TableRun, progress: SnapshotProgress, size: int) -> str:
    """Return a SELECT for rows after `progress.last`: keys, values, and whether the row matches the condition."""
    names = run.order.names()
    columns = "".join(f", {quoted(column.name)}" for column in run.events.columns)
    bounds = [(run.order.after, progress.last), (run.order.up_to, progress.end)]
    between = [condition(key) for condition, key in bounds if key is not None]
    where = f" WHERE {' AND '.join(between)}" if between else ""
    # The line end closes a comment at the end of a condition. Conditions are a column of the result, not part of WHERE:
    # if few rows matched, the SELECT would have to scan too many rows for LIMIT.
    asked = [f"({condition}\n)" for condition in (run.table.row_filter, run.read.condition) if condition is not None]
    return (
        f"SELECT {names}{columns}, coalesce({' AND '.join(asked) or 'true'}, false) FROM {run.table.sql()}{where} "  # noqa: S608
        f"ORDER BY {run.order.sorting(run.table.table)} LIMIT {size}"
    )


def _texts(connection: psycopg.Connection[Any], select: str, run: TableRun, width: int) -> list[pa.Array]:
    statement = f"COPY ({select}) TO STDOUT (FORMAT csv, FORCE_QUOTE *)"
    blocks = [text_columns(block, width) for block in text_blocks(connection, statement, run.table.name)]
    nothing = pa.nulls(0, pa.string())
    return [pa.concat_arrays([nothing, *(block[place] for block in blocks)]) for place in range(width)]
