"""PostgresSource and changes or rows that the server would leave out silently."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import psycopg
import pytest

from fencepost.connectors.postgres.changes.connection import PositionLostError, PostgresError
from tests.support.postgres import Database
from tests.support.postgres_task import Topics
from tests.support.processes import wait_for


@pytest.fixture
def topics(database: Database) -> Iterator[Topics]:
    topics = Topics(database, publication_name="mine", publication_autocreate_mode="disabled")
    yield topics
    topics.drop_slot()


@pytest.fixture
def reader(database: Database) -> Iterator[str]:
    """A role with the REPLICATION attribute."""
    name = f"reader_{database.name}"
    database.execute(f"create role {name} login replication password 'p'")
    yield name
    with psycopg.connect(database.conninfo, autocommit=True) as connection:
        connection.execute(f"drop owned by {name}".encode())
        connection.execute(f"drop role {name}".encode())


def test_a_publication_that_left_changes_out_for_a_while_is_refused(topics: Topics, database: Database):
    database.execute("create table t(id int primary key); create publication mine for table t")
    topics.run()
    database.execute("alter publication mine set (publish = 'update')")
    database.execute("insert into t values (1)")
    database.execute("alter publication mine set (publish = 'insert, update, delete, truncate')")
    database.execute("insert into t values (2)")

    with pytest.raises(PositionLostError, match=r"The publication mine was changed \(its settings\)"):
        topics.run()


def test_another_owner_and_a_vacuum_do_not_change_a_publication(topics: Topics, database: Database, reader: str):
    database.execute("create table t(id int primary key); create publication mine for table t")
    topics.run()
    database.execute(f"alter publication mine owner to {reader}")
    database.execute("insert into t values (1)")
    topics.run()
    database.execute("alter publication mine owner to postgres")
    database.execute("vacuum full freeze pg_publication")
    database.execute("insert into t values (2)")
    topics.run()

    assert topics.ids("public.t") == [1, 2]


@pytest.mark.parametrize("running", [True, False])
def test_published_schemas_that_are_dropped_or_renamed_do_not_end_the_stream(
    topics: Topics, database: Database, *, running: bool
):
    for schema in ("gone", "former", "kept"):
        database.execute(f"create schema {schema}; create table {schema}.t(id int primary key)")
    database.execute("create publication mine for tables in schema gone, former, kept")
    topics.run()

    def tamper() -> None:
        database.execute("insert into gone.t values (1)")
        database.execute("drop schema gone cascade")
        database.execute("alter schema former rename to latter")
        database.execute("insert into latter.t values (1)")

    if running:
        with topics.running():
            wait_for(topics.slot_in_use, what="the stream")
            tamper()
            wait_for(lambda: topics.ids("latter.t"), what="the change")
    else:
        tamper()
    assert topics.run()

    assert topics.ids("gone.t") == topics.ids("latter.t") == [1]
    # The table still exists under another schema name, but its changes are not published.
    database.execute("alter publication mine drop tables in schema kept; alter schema kept rename to elsewhere")
    with pytest.raises(PositionLostError, match=r"kept\.\*"):
        topics.run()


def test_a_snapshot_that_policies_would_leave_rows_out_of_is_refused(topics: Topics, database: Database, reader: str):
    database.execute("create table t(id int primary key); insert into t values (1), (9)")
    database.execute("alter table t enable row level security; create policy large on t using (id > 5)")
    database.execute(f"create publication mine for table t; grant select on t to {reader}")
    topics.change(database_user=reader, database_password="p")

    with pytest.raises(PostgresError, match=r"row-level security.*BYPASSRLS"):
        topics.run()
    database.execute(f"alter role {reader} bypassrls")
    topics.run()
    assert topics.ids("public.t") == [1, 9]


@pytest.mark.parametrize("mode", ["disabled", "filtered"])
def test_captured_tables_that_are_not_published_are_warned_about(
    topics: Topics, database: Database, mode: str, caplog: pytest.LogCaptureFixture
):
    database.execute("create table t(id int primary key); create publication mine for table t")
    topics.change(publication_autocreate_mode=mode, table_include_list=r"public\..*")
    topics.run()
    active = "select 1 from pg_replication_slots where slot_name = %s and active"
    with caplog.at_level(logging.WARNING), topics.running():
        wait_for(lambda: database.execute(active, [topics.slot]), what="the stream")
        database.execute("create table later(id int primary key); insert into later values (1)")
        wait_for(lambda: "The publication mine lacks public.later" in caplog.text, what="a warning")
    caplog.clear()
    if mode == "filtered":
        topics.run()
        assert "Rows that public.later had before" in caplog.text
        database.execute("insert into later values (2)")
        caplog.clear()
    topics.run()
    assert ("lacks public.later" in caplog.text) is (mode == "disabled")
    assert topics.ids("public.later") == ([2] if mode == "filtered" else [])
