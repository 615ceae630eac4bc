"""Changes of the server or the table while it is read: each has a defined outcome."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psycopg
import pytest

from fencepost.api.allowed_paths import ANYWHERE
from fencepost.api.errors import DataError, RetriableError
from fencepost.connectors.jdbc.connection import PostgresAddress, translated
from fencepost.connectors.jdbc.offsets import SnapshotOffset
from fencepost.connectors.jdbc.postgres.server import OpenServer, check_continues
from fencepost.embedded.postgres import EmbeddedPostgres
from tests.support.jdbc_readers import TableReading
from tests.support.postgres import Database


def address(server: EmbeddedPostgres, user: str = "postgres") -> PostgresAddress:
    values = {"connection.url": server.jdbc_url(), "connection.user": user, "connection.password": None}
    return PostgresAddress.of(values, ANYWHERE)


@contextmanager
def opened(server: EmbeddedPostgres, user: str = "postgres") -> Iterator[OpenServer]:
    found = OpenServer.open(address(server, user))
    with found.connection:
        yield found


def run(server: EmbeddedPostgres, statement: str) -> None:
    with psycopg.connect(server.conninfo(), autocommit=True) as connection:
        connection.execute(statement.encode())


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that every user may enter, unlike pytest's: the server of a root user runs as another user."""
    folder = Path(tempfile.mkdtemp(prefix="postgres-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def test_a_failover_continues_only_if_nothing_was_lost(folder: Path) -> None:
    with ExitStack() as stack:
        primary = stack.enter_context(EmbeddedPostgres(folder / "primary"))
        run(primary, "create table t(id int); insert into t values (1)")
        with TableReading(Database.of_server(primary)) as reading:
            assert reading.rest() == [{"id": 1}]
            offset = reading.offset
        standby = EmbeddedPostgres(folder / "standby", settings={"hot_standby": "on"})
        standby.base_backup(primary, "--write-recovery-conf")
        stack.enter_context(standby)
        with (
            TableReading(Database.of_server(standby)) as reading,
            pytest.raises(DataError, match=r"is a standby.*targetServerType=primary"),
        ):
            reading.poll()
        primary.kill()
        run(standby, "select pg_promote()")
        run(standby, "insert into t values (2); create role reader login; grant select on t to reader")
        assert offset is not None
        committed = SnapshotOffset.of(offset)

        with TableReading(Database.of_server(standby)) as reading:
            reading.restart(offset)
            assert reading.rest() == [{"id": 2}]
            assert reading.offset is not None
            assert reading.offset["timeline"] == committed.timeline + 1
        # The old primary wrote this offset's transactions after the standby was promoted.
        lost = SnapshotOffset(committed.snapshot, None, committed.system, committed.timeline, committed.lsn + (1 << 32))
        with opened(standby) as server, pytest.raises(DataError, match=r"which it left at .*: it is behind"):
            check_continues(server, lost, "the table t")
        with (
            opened(standby, "reader") as server,
            pytest.raises(DataError, match=r"may not read whether rows of the table t were lost.*pg_read_server_files"),
        ):
            check_continues(server, committed, "the table t")


def test_another_server_or_one_restored_from_a_backup_is_refused(folder: Path, postgres: EmbeddedPostgres) -> None:
    server = EmbeddedPostgres(folder / "server").start()
    run(server, "create table t(id int)")
    server.stop()
    subprocess.run(["cp", "-a", str(server.data_folder), str(folder / "backup")], check=True)
    server.start()
    run(server, "insert into t values (1)")
    with TableReading(Database.of_server(server)) as reading:
        assert reading.rest() == [{"id": 1}]
        offset = reading.offset
        assert offset is not None
    server.stop()
    shutil.rmtree(server.data_folder)
    (folder / "backup").rename(server.data_folder)
    server.start()
    try:
        with TableReading(Database.of_server(server)) as reading:
            reading.restart(offset)
            with pytest.raises(DataError, match=r"it is at .* again: it is behind"):
                reading.poll()
    finally:
        server.stop()

    with opened(postgres) as other, pytest.raises(DataError, match="with the system identifier"):
        check_continues(other, SnapshotOffset.of(offset), "the table t")


def test_a_server_that_is_killed_is_read_on_after_its_recovery(folder: Path) -> None:
    with EmbeddedPostgres(folder / "server") as server:
        run(server, "create table t(id int); insert into t values (1)")
        reading = TableReading(Database.of_server(server))
        assert reading.rest() == [{"id": 1}]
        server.kill()
        lost: list[bool] = []
        with (
            pytest.raises(RetriableError, match=r"Reading the table t of PostgreSQL at .* failed"),
            translated("the table t", address(server), on_loss=lambda: lost.append(True)),
        ):
            reading.poll()
        assert lost == [True]
        reading.server.connection.close()
        with pytest.raises(RetriableError, match="Cannot connect to PostgreSQL"):
            OpenServer.open(address(server))
        server.start()
        run(server, "insert into t values (2)")

        with opened(server) as again:
            reading.server = again
            assert reading.rest() == [{"id": 2}]


@pytest.mark.parametrize("end", ["rollback", "commit"])
@pytest.mark.parametrize(("before", "rows"), [(0, 1), (1, 1), (0, 300_000)], ids=["first", "later", "large"])
@pytest.mark.parametrize("columns", ["id int, xid xid8 default pg_current_xact_id()", "id int"], ids=["column", "xmin"])
def test_a_transaction_id_reused_after_a_crash_hides_no_row(
    folder: Path, columns: str, before: int, rows: int, end: str
) -> None:
    with EmbeddedPostgres(folder / "server") as server:
        run(server, f"create table t({columns})")
        run(server, f"insert into t select generate_series(1, {before})")
        database = Database.of_server(server)
        with TableReading(database) as reading, database.connect(autocommit=False) as writer:
            assert len(reading.rest()) == before
            ((log_writer,),) = database.execute("select pid from pg_stat_activity where backend_type = 'walwriter'")
            # Without the WAL writer, uncommitted changes stay in memory until a commit.
            os.kill(log_writer, signal.SIGSTOP)
            run(server, f"insert into t select generate_series(1, {rows})")
            # A commit flushes the WAL only if the transaction wrote to it. A transaction on temporary tables does not.
            ((lost,),) = writer.execute("select pg_current_xact_id()::text").fetchall()
            writer.execute(end)
            assert len(reading.rest()) == rows
            offset = reading.offset
            server.kill()
        server.start()
        ((again,),) = database.execute("insert into t values (0) returning pg_current_xact_id()::text")
        assert again == lost

        with TableReading(database) as reading:
            reading.restart(offset)
            assert [row["id"] for row in reading.rest()] == [0]


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("drop table t", r'cannot be read any more: relation "public.t" does not exist'),
        ("revoke select on t from reader", r"cannot be read any more: permission denied for table t"),
        (
            "alter table t alter v type text",
            r'The column "v" \(integer\) of the table public.t has become text.*restart',
        ),
        ("alter table t rename to u", r'relation "public.t" does not exist'),
    ],
    ids=["dropped", "revoked", "another type", "renamed"],
)
def test_a_table_that_cannot_be_read_on_fails_with_the_cause(database: Database, statement: str, message: str) -> None:
    database.execute("do 'begin create role reader login; exception when duplicate_object then null; end'")
    database.execute("create table t(id int, v int)")
    database.execute("grant select on t to reader")
    database.execute("insert into t values (1, 2)")
    with TableReading(database, {"connection.user": "reader"}) as reading:
        assert reading.rest() == [{"id": 1, "v": 2}]

        database.execute(statement)

        lost: list[bool] = []
        with (
            pytest.raises(DataError, match=message),
            translated("the table t", address(database.server), on_loss=lambda: lost.append(True)),
        ):
            reading.poll()
        assert lost == []


def test_columns_come_and_go_and_a_new_start_takes_a_new_type(database: Database) -> None:
    database.execute("create table t(id int, v int)")
    database.execute("insert into t values (1, 1)")
    with TableReading(database) as reading:
        assert reading.rest() == [{"id": 1, "v": 1}]
        database.execute("alter table t add column w text, drop column v")
        database.execute("insert into t values (2, 'new')")
        assert reading.poll() == [{"id": 2, "w": "new"}]
        database.execute("alter table t alter id type bigint")
        reading.restart()

        # ALTER TABLE rewrote all rows.
        assert sorted(row["id"] for row in reading.rest()) == [1, 2]


def test_a_change_of_columns_waits_for_the_poll_that_reads_them(database: Database) -> None:
    database.execute("create table t(id int)")
    database.execute("insert into t values (1)")
    with TableReading(database) as reading, reading.server.connection.transaction():
        shape = reading.reader.source.describe(reading.server.connection)
        with database.connect() as other:
            other.execute("set lock_timeout = '50ms'")
            with pytest.raises(psycopg.errors.LockNotAvailable):
                other.execute("alter table t add column v int")
        assert [column.name for column in shape.columns] == ["id"]
