"""The PostgreSQL server behind a connection, and whether reading can continue on it from an offset."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from fencepost.api.errors import DataError
from fencepost.connectors.jdbc.connection import PostgresAddress
from fencepost.connectors.jdbc.offsets import SnapshotOffset
from fencepost.connectors.postgres.server.connect import load_driver
from fencepost.connectors.postgres.server.lsn import lsn_text, parse_lsn, timeline_ends

if TYPE_CHECKING:
    from fencepost.connectors.jdbc.connection import Connection

# This is the timeline of the newest WAL. Just after a promotion, the control file may still have an older timeline.
_IDENTITY: Final = """
select s.system_identifier::text, r.standby, current_database(),
       case when r.standby then '0' else substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8) end
from pg_control_system() s, pg_is_in_recovery() r(standby)
"""

_REMEDY: Final = (
    "Connect to the former server, or delete the connector's offsets to read the table from the start. To go on here "
    "nevertheless, give the offset this server's system_identifier, timeline and lsn"
)


@dataclass(frozen=True, eq=False)
class OpenServer:
    """A connection and its server.

    `name` is for messages. `system` is the server's system identifier. `timeline` is its timeline, 0 for a standby.
    """

    connection: Connection
    name: str
    system: str
    timeline: int
    standby: bool
    database: str

    @classmethod
    def open(cls, address: PostgresAddress) -> OpenServer:
        """Connect. Raises the errors of `PostgresAddress.connect`, and psycopg's errors."""
        connection = address.connect()
        try:
            row = connection.execute(_IDENTITY).fetchone()
            assert row is not None  # noqa: S101
            system, standby, database, timeline = row
        except BaseException:
            connection.close()
            raise
        return cls(connection, address.name, system, int(timeline, 16), standby, database)

    def row(self, statement: str, parameters: Sequence[Any] = ()) -> tuple[Any, ...]:
        """Return the only row of a statement's result."""
        row = self.connection.execute(statement.encode(), parameters or None).fetchone()
        assert row is not None  # noqa: S101
        return row

    def one(self, statement: str, parameters: Sequence[Any] = ()) -> Any:
        """Return the only value of a statement's result."""
        return self.row(statement, parameters)[0]


def check_continues(server: OpenServer, offset: SnapshotOffset, title: str) -> None:
    """Raise DataError unless the server has all transactions of an offset, with the same numbers.

    After a failover the new primary has the transactions up to the start of its timeline. A server that was restored
    from a backup is behind the offset's position in the WAL. A server that crashed is not behind it, because flushed
    WAL survives a crash.
    """
    if server.system != offset.system:
        raise DataError(
            f"{title[0].upper()}{title[1:]} was read from a PostgreSQL with the system identifier {offset.system}, but the "
            f"one at {server.name} has {server.system}: its transactions have other numbers. {_REMEDY}"
        )
    if server.timeline == offset.timeline:
        present = str(server.one("select pg_current_wal_insert_lsn()::text"))
        if parse_lsn(present) < offset.lsn:
            raise _behind(server, offset, title, f"and it is at {present} again")
        return
    history = _history(server)
    if history is None:
        raise DataError(
            f"PostgreSQL at {server.name} has changed from timeline {offset.timeline} to {server.timeline}, by a failover or a "
            f"restore, and its user may not read whether rows of {title} were lost in that: grant it "
            f"pg_read_server_files, and EXECUTE on pg_read_file(text, boolean). {_REMEDY}"
        )
    end = history.get(offset.timeline)
    if end is None:
        raise _behind(server, offset, title, "which is none of its former ones")
    if end < offset.lsn:
        raise _behind(server, offset, title, f"which it left at {lsn_text(end)}")


def _behind(server: OpenServer, offset: SnapshotOffset, title: str, why: str) -> DataError:
    return DataError(
        f"Rows of {title} were read up to the position {lsn_text(offset.lsn)} on the timeline {offset.timeline} of PostgreSQL "
        f"at {server.name}, {why}: it is behind, and may lack rows that were delivered. {_REMEDY}"
    )


def _history(server: OpenServer) -> dict[int, int] | None:
    """Return the end position of each earlier timeline of the server; None if the user has no right to read these."""
    try:
        text = server.one("select pg_read_file(%s, true)", (f"pg_wal/{server.timeline:08X}.history",))
    except load_driver().errors.InsufficientPrivilege:
        return None
    return timeline_ends(text or "")
