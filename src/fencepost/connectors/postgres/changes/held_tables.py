"""Keeps tables unchanged while the first snapshot reads them.

A command that rewrites a table, such as TRUNCATE or a change of a column's type, makes the table look empty to all
older snapshots: a later read would find no rows, and the stream does not contain these rows either. So a transaction
locks the tables until their rows are committed. A table that was rewritten before it was locked is detected by its
changed file number (relfilenode).

https://www.postgresql.org/docs/current/mvcc-caveats.html
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from fencepost.api.errors import RetriableError
from fencepost.connectors.postgres.changes.connection import ConnectionSettings, PostgresError, query
from fencepost.connectors.postgres.changes.slot.slot import PublishedTable

if TYPE_CHECKING:
    import psycopg

# A command that waits for a table also blocks later readers of the table. Without a timeout, the snapshot and such a
# command could wait for each other forever.
_LOCK_TIMEOUT: Final = "5s"


def adopt(connection: psycopg.Connection[Any], snapshot: str) -> None:
    """Begin a transaction that reads an exported snapshot. Raises RetriableError if the snapshot is gone."""
    query(connection, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
    try:
        query(connection, f"SET TRANSACTION SNAPSHOT '{snapshot}'")
    except PostgresError as error:
        raise RetriableError(
            f"The snapshot {snapshot} is gone, since the connection that exported it broke: the task begins with another one"
        ) from error
    limit_lock_waits(connection, local=True)


class SnapshotSession:
    """Reads from an exported snapshot.

    Tables that are held are read one at a time, over the connection that holds them. That connection is not pickled: on
    executors, each reader opens its own connection.
    """

    def __init__(
        self, settings: ConnectionSettings, snapshot: str, holder: psycopg.Connection[Any] | None = None
    ) -> None:
        """`holder` is a connection that has adopted the snapshot."""
        self._settings = settings
        self._snapshot = snapshot
        self._holder = holder

    def __reduce__(self) -> tuple[type[SnapshotSession], tuple[ConnectionSettings, str]]:
        return SnapshotSession, (self._settings, self._snapshot)

    @contextmanager
    def connection(self) -> Iterator[psycopg.Connection[Any]]:
        """Lend a connection that has adopted the snapshot. Raises RetriableError if the snapshot is gone."""
        if self._holder is not None:
            yield self._holder
            return
        with self._settings.connect() as connection:
            adopt(connection, self._snapshot)
            yield connection


def limit_lock_waits(connection: psycopg.Connection[Any], *, local: bool = False) -> None:
    """Make a connection's statements raise RetriableError after a long wait for a lock.

    With `local`, only the statements of the current transaction raise it.

    A limit is necessary because the server cannot see a deadlock between two connections of a task.
    """
    query(connection, f"SET {'LOCAL ' if local else ''}lock_timeout = '{_LOCK_TIMEOUT}'")


def hold(
    connection: psycopg.Connection[Any], snapshot: str, tables: Sequence[PublishedTable]
) -> Sequence[PublishedTable]:
    """Lock tables until the connection is closed. Return the tables that existed when the snapshot was taken.

    Raises RetriableError if a lock takes too long, or a table was rewritten after the snapshot, and PostgresError.
    """
    adopt(connection, snapshot)
    return lock_unaltered(connection, tables)


def lock_unaltered(connection: psycopg.Connection[Any], tables: Sequence[PublishedTable]) -> Sequence[PublishedTable]:
    """Lock tables until the end of the connection's transaction, which has adopted a snapshot.

    Return the tables that existed when the snapshot was taken: later tables have no rows in it.

    Raises RetriableError if a lock takes too long, or a table was rewritten after the snapshot, and PostgresError.
    """
    if tables:
        # LOCK TABLE is not used, because it needs SELECT on all columns.
        query(connection, "; ".join(f"SELECT FROM {table.sql()} LIMIT 0" for table in tables))
    # Columns of the catalog show the state at the snapshot; pg_relation_filenode shows the present state.
    rows = query(
        connection,
        "WITH held AS (SELECT t.oid, coalesce(p.relid, t.oid) AS part FROM unnest(%s::oid[]) t(oid) "
        "LEFT JOIN LATERAL pg_partition_tree(t.oid) p ON true) "
        "SELECT h.oid, bool_and(c.relkind = 'p' OR c.relfilenode = pg_relation_filenode(c.oid)) "
        "FROM held h JOIN pg_class c ON c.oid = h.part GROUP BY h.oid",
        [[table.oid for table in tables]],
    )
    same = dict(rows)
    if rewritten := [table.name for table in tables if same.get(table.oid) is False]:
        raise RetriableError(
            f"{', '.join(rewritten)} was rewritten or truncated while its snapshot began: another one is taken"
        )
    return [table for table in tables if table.oid in same]
