"""Incremental snapshots of PostgresSource, on a real server, under writers and crashes."""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Iterable, Iterator
from functools import partial
from operator import itemgetter
from typing import Any

import psycopg
import pytest

from fencepost.connectors.postgres.changes.database import SourceDatabase
from fencepost.connectors.postgres.changes.slot.slot import PublishedTable
from fencepost.connectors.postgres.changes.snapshot import incremental_snapshots
from tests.support.bank import TABLES, Tellers, balances, open_bank, replayed
from tests.support.incremental import Writers, after_chunk, after_row, left, read_rows, send, signalled_topics
from tests.support.postgres import Database
from tests.support.postgres_task import Topics
from tests.support.processes import wait_for


@pytest.fixture
def topics(database: Database) -> Iterator[Topics]:
    with signalled_topics(database) as topics:
        yield topics


def test_rows_are_read_exactly_as_they_are_at_their_place(topics: Topics, database: Database, chance: random.Random):
    open_bank(database)
    # The first snapshot ends before any signal: it ignores signals, and each crash in it would start it again.
    topics.run()
    crashes = signals = 0
    with Tellers(database, 3, chance.randrange(1000)) as tellers:
        while tellers.transfers < 100 or crashes < 4:
            send(database, f"s-{signals}", data_collections=[r"public\.(savings|checking)"])
            signals += 1
            crashes += not topics.run(chance, crash=0.15)
    topics.run()
    send(database, "last", data_collections=["public.savings"])
    before = len(read_rows(topics, "public.savings"))
    topics.run()

    assert before >= 30
    assert len(read_rows(topics, "public.checking")) >= 30
    assert replayed(enumerate(topics.committed)) == balances(database)
    rows = {json.dumps({"id": row["id"]}): row for row in read_rows(topics, "public.savings")[before:]}
    assert rows == balances(database)[TABLES[0]]
    assert "incremental_snapshot" not in (topics.committed_offset or {})


def test_a_table_that_was_not_read_before_is_whole_afterwards(
    topics: Topics, database: Database, chance: random.Random
):
    database.execute("create table large(id int primary key, n int not null, note text)")
    database.execute("alter table large alter note set storage external")
    database.execute("insert into large select i, 0, repeat(i::text, 3000) from generate_series(1, 100) i")
    topics.change(snapshot_mode="no_data")
    topics.run()
    crashes = 0
    with Writers(database, 3, chance.randrange(1000)) as writers:
        send(database, "s-1", data_collections=["public.large"])
        while writers.statements < 300 or crashes < 5:
            crashes += not topics.run(chance, crash=0.1)
    topics.run()

    assert left(topics, "public.large") == {
        row["id"]: row for (row,) in database.execute("select row_to_json(t) from large t")
    }


def test_a_kept_connection_reads_all_while_the_stream_continues(topics: Topics, database: Database):
    database.execute("create table large(id int primary key, n int not null, note text)")
    database.execute("insert into large select i, 0, 'old' from generate_series(1, 5000) i")
    topics.change(snapshot_mode="no_data", incremental_snapshot_chunk_size="100")
    with topics.running(), Writers(database, 2, 1):
        wait_for(lambda: topics.committed_offset, what="the stream")
        send(database, "s-1", data_collections=["public.large"])
        wait_for(lambda: {4000, 5000} <= {key["id"] for key, _ in topics.events("public.large")}, what="the rows")
    topics.run()

    assert topics.events("message") == []
    assert left(topics, "public.large") == {
        row["id"]: row for (row,) in database.execute("select row_to_json(t) from large t")
    }


def test_chunks_wait_for_writes_before_a_table_was_published(
    topics: Topics, database: Database, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    monkeypatch.setattr(incremental_snapshots, "_LONG_S", 0.0)
    database.execute("create table other(id int primary key, note text)")
    database.execute("create publication p for table signals, other; create table late(id int primary key, note text)")
    database.execute("insert into late values (1, 'old'), (2, 'old')")
    topics.change(publication_name="p", snapshot_mode="no_data")
    with topics.running(), database.connect(autocommit=False) as writer:
        wait_for(lambda: topics.committed_offset, what="the stream")
        # The stream does not have this change, as the table is not published yet.
        writer.execute("update late set note = 'new' where id = 1")
        database.execute("alter publication p add table late")
        send(database, "s-1", data_collections=["public.late"])
        wait_for(lambda: "have not ended" in caplog.text or read_rows(topics, "public.late"), what="the wait")
        writer.commit()
        wait_for(lambda: len(read_rows(topics, "public.late")) == 2, what="the rows")

    assert [row["note"] for row in read_rows(topics, "public.late")] == ["new", "old"]


def test_a_row_of_a_commit_that_is_not_visible_yet_is_left_out(
    topics: Topics, database: Database, monkeypatch: pytest.MonkeyPatch
):
    database.execute("create table t(id int primary key, note text)")
    database.execute("insert into t select i, 'old' from generate_series(1, 20) i")
    waits = "select 1 from pg_stat_activity where datname = current_database() and wait_event = 'SyncRep'"
    writer = threading.Thread(target=lambda: database.execute("update t set note = 'new' where id = 9"))

    def standby(name: str) -> None:
        with database.connect() as connection:
            connection.execute("set synchronous_commit = local")
            connection.execute(f"alter system set synchronous_standby_names = '{name}'".encode())
            connection.execute("select pg_reload_conf()")

    def commit_without_standby() -> None:
        # The commit is in the WAL. Other sessions see it only once a standby confirms it, and this server has no standby.
        standby("nobody")
        writer.start()
        wait_for(lambda: database.execute(waits), what="the commit")

    after_chunk(monkeypatch, {("public.t", 1): commit_without_standby, ("public.t", 2): lambda: standby("")})
    topics.change(snapshot_mode="no_data")
    topics.run()
    send(database, "s-1", data_collections=["public.t"])
    try:
        topics.run()
    finally:
        standby("")
        writer.join()

    events = [(key["id"], value["op"]) for key, value in topics.events("public.t")]
    assert events == [(9, "u"), *((n, "r") for n in range(1, 21) if n != 9)]


def test_a_table_that_is_locked_delays_its_reading_and_not_the_stream(
    topics: Topics, database: Database, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    monkeypatch.setattr(incremental_snapshots, "_LONG_S", 0.0)
    database.execute("create table t(id int primary key); insert into t values (1); create table u(id int primary key)")
    topics.change(snapshot_mode="no_data")
    topics.run()
    with database.connect(autocommit=False) as locking:
        locking.execute("lock table t")
        with topics.running():
            send(database, "s-1", data_collections=["public.t"])
            database.execute("insert into u values (1)")
            wait_for(lambda: topics.events("public.u") and "lock timeout" in caplog.text, what="a change and the wait")
            locking.rollback()
            wait_for(lambda: read_rows(topics, "public.t"), what="the row")
    assert topics.fatal is None


def test_a_table_emptied_or_altered_during_its_snapshot_is_read_in_its_new_state(
    topics: Topics, database: Database, monkeypatch: pytest.MonkeyPatch
):
    for name in ("emptied", "altered"):
        database.execute(f"create table {name}(id int primary key, note text)")
        database.execute(f"insert into {name} select i, 'old' from generate_series(1, 30) i")  # noqa: S608
    statements = {
        (
            "public.altered",
            7,
        ): "alter table altered add column more int default 5; alter table altered alter id type bigint",
        ("public.altered", 14): "update altered set note = 'new' where id = 14",
        ("public.emptied", 5): "truncate emptied; insert into emptied values (5, 'new')",
    }
    after_row(monkeypatch, {at: partial(database.execute, statement) for at, statement in statements.items()})
    topics.change(snapshot_mode="no_data", incremental_snapshot_chunk_size="3")
    topics.run()
    send(database, "s-1", data_collections=[r"public\.(emptied|altered)"])
    topics.run()

    rows = {row["id"]: row for row in read_rows(topics, "public.altered")}
    assert rows.keys() | {14} == set(range(1, 31))
    assert rows[30] == {"id": 30, "note": "old", "more": 5}
    # A chunk is written at the end of the stream: before the change made meanwhile, or after it and without that row.
    changed = [
        (value["op"], value["after"]["note"]) for key, value in topics.events("public.altered") if key["id"] == 14
    ]
    assert changed in ([("u", "new")], [("r", "old"), ("u", "new")])
    events = [(key["id"] if key else None, value["op"]) for key, value in topics.events("public.emptied") if value]
    first, second = [(n, "r") for n in range(1, 4)], [(n, "r") for n in range(4, 7)]
    assert events in (
        [*first, (None, "t"), (5, "c"), (5, "r")],
        [*first, *second, (None, "t"), (5, "c")],
    )


@pytest.mark.parametrize("altered", ["text", 'text collate "POSIX"'])
def test_a_table_whose_key_is_sorted_in_another_way_is_read_anew(
    topics: Topics, database: Database, monkeypatch: pytest.MonkeyPatch, altered: str
):
    before = "int" if altered == "text" else 'text collate "C"'
    database.execute(f"create table t(id {before} primary key)")
    database.execute(f"insert into t select i::text::{before} from generate_series(1, 30) i")  # noqa: S608
    topics.change(snapshot_mode="no_data")
    topics.run()
    after_chunk(monkeypatch, {("public.t", 2): lambda: database.execute(f"alter table t alter id type {altered}")})
    send(database, "s-1", data_collections=["public.t"])
    topics.run()

    ids = [str(row["id"]) for row in read_rows(topics, "public.t")]
    assert sorted(ids[-30:]) == sorted(map(str, range(1, 31)))


def test_a_column_that_is_added_as_a_reading_begins_is_read(
    topics: Topics, database: Database, monkeypatch: pytest.MonkeyPatch
):
    def published(self: SourceDatabase) -> list[PublishedTable]:
        found = shown(self)
        database.execute("alter table t add column if not exists more int default 5")
        return found

    database.execute("create table t(id int primary key); insert into t values (1)")
    topics.change(snapshot_mode="no_data")
    topics.run()
    shown = SourceDatabase.published
    monkeypatch.setattr(SourceDatabase, "published", published)
    send(database, "s-1", data_collections=["public.t"])
    topics.run()

    assert read_rows(topics, "public.t") == [{"id": 1, "more": 5}]


def test_the_columns_of_a_key_may_be_of_any_type_and_order(topics: Topics, database: Database):
    database.execute(
        r"""
        create type mood as enum ('sad', 'glad');
        create table keys(b text, x mood, a timestamptz, note text, f float8, primary key (f, a, b, x) include (note));
        insert into keys select 'it''s \ ' || i, case when i % 2 = 0 then 'sad' else 'glad' end::mood,
          '2024-01-01'::timestamptz + i * interval '1 microsecond', 'n', (i / 5) / 3.0::float8 from generate_series(1, 30) i;
        create table chosen(id int primary key, u int not null unique, note text);
        alter table chosen replica identity using index chosen_u_key;
        insert into chosen select i, -i, 'n' from generate_series(1, 20) i;
        create table whole(id int primary key, note text);
        alter table whole replica identity full;
        insert into whole select i, 'n' from generate_series(1, 20) i;
        """
    )
    topics.change(snapshot_mode="no_data")
    topics.run()
    send(database, "s-1", data_collections=["public.(keys|chosen|whole)"])
    topics.run()

    for table, count in (("keys", 30), ("chosen", 20), ("whole", 20)):
        rows = [tuple(row.items()) for row in read_rows(topics, f"public.{table}")]
        assert len(rows) == len(set(rows)) == count, table
    ((key, _), *_) = topics.events("public.keys")
    assert key.keys() == {"b", "x", "a", "f"}


def test_keys_of_types_that_extensions_or_users_made_are_read_in_their_own_order(topics: Topics, database: Database):
    # In text order, B comes before a.
    database.execute(
        """
        create schema "Own"; create extension citext schema "Own"; create extension hstore schema "Own";
        create domain "Own".name as "Own".citext; create type pair as (x int, y text);
        create table one(k "Own".citext primary key); insert into one values ('a'), ('B'), ('c'), ('D'), ('e');
        create table two(n int, k "Own".name, m int, primary key (n, k, m));
        insert into two select n, k, m from generate_series(1, 3) n, one, generate_series(1, 3) m;
        create table made(k pair primary key); insert into made values ((1, 'a')), ((1, 'b,"')), ((2, null));
        create table class(k regclass primary key); insert into class values ('one'), ('two'), ('pg_class');
        create table stored(k "Own".hstore primary key); insert into stored values ('a=>1'), ('b=>2'), ('a=>3');
        """
    )
    topics.change(snapshot_mode="no_data", incremental_snapshot_chunk_size="1")
    topics.run()
    send(database, "s-1", data_collections=["public.(one|two|made|class|stored)"])
    topics.run()

    for table, count in (("one", 5), ("two", 45), ("made", 3), ("class", 3), ("stored", 3)):
        rows = [tuple(row.items()) for row in read_rows(topics, f"public.{table}")]
        assert len(rows) == len(set(rows)) == count, table


@pytest.mark.parametrize("published", ["root", "leaves"])
@pytest.mark.parametrize("generated", ["none", "stored"])
def test_snapshots_and_stream_agree_on_partitions_generated_and_left_out_columns(
    topics: Topics, database: Database, published: str, generated: str
):
    # The attached partition has its columns in another order, with a dropped column among them.
    database.execute(
        """
        create table parts(id int, region int, n int, double int generated always as (n * 2) stored, secret text, note text,
                           primary key (region, id)) partition by list (region);
        create table parts_1 partition of parts for values in (1);
        create table parts_2(gone int, note text, secret text, id int not null, n int, region int not null,
                             double int generated always as (n * 2) stored);
        alter table parts_2 drop column gone;
        alter table parts attach partition parts_2 for values in (2);
        insert into parts(id, region, n, secret, note) select i, 1 + i % 2, i, 'hidden', 'old' from generate_series(1, 30) i;
        """
    )
    options = f"publish_via_partition_root = {published == 'root'}, publish_generated_columns = {generated}"
    database.execute(f"create publication parts for table parts, signals with ({options})")
    topics.change(publication_name="parts", column_exclude_list=r"public\.parts.*\.secret")
    topics.run()
    database.execute("update parts set note = 'new', n = n + 100 where id % 3 = 0")
    database.execute("update parts set region = 3 - region where id % 7 = 0")
    topics.run()
    send(database, "s-1", data_collections=["public.parts.*"])
    topics.run()

    names = ["id", "region", "n", "note", *(["double"] if generated == "stored" else [])]
    rows = [dict(zip(names, row, strict=True)) for row in database.execute(f"select {', '.join(names)} from parts")]  # noqa: S608 - of this test
    tables = ["public.parts"] if published == "root" else ["public.parts_1", "public.parts_2"]
    again, streamed = [], {}
    for table in tables:
        again += read_rows(topics, table)
        for key, value in topics.events(table):
            assert key.keys() == {"id", "region"}
            if value is None or value["op"] == "d":
                streamed.pop(json.dumps(key), None)
            elif value["source"]["snapshot"] != "incremental":
                streamed[json.dumps(key)] = value["after"]

    def in_order(found: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
        return sorted(found, key=itemgetter("id"))

    assert in_order(again) == in_order(streamed.values()) == in_order(rows)


def test_only_the_rows_that_a_condition_names_are_read(topics: Topics, database: Database):
    database.execute("create table orders(id int primary key, color text)")
    database.execute("insert into orders select i, case when i % 50 = 0 then 'blue' end from generate_series(1, 100) i")
    topics.change(snapshot_mode="no_data")
    topics.run()
    condition = {"data-collection": "public.orders", "filter": "orders.color = 'blue' -- 50%"}
    send(database, "s-1", data_collections=["public.orders"], additional_conditions=[condition])
    topics.run()

    assert [row["id"] for row in read_rows(topics, "public.orders")] == [50, 100]


@pytest.mark.parametrize(
    ("condition", "said"),
    [
        ("pg_terminate_backend(pg_backend_pid())", "terminating connection"),
        ("pg_sleep(1) is not null", "statement timeout"),
    ],
)
def test_a_chunk_that_breaks_its_connection_each_time_is_given_up(
    condition: str, said: str, topics: Topics, database: Database, caplog: pytest.LogCaptureFixture
):
    database.execute(f"alter database {database.name} set wal_sender_timeout = '600ms'")
    database.execute("create table t(id int primary key); insert into t values (1)")
    topics.change(snapshot_mode="no_data")
    topics.run()
    send(
        database, "s-1", data_collections=["public.t"],
        additional_conditions=[{"data-collection": "public.t", "filter": condition}],
    )  # fmt: skip
    database.execute("insert into t values (2)")
    send(database, "s-2", data_collections=["public.t"])
    topics.run()

    assert [row["id"] for row in read_rows(topics, "public.t")] == [1, 2]
    assert any("not read any further for the signal 's-1'" in text and said in text for text in caplog.messages)
    assert [key["id"] for key, value in topics.events("public.t") if value["op"] == "c"] == [2]


def test_a_user_with_read_rights_is_enough_for_chunks(topics: Topics, database: Database):
    name = f"reader_{database.name}"
    database.execute("create table t(id int primary key, note text, secret text); insert into t values (1, 'n', 's')")
    database.execute(f"create role {name} login replication password 'p'")
    try:
        database.execute(
            f"create publication p for table signals, t (id, note); grant select (id, note) on t to {name}"
        )
        topics.change(
            database_user=name, database_password="p", publication_name="p", snapshot_mode="no_data",
            publication_autocreate_mode="disabled",
        )  # fmt: skip
        topics.run()
        send(database, "s-1", data_collections=["public.t"])
        topics.run()
        assert read_rows(topics, "public.t") == [{"id": 1, "note": "n"}]
    finally:
        topics.drop_slot()
        with psycopg.connect(database.conninfo, autocommit=True) as connection:
            connection.execute(f"drop owned by {name}".encode())
            connection.execute(f"drop role {name}".encode())
