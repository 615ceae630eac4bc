"""Tables that are rewritten while the first snapshot of PostgresSource reads them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

import psycopg
import pytest

from fencepost.connectors.postgres.changes.database import SlotSnapshot
from fencepost.connectors.postgres.changes.slot.slot import PublishedTable
from fencepost.connectors.postgres.changes.task import Phase, PostgresSourceTask
from tests.support.postgres import Database
from tests.support.postgres_task import Topics
from tests.support.processes import wait_for


def rows(topics: Topics, table: str) -> set[int]:
    """The ids of the table's rows after a replay of the topic."""
    found: set[int] = set()
    for key, value in topics.events(table):
        if value is None:
            continue
        if value["op"] == "t":
            found.clear()
        elif value["op"] == "d":
            found.discard(key["id"])
        else:
            found.add(key["id"])
    return found


def with_rows(database: Database) -> None:
    database.execute("create table first(id int primary key); insert into first values (1)")
    database.execute("create table later(id int primary key, n text); insert into later values (1, '10'), (2, '20')")


REWRITE = "alter table later alter n type int using n::int"


def before_the_tables_are_held(monkeypatch: pytest.MonkeyPatch, action: Callable[[], object]) -> None:
    """Call `action` once, between the creation of the slot and the connection that locks the tables."""
    create = SlotSnapshot.__init__
    done: list[object] = []

    def created(self: SlotSnapshot, *arguments: object) -> None:
        create(self, *arguments)  # type: ignore[arg-type]
        if not done:
            done.append(action())

    monkeypatch.setattr(SlotSnapshot, "__init__", created)


def test_a_table_rewritten_as_the_snapshot_begins_keeps_its_rows(
    topics: Topics, database: Database, monkeypatch: pytest.MonkeyPatch
):
    with_rows(database)
    before_the_tables_are_held(monkeypatch, lambda: database.execute(REWRITE))

    topics.run()

    assert rows(topics, "public.later") == {1, 2}
    assert topics.failed("public.later was rewritten")


def test_a_table_is_not_rewritten_while_the_snapshot_reads(topics: Topics, database: Database):
    with_rows(database)
    refused: list[type[Exception]] = []

    def rewrite() -> None:
        if not refused:
            with pytest.raises(psycopg.errors.LockNotAvailable) as caught:
                database.execute(f"set lock_timeout = '100ms'; {REWRITE}")
            refused.append(caught.type)

    topics.after_split = rewrite
    topics.run()

    assert refused
    assert rows(topics, "public.later") == {1, 2}
    # Once the snapshot's rows are committed, the tables are unlocked.
    database.execute(REWRITE)
    database.execute("insert into later values (3, 30)")
    topics.run()
    assert rows(topics, "public.later") == {1, 2, 3}


@pytest.mark.parametrize("on_executors", [True, False])
def test_ddl_that_waits_for_the_snapshot_does_not_block_it(
    topics: Topics, database: Database, monkeypatch: pytest.MonkeyPatch, *, on_executors: bool
):
    monkeypatch.setattr("fencepost.connectors.postgres.changes.held_tables._LOCK_TIMEOUT", "200ms")
    with_rows(database)
    waiting: list[psycopg.Connection[tuple[object, ...]]] = []

    def alter() -> None:
        if not waiting:
            connection = database.connect()
            connection.pgconn.send_query(REWRITE.encode())
            waiting.append(connection)
            pid = connection.info.backend_pid
            waits = "select pid from pg_stat_activity where pid = %s and wait_event_type = 'Lock'"
            wait_for(lambda: database.execute(waits, [pid]), what="the command waits for a lock")

    topics.after_split = alter
    topics.on_executors = on_executors
    while not topics.run():
        pass

    # The task's own connection holds the table locks. Only executors' connections wait for them, until a lock timeout.
    assert topics.failed("lock timeout") == on_executors
    assert rows(topics, "public.later") == {1, 2}
    waiting[0].close()


def snapshot_begun(topics: Topics) -> PostgresSourceTask:
    """Start a task, and poll until it has returned all batches of its first snapshot."""
    task = PostgresSourceTask()
    task.context = topics  # type: ignore[assignment]
    task.start(topics.configs())
    wait_for(lambda: (task.poll(), task._phase is Phase.SNAPSHOT and not task._queue)[1], what="the snapshot")
    return task


def altered(database: Database) -> bool:
    try:
        database.execute(f"set lock_timeout = '100ms'; {REWRITE}")
    except psycopg.errors.LockNotAvailable:
        return False
    return True


def test_a_task_that_failed_in_its_snapshot_frees_the_tables(topics: Topics, database: Database):
    with_rows(database)
    # The locks must not depend on the task object, which a traceback of its failure may keep alive.
    task = snapshot_begun(topics)
    assert not altered(database)
    task.stop()
    assert altered(database)


def test_a_stop_while_the_snapshot_is_written_frees_the_tables_after_its_commit(topics: Topics, database: Database):
    with_rows(database)
    task = snapshot_begun(topics)
    stopping = threading.Thread(target=task.stop)
    stopping.start()
    stopping.join()
    assert not altered(database)
    task.commit()
    assert altered(database)


def test_ddl_that_waits_as_the_snapshot_begins_does_not_block_it(
    topics: Topics, database: Database, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("fencepost.connectors.postgres.changes.held_tables._LOCK_TIMEOUT", "200ms")
    with_rows(database)
    hold = SlotSnapshot.hold
    waiting: list[psycopg.Connection[tuple[object, ...]]] = []

    def held(self: SlotSnapshot, tables: Sequence[PublishedTable]) -> Sequence[PublishedTable]:
        found = hold(self, tables)
        if not waiting:
            waiting.append(database.connect())
            waiting[0].pgconn.send_query(REWRITE.encode())
            waits = "select pid from pg_stat_activity where pid = %s and wait_event_type = 'Lock'"
            wait_for(lambda: database.execute(waits, [waiting[0].info.backend_pid]), what="the command waits")
        return found

    monkeypatch.setattr(SlotSnapshot, "hold", held)
    topics.run()

    assert topics.failed("lock timeout")
    assert rows(topics, "public.later") == {1, 2}
    waiting[0].close()


def test_a_table_added_to_the_publication_as_the_snapshot_begins_is_whole(
    topics: Topics, database: Database, monkeypatch: pytest.MonkeyPatch
):
    with_rows(database)
    database.execute(f"create publication {topics.slot} for table first")
    topics.change(publication_name=topics.slot, publication_autocreate_mode="disabled")

    def add() -> None:
        database.execute("insert into later values (3, '30')")
        database.execute(f"alter publication {topics.slot} add table later")

    before_the_tables_are_held(monkeypatch, add)

    topics.run()

    assert rows(topics, "public.later") == {1, 2, 3}
    assert topics.failed("was altered")
