"""A PostgresSource task leaves other instances' replication slots alone, and keeps the WAL of uncommitted changes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fencepost.api.errors import RetriableError
from fencepost.connectors.postgres.changes import commit_points
from fencepost.connectors.postgres.changes.stream import stream
from fencepost.connectors.postgres.changes.task import PostgresSourceTask
from fencepost.connectors.postgres.server.lsn import parse_lsn
from tests.support.postgres import Database
from tests.support.postgres_task import Topics
from tests.support.processes import wait_for


@pytest.fixture
def topics(database: Database) -> Iterator[Topics]:
    database.execute("create table t(id int primary key)")
    database.execute("insert into t values (1)")
    topics = Topics(database)
    yield topics
    topics.drop_slot()


def started(topics: Topics) -> PostgresSourceTask:
    task = PostgresSourceTask()
    task.context = topics  # type: ignore[assignment]
    task.start(dict(topics.configs()))
    return task


def committed_poll(topics: Topics, task: PostgresSourceTask) -> None:
    """Let a task return an offset without rows, and commit it."""
    batch = task.poll()
    assert batch is not None
    assert batch.offsets, "rows"
    ((_, offset),) = batch.offsets
    topics.committed_offset = dict(offset or {})
    task.commit()


def goes_on_without(topics: Topics, former: PostgresSourceTask) -> None:
    """Run another instance, then the former one without a commit, and then the other one again."""
    topics.run()
    committed = topics.committed_offset
    try:
        former.poll()
    except RetriableError:
        former.poll()
    former.stop()
    topics.committed_offset = committed
    topics.database.execute("insert into t values (2)")
    topics.run()

    assert [row["id"] for row, _ in topics.events("public.t")] == [1, 2]


def test_an_instance_that_was_overtaken_leaves_the_slot_of_the_newer_one(topics: Topics) -> None:
    former = started(topics)
    committed_poll(topics, former)

    goes_on_without(topics, former)


def test_an_instance_that_was_overtaken_by_a_third_leaves_its_slot(topics: Topics) -> None:
    interrupted = started(topics)
    committed_poll(topics, interrupted)
    interrupted.poll()
    interrupted.stop()
    former = started(topics)
    # The second task finds the first task's slot, and commits an offset which says that it will replace that slot.
    committed_poll(topics, former)

    goes_on_without(topics, former)


def test_a_broken_connection_advances_the_slot_only_to_committed_changes(
    topics: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commit_points, "_ADVANCE_S", 3600.0)
    monkeypatch.setattr(stream, "_REPLY_S", 0.05)
    database = topics.database
    reader = "select active_pid from pg_replication_slots where slot_name = %s and active"
    received = "select 1 from pg_stat_replication where pid = %s and write_lsn >= %s::pg_lsn"
    replied = (
        "select pid from pg_stat_replication join pg_replication_slots on active_pid = pid "
        "where slot_name = %s and write_lsn >= %s::pg_lsn"
    )
    topics.run()
    with topics.running():
        wait_for(topics.slot_in_use, what="the stream")
        database.execute("select pg_switch_wal()")
        ((end,),) = database.execute("select pg_current_wal_flush_lsn()::text")
        # The server may still show the previous run's stream as the slot's.
        ((first,),) = wait_for(
            lambda: database.execute(replied, [topics.slot, end]), what="the position of a quiet log"
        )
        database.execute("select pg_terminate_backend(%s)", [first])
        second = wait_for(
            lambda: [pid for (pid,) in database.execute(reader, [topics.slot]) if pid != first], what="the next stream"
        )
        wait_for(lambda: database.execute(received, [*second, end]), what="a reply to it")
    assert topics.committed_offset is not None
    committed = parse_lsn(topics.committed_offset["lsn"])
    ((slot,),) = database.execute(
        "select confirmed_flush_lsn::text from pg_replication_slots where slot_name = %s", [topics.slot]
    )

    assert parse_lsn(slot) <= committed < parse_lsn(end)
    topics.run()
