"""mode=snapshot: reads the rows of the transactions that have ended since the last poll. No row is lost or duplicated.

A poll requests a snapshot. A later statement then reads the rows whose transaction is in this snapshot, but was not in
the snapshot of the previous poll. A row's transaction is known from

- a column of type xid8 with the default `pg_current_xact_id()`, by an index on the column; or else
- PostgreSQL's own column xmin, by a scan of the whole table.

xmin may also be a subtransaction, after a savepoint or in an EXCEPTION block of PL/pgSQL. PostgreSQL's snapshots do not
list running subtransactions, so each unknown transaction is looked up (`pg_xact_status`). The lookup may come after the
snapshot was taken, because transactions only need to have ended before the statement that reads rows. If a transaction
ends while subtransactions are looked up, another snapshot is taken.

The server does not wait for its log (WAL) if a transaction was rolled back, or wrote only to temporary or unlogged
tables. After a crash the server reuses the numbers of these transactions, and rows with these numbers are new. So
unless the whole log was flushed, the offset ends with the last transaction whose rows are delivered.

xmin has 32 bits. From transaction 2^32 on, old rows could not be distinguished from new ones, so xmin is then refused.

All rows of tables that were not read before, such as an attached partition, are new (see `relations`).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from fencepost.api.errors import DataError
from fencepost.connectors.jdbc.offsets import Offset, SnapshotOffset
from fencepost.connectors.jdbc.postgres.reader import LargeRows, PolledRows, QuerySource, Reader, TooMuchError
from fencepost.connectors.jdbc.postgres.relations import check_stamped, relations, rows_of_tables, with_rows
from fencepost.connectors.jdbc.postgres.row_shape import RowShape
from fencepost.connectors.jdbc.postgres.server import OpenServer, check_continues
from fencepost.connectors.jdbc.properties import BATCH_ROWS
from fencepost.connectors.postgres.server.lsn import lsn_text, parse_lsn
from fencepost.connectors.postgres.server.pg_snapshot import NOTHING, Snapshot
from fencepost.connectors.postgres.server.quoting import quoted

_log: Final = logging.getLogger(__name__)

XMIN_LIMIT: Final = 1 << 32
"""The first transaction number that does not fit into xmin."""

_MOST_RUNNING: Final = 1000
"""The maximum number of running transactions in an offset.

If there are more, later transactions are read only after some of the running ones have ended.
"""

# Without commits, a background process of the server flushes the log several times a second, but it may omit the last
# page.
_FLUSH_SECONDS: Final = 1.0
_FLUSH_POLL_SECONDS: Final = 0.02

MOST_BYTES: Final = 64 << 20
"""If new rows have more bytes than this, a Spark job reads them, not the task itself."""

# The present snapshot, the end of the WAL, and the position up to which the WAL is flushed, and so safe from a crash.
_NOW: Final = """
select pg_current_snapshot()::text, pg_current_wal_insert_lsn()::text, pg_current_wal_flush_lsn()::text
"""

_RUNNING: Final = """
select x from (select unnest(%s::bigint[]) union all select generate_series(%s::bigint, %s::bigint)) c(x)
where pg_xact_status(x::text::xid8) = 'in progress' order by x limit %s
"""

_INDEXED: Final = """
select exists (select from pg_index i join pg_attribute a on a.attrelid = i.indrelid and a.attnum = i.indkey[0]
               where i.indrelid = %s::regclass and i.indisvalid and i.indpred is null and a.attname = %s)
"""


class SnapshotReader(Reader):
    """Reads a table by the transactions of its rows."""

    def __init__(self, source: QuerySource, partition: Mapping[str, str], offset: Offset | None) -> None:
        super().__init__(source, partition)
        self._offset = None if offset is None else SnapshotOffset.of(offset)
        self._checked: OpenServer | None = None
        self._idle_at: str | None = None
        self._column: str | None = None
        self._column_is_known = False

    def read(self, server: OpenServer) -> PolledRows | LargeRows | None:
        """Return the rows of transactions that have ended since the last read.

        At most `batch.max.rows` rows are returned, plus the remaining rows of the last transaction.
        """
        if self._checked is not server:
            self._check(server)
        text = str(server.one("select pg_current_snapshot()::text"))
        if text == self._idle_at:
            return None
        self.whole = True
        try:
            found = self._read(server)
        except TooMuchError:
            return self._read_large(server)
        if found is None:
            self._idle_at = text
        return found

    def _read(self, server: OpenServer) -> PolledRows | LargeRows | None:
        connection = server.connection
        with connection.transaction():
            shape = self.source.describe(connection)
            self._choose_column(server, shape)
            if self._offset is None and self.source.is_large(server):
                raise TooMuchError
            offset, rows = (
                self._initial(server, shape) if self._offset is None else self._next(server, shape, self._offset)
            )
        # The offset is set after the transaction has ended: if the transaction fails, the same rows are read again.
        self._offset = offset
        return PolledRows(self.source.topic, shape, rows, offset.as_offset()) if rows.num_rows else None

    def _read_large(self, server: OpenServer) -> LargeRows:
        """Return all new rows, regardless of `batch.max.rows`: a whole table, or a very large transaction."""
        offset = self._offset
        old, by = (NOTHING, self._column) if offset is None else (offset.snapshot, offset.column)
        new, written = self._now(server, old, by)
        condition, whole = (_first_rows(by, new), True) if offset is None else self._new_rows(server, offset, new)
        last = None
        if _wait_until_flushed(server, written):
            new = replace(new, lsn=max(new.lsn, written))
        else:
            last = server.one(f"select max({_number(by)}) from {self.source.sql} t where {condition}")  # noqa: S608 - quoted
        to = replace(_safe(old, new, written, last), column=self._column)
        # If an index finds the rows, the table is not divided into ranges.
        ranges = whole or offset is None or offset.column is None
        found = self.source.read_in_ranges(condition, to.as_offset(), ranges=ranges)
        self._offset = to
        return found

    def _check(self, server: OpenServer) -> None:
        if server.standby:
            raise DataError(
                f"PostgreSQL at {server.name} is a standby, which does not know the running transactions of its primary: "
                "mode=snapshot needs the primary. Correct connection.url, or add targetServerType=primary to it"
            )
        if self._offset is not None:
            check_continues(server, self._offset, self.source.title)
        self._checked, self._idle_at = server, None

    def _choose_column(self, server: OpenServer, shape: RowShape) -> None:
        found = next((column.name for column in shape.columns if column.stamped and column.type.name == "xid8"), None)
        if self._column_is_known and found == self._column:
            return
        if found is not None:
            self._refuse_others(server, found)
        self._column, self._column_is_known, title = found, True, self.source.title
        if found is None:
            _log.warning(
                "Each poll of %s with new transactions scans all of it: it has no column of type xid8 with the default "
                "pg_current_xact_id()",
                title,
            )
        elif not server.one(_INDEXED, (self.source.sql, found)):
            _log.warning(
                "Each poll of %s scans all of it: there is no index that begins with its column %s", title, found
            )
        else:
            _log.info("New rows of %s are found by its column %s", title, found)

    def _refuse_others(self, server: OpenServer, column: str) -> None:
        """Refuse a column with another server's transactions, as after a restore.

        Rows with these transactions would not be found.
        """
        name = quoted(column)
        statement = (
            f"select exists (select from {self.source.sql} where {name} >= pg_snapshot_xmax(pg_current_snapshot()))"  # noqa: S608 - quoted
        )
        if server.one(statement):
            raise DataError(
                f"The column {column} of {self.source.title} has transactions that PostgreSQL at {server.name} has not reached: "
                "its rows were written on another server, and restored. Set the column to null in all rows, and delete the "
                "connector's offsets to read the table from the start"
            )

    def _initial(self, server: OpenServer, shape: RowShape) -> tuple[SnapshotOffset, pa.RecordBatch]:
        new, written = self._now(server, NOTHING, self._column)
        select = self.source.select(_number(self._column), shape, f"where {_first_rows(self._column, new)}")
        xids, rows = self.source.copy(server.connection, select, shape, most_bytes=MOST_BYTES)
        to = _safe(NOTHING, new, written, pc.max(xids).as_py())
        return replace(to, column=self._column), rows

    def _next(
        self, server: OpenServer, shape: RowShape, offset: SnapshotOffset
    ) -> tuple[SnapshotOffset, pa.RecordBatch]:
        old, by = offset.snapshot, offset.column
        if by is not None and by != self._column:
            raise DataError(
                f"The transactions of {self.source.title} were in its column {by}, which no longer has the type xid8 and "
                "the default pg_current_xact_id(). Bring it back, or delete the connector's offsets to read the table "
                "from the start"
            )
        new, written = self._now(server, old, by)
        most = int(self.source.config.values[BATCH_ROWS])
        order = "t.xmin::text::bigint" if by is None else _xid(by)
        condition, whole = self._new_rows(server, offset, new)
        limit = "" if whole else f"order by {order} fetch first {most} rows with ties"
        select = self.source.select(order, shape, f"where {condition} {limit}")
        xids, rows = self.source.copy(server.connection, select, shape, most_bytes=MOST_BYTES)
        if not whole and rows.num_rows >= most:
            self.whole = False
            return replace(new, snapshot=old.through(new.snapshot, xids[-1].as_py())), rows
        # From now on the column is used, if it exists: the rows found by xmin are delivered, and later rows have a
        # value in it.
        to = _safe(old, new, written, pc.max(xids).as_py())
        return replace(to, column=self._column), rows

    def _new_rows(self, server: OpenServer, offset: SnapshotOffset, new: SnapshotOffset) -> tuple[str, bool]:
        """Return the condition for rows in `new` but not in `offset`, and whether earlier transactions' rows match it.

        Such rows are in tables that were not read before. If there are such rows, the order of transactions does not
        show the progress of the read.
        """
        by, now, before = offset.column, new.relations or (), offset.relations
        later = _later_rows(by, offset.snapshot, new.snapshot)
        added = [oid for oid in now if before is not None and oid not in before]
        every = _first_rows(by, new)
        found = (
            with_rows(server, self.source.sql, added, f"({every}) and not coalesce({later}, false)") if added else {}
        )
        if not found:
            return _of_tables(later, now), False
        _log.info(
            "Rows of %s are in tables that were not read before (%s): all rows of these tables are read",
            self.source.title,
            ", ".join(found.values()),
        )
        return _of_tables(f"({later} or {rows_of_tables(list(found))} and ({every}))", now), True

    def _now(self, server: OpenServer, old: Snapshot, column: str | None) -> tuple[SnapshotOffset, int]:
        """Return the transactions that have ended, including the `old` ones, and a WAL position after all of them.

        `column` contains a row's transaction.
        """
        new, written, flushed = self._ended(server, old, column)
        while new is None:
            new, written, flushed = self._ended(server, old, column)
        # The tables are determined after the snapshot: a table that is attached later is read at the next poll.
        tables = relations(server, self.source.sql)
        if self._column is not None:
            # The defaults are checked before the tables are stored in the offset. A table that is missing in the offset
            # is read as a whole: this includes the rows from before it had the default.
            check_stamped(server, self.source.sql, tables, self._column)
        return SnapshotOffset(new, column, server.system, server.timeline, flushed, tables), written

    def _ended(self, server: OpenServer, old: Snapshot, column: str | None) -> tuple[Snapshot | None, int, int]:
        """Return the ended transactions as a snapshot, the end of the log, and the end of the log's flushed part.

        The snapshot is None if it is uncertain which transactions have ended.
        """
        text, *positions = server.row(_NOW)
        written, flushed = map(parse_lsn, positions)
        new = Snapshot.parse(text)
        if new.xmax < old.xmax:
            raise DataError(
                f"PostgreSQL at {server.name} is at transaction {new.xmax}, behind {old.xmax}, up to which rows of "
                f"{self.source.title} were read: it lacks rows that were delivered, and gives others their transactions' "
                "numbers. Connect to the right server, or delete the connector's offsets to read the table from the start"
            )
        return (self._with_subtransactions(server, old, new) if column is None else new), written, flushed

    def _with_subtransactions(self, server: OpenServer, old: Snapshot, new: Snapshot) -> Snapshot | None:
        """Return the snapshot without running subtransactions; None if it is uncertain which of them run."""
        if new.xmax > XMIN_LIMIT:
            raise DataError(
                f"PostgreSQL at {server.name} has had more than 2^32 transactions, and xmin does not tell new rows of "
                f"{self.source.title} from old ones any more. Give the table a column of type xid8 with the default "
                "pg_current_xact_id() and an index on it"
            )
        some, more = old.unknown_in(new)
        running = [
            xid
            for (xid,) in server.connection.execute(
                _RUNNING, (list(some), more.start, more.stop - 1, _MOST_RUNNING + 1)
            ).fetchall()
        ]
        ended = Snapshot.of(new.xmax, (*running, *new.running))
        now = Snapshot.parse(str(server.one("select pg_current_snapshot()::text")))
        # If a transaction ended meanwhile, some of its subtransactions may have been seen as running, others as ended.
        if any(xid in now for xid in new.running):
            return None
        if len(running) <= _MOST_RUNNING:
            return ended
        self.whole = False
        return old.through(ended, running[-1] - 1)


def _wait_until_flushed(server: OpenServer, written: int) -> bool:
    """Wait at most a second until the log is flushed up to a position. Return whether it is flushed up to there."""
    deadline = time.monotonic() + _FLUSH_SECONDS
    while not (flushed := server.one("select %s::pg_lsn <= pg_current_wal_flush_lsn()", (lsn_text(written),))):
        if time.monotonic() > deadline:
            break
        time.sleep(_FLUSH_POLL_SECONDS)
    return bool(flushed)


def _safe(old: Snapshot, new: SnapshotOffset, written: int, last: int | None) -> SnapshotOffset:
    """Return the transactions of `old`, and the transactions of `new` whose numbers are not reused after a crash.

    If the log is flushed up to `written`, no numbers of `new` are reused. Otherwise this is certain only for the
    transactions up to `last`, the last transaction with rows.
    """
    if written <= new.lsn:
        return new
    return replace(new, snapshot=old.through(new.snapshot, max(last or 0, old.xmax - 1)))


def _number(column: str | None) -> str:
    """Return the SQL expression of a row's transaction number, of type bigint."""
    return f"{_xid(column)}::text::bigint"


def _xid(column: str | None) -> str:
    """Return the SQL expression of a row's transaction number, of type xid8."""
    return "t.xmin::text::xid8" if column is None else f"t.{quoted(column)}"


def _of_tables(condition: str, tables: tuple[int, ...]) -> str:
    """Return a condition that limits rows to these tables: other tables may be attached between two statements."""
    return f"{condition} and {rows_of_tables(tables)}" if tables else condition


def _first_rows(column: str | None, new: SnapshotOffset) -> str:
    """Return the condition for the rows of a snapshot. In rows from before the column existed, the column is null."""
    xid = _xid(column)
    return _of_tables(f"({xid} is null or pg_visible_in_snapshot({xid}, '{new.snapshot}'))", new.relations or ())


def _later_rows(column: str | None, old: Snapshot, new: Snapshot) -> str:
    """Return the condition for the rows of a snapshot that are not in an older snapshot."""
    xid = _xid(column)
    # The server can use an index for this condition.
    bounds = "" if column is None else f"{xid} >= '{old.xmin}'::xid8 and {xid} < '{new.xmax}'::xid8 and "
    return f"{bounds}not pg_visible_in_snapshot({xid}, '{old}') and pg_visible_in_snapshot({xid}, '{new}')"
