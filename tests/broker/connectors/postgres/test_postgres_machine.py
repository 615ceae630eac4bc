"""The database sources on a server whose WAL disk is full, and on machines whose clocks are changed."""

from __future__ import annotations

import logging
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from fencepost.connectors.jdbc.postgres.server import OpenServer
from fencepost.connectors.postgres.changes import streaming
from fencepost.connectors.postgres.changes.connection import PositionLostError
from fencepost.embedded.postgres import EmbeddedPostgres
from tests.support.bank import TABLES, Tellers, balances, open_bank, replayed
from tests.support.jdbc_readers import TableReading
from tests.support.movable_clock import MovableClock, clocked_programs
from tests.support.postgres import Database
from tests.support.postgres_machine import WalDisk, answers, fill_log, may_mount
from tests.support.postgres_task import Topics
from tests.support.processes import wait_for

_DAY = 86_400
_SEGMENTS = {"max_wal_size": "32MB", "min_wal_size": "32MB"}


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """A folder that every user may enter, unlike pytest's: the server of a root user runs as another user."""
    folder = Path(tempfile.mkdtemp(prefix="postgres-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def clock(folder: Path) -> MovableClock:
    return MovableClock(folder / "clock")


@pytest.fixture(scope="module")
def server(folder: Path, clock: MovableClock, postgres: EmbeddedPostgres) -> Iterator[EmbeddedPostgres]:
    programs = clocked_programs(clock, folder / "bin", postgres)
    with EmbeddedPostgres(folder / "server", settings=_SEGMENTS, programs=programs) as server:
        yield server


@pytest.fixture
def database(server: EmbeddedPostgres, clock: MovableClock) -> Iterator[Database]:
    with Database(server) as database:
        yield database
    clock.move(0)


def ids(topics: Topics, table: str = "public.t") -> list[int]:
    return [key["id"] for key, _ in topics.events(table)]


def wait_for_change(topics: Topics, number: int) -> None:
    wait_for(lambda: len(ids(topics)) > number, what=f"change {number}")


def wait_for_heartbeat(topics: Topics) -> None:
    def count() -> int:
        return sum(name.startswith("__debezium-heartbeat") for part in list(topics.committed) for name, _, _ in part)

    before = count()
    wait_for(lambda: count() > before + 1, what="heartbeats")


def test_a_full_disk_of_the_log_loses_and_tears_nothing(folder: Path, seed: int) -> None:
    if not may_mount(folder / "disk"):
        pytest.skip("this user may not mount a file system")
    server = EmbeddedPostgres(folder / "full", settings=_SEGMENTS).start()
    server.stop()
    with WalDisk(folder / "disk", size_mb=80) as disk:
        disk.take_over(server)
        server.start()
        try:
            with Database(server) as database:
                _fill_disk_while_read(database, disk, seed)
        finally:
            server.stop()


def _fill_disk_while_read(database: Database, disk: WalDisk, seed: int) -> None:
    open_bank(database)
    database.execute("create table t(id bigint generated always as identity primary key, v int)")
    topics = Topics(database)
    topics.run()
    with TableReading(database) as reading, Tellers(database, 3, seed) as tellers, topics.running():
        database.execute("insert into t(v) values (1)")
        read = reading.rest()
        fill_log(database, disk)
        disk.free()
        wait_for(lambda: answers(database.server), what="the server recovers")
        before = tellers.transfers
        wait_for(lambda: tellers.transfers > before + 5, what="transfers")
        database.execute("insert into t(v) values (2)")
        reading.server.connection.close()
        reading.server = OpenServer.open(reading.address)
        read += reading.rest()
    assert topics.fatal is None
    while not topics.run():
        pass

    assert topics.failures
    bank = [[event for event in events if event[0] in TABLES] for events in topics.committed]
    assert replayed(enumerate(bank)) == balances(database)
    assert [row["v"] for row in read] == [1, 2]
    assert [row["id"] for row in read] == ids(topics) == [number for (number,) in database.execute("select id from t")]
    topics.drop_slot()


def test_changes_arrive_once_wherever_the_server_sets_its_clock(
    clock: MovableClock, topics: Topics, database: Database
) -> None:
    moves = [0, 3, -400, 2, 0]
    database.execute("create table t(id int primary key)")
    topics.run()
    with topics.running():
        wait_for(topics.slot_in_use, what="the stream")
        for number, days in enumerate(moves):
            clock.move(days * _DAY)
            database.execute("insert into t values (%s)", [number])
            wait_for_change(topics, number)
            # When its clock is put forward, the server takes the silent client for lost, and ends the stream.
            wait_for(topics.slot_in_use, what="the stream")
    topics.run()

    assert topics.fatal is None
    assert ids(topics) == list(range(5))
    events = topics.events("public.t")
    assert [round((value["source"]["ts_ms"] / 1000 - time.time()) / _DAY) for _, value in events] == moves


def test_changes_and_heartbeats_continue_wherever_the_worker_sets_its_clock(
    topics: Topics, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    database.execute("create table t(id int primary key)")
    topics.change(heartbeat_interval_ms="50")
    topics.run()
    real, ahead = time.time, 0
    monkeypatch.setattr(time, "time", lambda: real() + ahead * _DAY)
    moves = [0, 400, -400, 0]
    with topics.running():
        for number, days in enumerate(moves):
            ahead = days
            database.execute("insert into t values (%s)", [number])
            wait_for_change(topics, number)
            wait_for_heartbeat(topics)
    topics.run()

    assert topics.fatal is None
    assert ids(topics) == list(range(4))
    written = [round((value["ts_ms"] / 1000 - real()) / _DAY) for _, value in topics.events("public.t")]
    assert written == moves


def test_a_slot_is_warned_of_before_it_is_given_up_and_refused_after(
    topics: Topics, database: Database, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streaming, "_CHECK_INTERVAL_S", 0.1)
    database.execute("create table t(id int primary key)")
    database.execute("alter system set max_slot_wal_keep_size = '128MB'")
    database.execute("select pg_reload_conf()")
    try:
        topics.run()
        # The server keeps the WAL from the start of an open transaction on.
        with database.connect(autocommit=False) as writer:
            writer.execute("insert into t values (1)")
            with topics.running():
                wait_for(topics.slot_in_use, what="the stream")
                database.execute("insert into t values (2)")
                wait_for(lambda: ids(topics), what="the change")
                assert not _warnings(topics, caplog)
                switch_log(database, times=5)
                wait_for(lambda: _warnings(topics, caplog), what="the warning")
            writer.commit()
        wait_for(lambda: _lost(topics, database), what="the slot is given up")
        with pytest.raises(PositionLostError, match=r"was invalidated.*Raise max_slot_wal_keep_size.*it takes a new"):
            topics.run()
    finally:
        database.execute("alter system reset max_slot_wal_keep_size")
        database.execute("select pg_reload_conf()")

    assert ids(topics) == [2]
    assert "find out what keeps the connector behind" in _warnings(topics, caplog)[0]


def switch_log(database: Database, times: int) -> None:
    """Switch to further WAL segments, of 16 MB."""
    for _ in range(times):
        database.execute("select pg_logical_emit_message(true, 'noise', 'x')")
        database.execute("select pg_switch_wal()")


def _warnings(topics: Topics, caplog: pytest.LogCaptureFixture) -> list[str]:
    messages = [record.getMessage() for record in list(caplog.records)]
    return [message for message in messages if f"The slot {topics.slot} " in message and "be invalidated" in message]


def _lost(topics: Topics, database: Database) -> bool:
    switch_log(database, times=3)
    database.execute("checkpoint")
    ((status,),) = database.execute("select wal_status from pg_replication_slots where slot_name = %s", [topics.slot])
    return bool(status == "lost")


def test_rows_are_read_once_by_transactions_wherever_the_server_sets_its_clock(
    clock: MovableClock, database: Database
) -> None:
    database.execute("create table t(id int primary key, at timestamptz not null default clock_timestamp())")
    read = []
    with TableReading(database) as reading:
        for number, days in enumerate([0, 3, -400, 0]):
            clock.move(days * _DAY)
            database.execute("insert into t(id) values (%s)", [number])
            read += reading.rest()

    assert [row["id"] for row in read] == list(range(4))


def test_a_clock_that_is_behind_the_last_timestamp_is_warned_of(
    clock: MovableClock, database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    database.execute("create table t(id int primary key, at timestamptz not null default clock_timestamp())")
    with TableReading(database, {"mode": "timestamp", "timestamp.column.name": "at"}) as reading:
        clock.move(3 * _DAY)
        database.execute("insert into t(id) values (1)")
        assert [row["id"] for row in reading.rest()] == [1]
        clock.move(0)
        database.execute("insert into t(id) values (2)")
        assert reading.rest() == reading.rest() == []
        (warning,) = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
        assert "behind the last timestamp that was read from the table public.t" in warning
        clock.move(4 * _DAY)
        database.execute("insert into t(id) values (3)")
        assert [row["id"] for row in reading.rest()] == [3]
