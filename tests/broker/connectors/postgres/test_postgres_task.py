"""The task of PostgresSource on real servers, through crashes, cut connections, and a failover."""

from __future__ import annotations

import random
import shutil
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest

from fencepost.connectors.postgres.changes.connection import PositionLostError
from fencepost.embedded.postgres import EmbeddedPostgres
from tests.support.bank import Tellers, balances, open_bank, replayed
from tests.support.fault_proxy import FaultProxy
from tests.support.postgres import Database
from tests.support.postgres_task import Topics
from tests.support.processes import wait_for


def test_crashes_around_each_commit_keep_transactions_whole(topics: Topics, database: Database, chance: random.Random):
    open_bank(database)
    crashes = 0
    with Tellers(database, 3, chance.randrange(1000)) as tellers:
        while tellers.transfers < 300 or crashes < 10:
            crashes += not topics.run(chance, crash=0.3)
    topics.run()

    assert replayed(enumerate(topics.committed)) == balances(database)


def test_rows_with_keys_of_any_type_may_be_updated(topics: Topics, database: Database):
    types = {
        "text[]": ("{a}", "{b,c}"),
        "int[]": ("{1}", "{1,2}"),
        "float8": ("NaN", "0"),
        "interval": ("1 day", "2 days"),
    }
    for place, (kind, (one, two)) in enumerate(types.items()):
        database.execute(f"create table t{place}(id {kind} primary key, n int)")
        database.execute(f"alter table t{place} replica identity {'full' if place % 2 else 'default'}")
        database.execute(f"insert into t{place} values ('{one}', 1), ('{two}', 2)")  # noqa: S608
    topics.run()
    for place, (one, _) in enumerate(types.values()):
        database.execute(f"update t{place} set n = 3 where id = '{one}'")  # noqa: S608
        database.execute(f"delete from t{place} where n = 2")  # noqa: S608
        database.execute(f"update t{place} set id = '{types[list(types)[place]][1]}'")  # noqa: S608
    topics.run()

    for place in range(len(types)):
        found = [value and value["op"] for _, value in topics.events(f"public.t{place}")]
        assert found == ["r", "r", "u", "d", None, "d", None, "c"], place


def test_notices_between_the_changes_do_not_end_the_stream(topics: Topics, database: Database):
    # A role or database may set client_min_messages so low, and plugins and the server itself send warnings.
    database.execute(f"alter database {database.name} set client_min_messages = debug2")
    database.execute("create table t(id int primary key)")
    topics.run()
    with topics.running():
        for number in range(30):
            database.execute("insert into t values (%s)", (number,))
        wait_for(lambda: len(topics.events("public.t")) == 30, what="the rows")
    assert topics.fatal is None
    assert [str(error) for error in topics.failures if "ended the replication stream" in str(error)] == []


def test_a_transaction_larger_than_a_block_is_whole_or_split_as_configured(
    topics: Topics, database: Database, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("fencepost.connectors.postgres.changes.stream.stream.BLOCK_BYTES", 1 << 20)
    database.execute("create table many(id int primary key, note text)")
    topics.run()
    database.execute("insert into many select i, repeat('x', 500) from generate_series(1, 10000) i")
    topics.run()
    assert len(topics.committed) == 1

    topics.change(transaction_split_interval_ms="1")
    database.execute("update many set note = repeat('y', 500)")
    # The crashes are between any two parts of the transaction that are committed.
    runs = 0
    chance = random.Random(5)
    while not topics.run(chance, crash=0.2):
        runs += 1
    assert len(topics.committed) > 3
    found = [(key["id"], value["op"]) for key, value in topics.events("public.many")]
    assert sorted(found) == sorted([(n, op) for n in range(1, 10001) for op in "cu"])


def test_cut_connections_and_killed_servers_keep_transactions_whole(chance: random.Random):
    with EmbeddedPostgres() as server, Database(server) as database:
        open_bank(database)
        proxy = FaultProxy(server.port, framed=False).start()
        topics = Topics(database, database_port=str(proxy.port))
        ended = threading.Event()

        def killed() -> None:
            server.kill()
            server.start()

        walsenders = "select pg_terminate_backend(pid) from pg_stat_replication"
        faults: list[Callable[[], object]] = [
            proxy.reset, lambda: database.execute(walsenders), proxy.reset, killed, proxy.reset,
        ]  # fmt: skip

        def shake() -> None:
            for fault in faults:
                before = len(topics.committed)
                wait_for(lambda before=before: len(topics.committed) > before + 2, what="commits")
                time.sleep(chance.random() * 0.1)
                fault()
            ended.set()

        with Tellers(database, 3, chance.randrange(1000)):
            shaking = threading.Thread(target=shake)
            shaking.start()
            while not ended.is_set():
                topics.run()
            shaking.join()
        while not topics.run():
            pass

        assert topics.failures
        assert replayed(enumerate(topics.committed)) == balances(database)
        topics.drop_slot()
        proxy.stop()


@pytest.mark.parametrize("synchronized", [True, False])
def test_reading_continues_on_a_promoted_standby_with_the_slot(synchronized: bool):
    with EmbeddedPostgres() as primary, Database(primary) as database:
        database.execute("create table t(id int primary key); insert into t values (1)")
        topics = Topics(database, slot_failover="true")
        topics.run()
        synchronizing = "on" if synchronized else "off"
        standby = EmbeddedPostgres(settings={"hot_standby_feedback": "on", "sync_replication_slots": synchronizing})
        try:
            database.execute("select pg_create_physical_replication_slot('standby', true)")
            standby.base_backup(primary, "--write-recovery-conf", "--slot", "standby", "--checkpoint", "fast")
            standby.start()
            database.execute("insert into t values (2)")
            topics.run()
            _wait_until_replayed(primary, standby)
            if synchronized:
                database.execute("create table noise(id serial primary key)")
                wait_for(lambda: _synchronized(standby, topics), what="the slot on the standby")
            database.execute("insert into t values (3)")
            _wait_until_replayed(primary, standby)
            primary.kill()
            _on(standby, "select pg_promote()")
            with psycopg.connect(standby.conninfo(database.name), autocommit=True) as connection:
                connection.execute("insert into t values (4)")
            topics.change(database_port=str(standby.port))
            if synchronized:
                assert topics.run()
                assert [key["id"] for key, _ in topics.events("public.t")] == [1, 2, 3, 4]
            else:
                with pytest.raises(PositionLostError, match="does not exist"):
                    topics.run()
        finally:
            standby.stop()
            primary.start()
            topics.drop_slot()


def test_a_server_that_was_set_back_on_its_timeline_is_refused(tmp_path: Path):
    with EmbeddedPostgres() as server, Database(server) as database:
        database.execute("create table t(id int primary key); insert into t values (1)")
        topics = Topics(database)
        topics.run()
        # A copy of the data folder, like a snapshot of its volume.
        server.kill()
        copy = tmp_path / "data"
        subprocess.run(["cp", "-a", str(server.data_folder), str(copy)], check=True)
        server.start()
        database.execute("insert into t select generate_series(2, 10000)")
        topics.run()
        server.kill()
        shutil.rmtree(server.data_folder)
        shutil.move(copy, server.data_folder)
        server.start()
        for _ in range(2):
            with pytest.raises(PositionLostError, match=r"log ends at .*, before the connector's offset .*To resync"):
                topics.run()
            # The copied server has another change at a log position before the offset.
            database.execute("insert into t values (-1) on conflict do nothing")

        topics.committed_offset = None
        topics.drop_slot()
        topics.committed.clear()
        topics.run()
        assert sorted(key["id"] for key, _ in topics.events("public.t")) == [-1, 1]
        topics.drop_slot()


def test_an_offset_of_a_timeline_that_the_server_never_had_is_refused(database: Database):
    database.execute("create table t(id int primary key)")
    topics = Topics(database)
    topics.run()
    assert topics.committed_offset is not None
    # An offset that names another timeline, like a restored backup from before the first failover.
    topics.committed_offset["timeline"] = 2

    with pytest.raises(PositionLostError, match="of timeline 2 is not part of the server's timeline 1"):
        topics.run()
    topics.drop_slot()


def _on(server: EmbeddedPostgres, statement: str) -> object:
    with psycopg.connect(server.conninfo(), autocommit=True) as connection:
        found = connection.execute(statement.encode()).fetchone()
    return found and found[0]


def _wait_until_replayed(primary: EmbeddedPostgres, standby: EmbeddedPostgres) -> None:
    end = _on(primary, "select pg_current_wal_flush_lsn()")
    wait_for(lambda: _on(standby, f"select pg_last_wal_replay_lsn() >= '{end}'"), what=f"the standby to replay {end}")


def _synchronized(standby: EmbeddedPostgres, topics: Topics) -> bool:
    # The slot has to advance until it needs no WAL older than the standby's when it first saw the slot.
    topics.database.execute("select pg_log_standby_snapshot(); insert into noise default values")
    topics.run()
    return bool(_on(standby, "select 1 from pg_replication_slots where synced and not temporary"))
