"""The replication slot of a PostgresSource task: lost, waited for, or in use by another client."""

from __future__ import annotations

import re
import threading

import pytest

from fencepost.api.errors import RetriableError
from fencepost.connectors.postgres.changes.connection import ConnectionSettings, PositionLostError
from fencepost.connectors.postgres.changes.position import Position
from fencepost.connectors.postgres.changes.slot import slot_wait
from fencepost.connectors.postgres.changes.slot.slot import Slot, check_slot
from fencepost.connectors.postgres.changes.stream.decoder import Decoder
from fencepost.connectors.postgres.changes.stream.stream import ReplicationStream
from fencepost.connectors.postgres.changes.task import PostgresSourceTask
from tests.support.fault_proxy import FaultProxy, Link
from tests.support.postgres import Database
from tests.support.postgres_task import Topics
from tests.support.processes import wait_for


def invalidate_slot(database: Database) -> None:
    """Make the server write so much WAL that it invalidates the slot."""
    database.execute("create table if not exists noise(id int)")
    with database.connect() as connection:
        connection.execute("alter system set max_slot_wal_keep_size = '1MB'")
        connection.execute("select pg_reload_conf()")
        lost = "select 1 from pg_replication_slots where wal_status = 'lost'"

        def is_lost() -> bool:
            for _ in range(3):
                connection.execute("insert into noise values (1)")
                connection.execute("select pg_switch_wal()")
            connection.execute("checkpoint")
            return connection.execute(lost).fetchone() is not None

        try:
            wait_for(is_lost, what="the slot is invalidated")
        finally:
            connection.execute("alter system reset max_slot_wal_keep_size")
            connection.execute("select pg_reload_conf()")


@pytest.mark.parametrize("running", [True, False])
def test_a_slot_that_was_dropped_is_refused(running: bool, topics: Topics, database: Database):
    database.execute("create table t(id int primary key); insert into t values (1)")
    # The first snapshot must be committed: a slot that is lost before that would just be created again.
    topics.run()
    if running:
        with topics.running():
            wait_for(topics.slot_in_use, what="the stream")
            topics.drop_slot()
            database.execute("insert into t values (2)")
            wait_for(lambda: topics.fatal, what="the task ends")
        assert isinstance(topics.fatal, PositionLostError)
        assert "does not exist" in str(topics.fatal)
    else:
        topics.drop_slot()
        database.execute("insert into t values (2)")

    with pytest.raises(PositionLostError, match=r"does not exist.*it takes a new snapshot"):
        topics.run()
    # A slot that is created again does not have the changes made meanwhile.
    database.execute("select pg_create_logical_replication_slot(%s, 'pgoutput')", [topics.slot])
    with pytest.raises(PositionLostError, match="past the connector's offset"):
        topics.run()

    assert topics.ids("public.t") == [1]


@pytest.mark.parametrize("running", [True, False])
def test_a_slot_that_was_invalidated_is_refused(running: bool, topics: Topics, database: Database, proxy: FaultProxy):
    topics.change(database_port=str(proxy.port))
    database.execute("create table t(id int primary key); insert into t values (1)")
    topics.run()
    if running:
        with topics.running():
            wait_for(topics.slot_in_use, what="the stream")
            # Without the client's replies, the slot does not advance.
            proxy.to_broker = Link.HOLD
            invalidate_slot(database)
            proxy.to_broker = Link.PASS
            wait_for(lambda: topics.fatal, what="the task ends")
        assert "was invalidated" in str(topics.fatal)
    else:
        invalidate_slot(database)

    with pytest.raises(PositionLostError, match=r"was invalidated.*Raise max_slot_wal_keep_size"):
        topics.run()


def test_a_slot_that_is_invalidated_after_its_check_is_checked_again(topics: Topics, database: Database):
    database.execute("create table t(id int primary key)")
    topics.run()
    invalidate_slot(database)
    settings = ConnectionSettings("127.0.0.1", database.server.port, "postgres", database.name)
    with pytest.raises(RetriableError, match=f"did not start the replication.*{topics.slot}"):
        ReplicationStream(settings, topics.slot, "any", Decoder(Position(0)), Position(0))


def test_a_slot_that_was_idle_for_too_long_is_refused_with_that_reason(topics: Topics, database: Database):
    database.execute("create table t(id int primary key)")
    topics.run()
    with database.connect() as connection:
        connection.execute("alter system set idle_replication_slot_timeout = '1s'")
        connection.execute("select pg_reload_conf()")

        def is_lost() -> bool:
            connection.execute("select pg_switch_wal()")
            connection.execute("checkpoint")
            return bool(database.execute("select 1 from pg_replication_slots where invalidation_reason is not null"))

        try:
            wait_for(is_lost, what="the slot is invalidated")
        finally:
            connection.execute("alter system reset idle_replication_slot_timeout")
            connection.execute("select pg_reload_conf()")
    with pytest.raises(
        PositionLostError, match=r"invalidated: .*idle_replication_slot_timeout\. .*it takes a new"
    ) as lost:
        topics.run()
    assert "max_slot_wal_keep_size" not in str(lost.value)


@pytest.mark.parametrize(
    ("reason", "remedy"),
    [
        (None, "max_slot_wal_keep_size"),
        ("wal_removed", "max_slot_wal_keep_size"),
        ("rows_removed", "hot_standby_feedback=on"),
        ("wal_level_insufficient", "wal_level=logical"),
        ("a new one", "has a new one as the reason"),
    ],
)
def test_each_reason_why_a_slot_was_invalidated_has_its_remedy(reason: str | None, remedy: str):
    slot = Slot("s", "pgoutput", "d", None, 1, "lost", None, reason)
    with pytest.raises(PositionLostError, match=f"The replication slot s was invalidated: .*{remedy}.*To resync"):
        check_slot(slot, "s", "d")


def test_a_new_slot_logs_the_transactions_that_it_waits_for(
    topics: Topics, database: Database, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(slot_wait, "_FIRST_S", 1.0)
    monkeypatch.setattr(slot_wait, "_EVERY_S", 2.0)
    database.execute("create table t(id int primary key)")

    def notices() -> list[str]:
        messages = [record.getMessage() for record in list(caplog.records)]
        return [message for message in messages if f"creation of the replication slot {topics.slot} waits" in message]

    with database.connect(autocommit=False) as writer:
        # The insert comes before the slot's creation, which waits for all transactions that run at that time.
        writer.execute("insert into t values (1)")
        pid = writer.info.backend_pid
        with topics.running():
            wait_for(lambda: len(notices()) > 1, what="two notices")
            writer.commit()
            wait_for(lambda: topics.ids("public.t") == [1], what="the row")
    process = f"process {pid} \\(of postgres in {database.name}, open for \\d+ s\\)"
    assert all(re.search(rf", for \d+ s now, .*: {process}\. pg_terminate", notice) for notice in notices())


def test_a_task_that_is_stopped_while_its_slot_waits_leaves_no_slot(topics: Topics, database: Database):
    database.execute("create table t(id int primary key)")
    slots = "select 1 from pg_replication_slots where slot_name = %s"
    failures = []
    task = PostgresSourceTask()
    task.context = topics  # type: ignore[assignment]
    task.start(topics.configs())

    def poll() -> None:
        try:
            while True:
                task.poll()
        except RetriableError as error:
            failures.append(error)

    with database.connect(autocommit=False) as writer:
        writer.execute("insert into t values (1)")
        polling = threading.Thread(target=poll)
        polling.start()
        wait_for(lambda: database.execute(slots, [topics.slot]), what="the slot begins to be created")
        task.stop()
        polling.join()
        wait_for(lambda: not database.execute(slots, [topics.slot]), what="the slot is gone")
    assert "was not created: the task is to stop" in str(failures)


def test_a_second_task_waits_until_the_slot_is_free(topics: Topics, database: Database):
    database.execute("create table t(id int primary key)")
    topics.run()
    second = Topics(database)
    second.prefix, second.slot = topics.prefix, topics.slot
    second.change(topic_prefix=topics.prefix, slot_name=topics.slot)
    second.committed_offset = topics.committed_offset
    with second.running():
        with topics.running():
            wait_for(topics.slot_in_use, what="a stream")
            waiting = f'replication slot "{topics.slot}" is active for PID'
            wait_for(lambda: topics.failed(waiting) or second.failed(waiting), what="the refusal of the other")
        database.execute("insert into t values (1)")
        wait_for(lambda: second.ids("public.t"), what="the change")

    assert second.fatal is None
    assert second.ids("public.t") == [1]
