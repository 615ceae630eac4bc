"""PostgresSource on a real server and broker: a snapshot, then the changes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.postgres import Database
from tests.support.postgres_source import PostgresSource, replayed
from tests.support.processes import wait_for


@pytest.fixture
def source(tmp_path: Path, bootstrap_servers: str, database: Database) -> Iterator[PostgresSource]:
    source = PostgresSource(tmp_path, bootstrap_servers, database)
    yield source
    source.drop_slot()


def rows(database: Database, table: str) -> dict[str, Any]:
    """The rows of a table by their key `id`, in the form of an event's `after`."""
    found = database.execute(f"select row_to_json(t) from {table} t")  # noqa: S608 - a name of a test
    return {json.dumps({"id": row["id"]}): row for (row,) in found}


def test_the_topic_replays_to_the_table_over_a_snapshot_and_changes(source: PostgresSource, database: Database):
    database.execute("create table accounts(id int primary key, owner text, balance numeric(12,2))")
    database.execute("insert into accounts select i, 'owner ' || i, i from generate_series(1, 300) i")

    source.run_to_end()
    assert replayed(source.events("public.accounts")) == rows(database, "accounts")

    database.execute("update accounts set balance = balance + 1 where id % 3 = 0")
    database.execute("delete from accounts where id % 7 = 0")
    database.execute("insert into accounts select i, null, 0 from generate_series(1000, 1100) i")
    database.execute("update accounts set id = id + 10000 where id % 11 = 0")
    source.run_to_end()

    assert replayed(source.events("public.accounts")) == rows(database, "accounts")


VALUES = {
    "boolean": ("true", True),
    "smallint": ("-7", -7),
    "bigint": ("9007199254740993", 9007199254740993),
    "oid": ("4294967295", 4294967295),
    "real": ("0.1", 0.1),
    "double precision": ("'NaN'", "NaN"),
    "numeric(20,3)": ("12345678901234567.890", 12345678901234567.890),
    "numeric": ("-1.28", {"scale": 2, "value": "gA=="}),
    "date": ("'5874897-12-31'", "('5874897-12-31'::date - '1970-01-01'::date)::text"),
    "time": ("'24:00'", 86_400_000_000),
    "timestamp": (
        "'0044-03-15 12:00 BC'",
        "(extract(epoch from '0044-03-15 12:00 BC'::timestamp) * 1000000)::bigint::text",
    ),
    "timestamptz": ("'2024-05-01 14:30:00.25+02'", "2024-05-01T12:30:00.25Z"),
    "interval": ("'1 day 2 hours'", "P1DT2H"),
    "bytea": ("'\\x00ff'", "AP8="),
    "json": ("""'{"a": 1}'""", '{"a": 1}'),
    "uuid": ("'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"),
    "inet": ("'10.0.0.0/8'", "10.0.0.0/8"),
    "int4range": ("'[1,5)'", "[1,5)"),
    "int[]": ("'{1,null}'", [1, None]),
    "box[]": ("'{(1,1),(0,0);(2,2),(1,1)}'", "{(1,1),(0,0);(2,2),(1,1)}"),
    "int2vector": ("'1 2'", "1 2"),
    "text[]": ("""'{"a,b",null,"NULL"}'""", ["a,b", None, "NULL"]),
    "mood": ("'happy'", "happy"),
    "cents": ("5.5", 5.5),
    "place": ("row(1, 'x')", "(1,x)"),
    "char(3)": ("'a'", "a  "),
}


def test_a_value_of_each_type_is_the_same_from_the_snapshot_and_the_stream(source: PostgresSource, database: Database):
    database.execute("create type mood as enum ('happy')")
    database.execute("create domain cents as numeric(10,1)")
    database.execute("create type place as (x int, y text)")
    names = ", ".join(f'"{name}"' for name in VALUES)
    columns = ", ".join(f'"{name}" {name}' for name in VALUES)
    literals = ", ".join(f"{literal}::{name}" for name, (literal, _) in VALUES.items())
    nulls = ", ".join(["null"] * len(VALUES))
    database.execute(f"create table typed(id int primary key, {columns})")
    database.execute(f"insert into typed values (1, {literals}), (2, {nulls})")  # noqa: S608 - of this file
    source.run_to_end()
    database.execute(f"insert into typed select id + 10, {names} from typed")  # noqa: S608 - likewise
    source.run_to_end()

    found = {key["id"]: value["after"] for key, value in source.events("public.typed")}

    expected = {
        name: int(database.execute(f"select {value}")[0][0]) if name in ("date", "timestamp") else value
        for name, (_, value) in VALUES.items()
    }
    for row, wanted in ((1, expected), (11, expected), (2, dict.fromkeys(VALUES)), (12, dict.fromkeys(VALUES))):
        assert found[row] == {"id": row} | wanted


def test_tables_may_change_while_they_are_captured(source: PostgresSource, database: Database):
    database.execute("create table notes(id int primary key, body text, size int)")
    # Uncompressed, the value is stored outside of its row (TOAST), so updates of other columns do not send it.
    database.execute("alter table notes alter body set storage external")
    database.execute("insert into notes values (1, repeat('x', 100000), 5)")
    source.run_to_end()
    database.execute("update notes set size = 6")
    database.execute("alter table notes add column author text")
    database.execute("update notes set author = 'ann'")
    database.execute("alter table notes drop column size")
    database.execute("alter table notes replica identity full")
    database.execute("update notes set author = 'bob'")
    database.execute("truncate notes")
    database.execute("create table later(id int primary key); insert into later values (1)")
    source.run_to_end()

    placeholder = "__debezium_unavailable_value"
    after = [(value["op"], value["after"]) for _, value in source.events("public.notes") if value["op"] != "r"]
    # A truncate has no key, so its record may be in another partition.
    assert sorted(after, key=str) == sorted(
        [
            ("u", {"id": 1, "body": placeholder, "size": 6}),
            ("u", {"id": 1, "body": placeholder, "size": 6, "author": "ann"}),
            ("u", {"id": 1, "body": "x" * 100_000, "author": "bob"}),
            ("t", None),
        ],
        key=str,
    )
    assert [key for key, _ in source.events("public.later")] == [{"id": 1}]


def test_the_slot_of_quiet_tables_advances(source: PostgresSource, database: Database):
    database.execute("create table quiet(id int primary key); create table busy(id int)")
    source.change(table_include_list="public\\\\.quiet", publication_autocreate_mode="filtered")
    with source.start(once=False):
        for _ in range(2):
            wait_for(lambda: database.execute("select 1 from pg_stat_replication"), what="the stream")
            database.execute("insert into busy select generate_series(1, 1000)")
            ((now,),) = database.execute("select pg_current_wal_flush_lsn()")
            wait_for(lambda now=now: _advanced(database, source, now), what=f"the slot to pass {now}")


def test_the_slot_advances_if_a_transform_drops_every_event(source: PostgresSource, database: Database):
    database.execute("create table t(id int primary key)")
    source.change(transforms="drop", transforms_drop_type="Filter")
    with source.start(once=False):
        wait_for(lambda: database.execute("select 1 from pg_stat_replication"), what="the stream")
        database.execute("insert into t select generate_series(1, 1000)")
        ((now,),) = database.execute("select pg_current_wal_flush_lsn()")
        wait_for(lambda: _advanced(database, source, now), what=f"the slot to pass {now}")


def _advanced(database: Database, source: PostgresSource, position: str) -> bool:
    wanted = "select 1 from pg_replication_slots where slot_name = %s and confirmed_flush_lsn >= %s"
    return bool(database.execute(wanted, [source.slot, position]))


def test_a_start_that_would_miss_changes_is_refused(source: PostgresSource, database: Database):
    database.execute("create table kept(id int primary key); create table other(id int primary key)")
    source.change(table_include_list="public\\\\.kept", publication_name="mine", publication_autocreate_mode="filtered")
    source.run_to_end()

    database.execute("alter publication mine drop table kept")
    database.execute("insert into kept values (1)")
    database.execute("alter publication mine add table kept")
    code, output = source.run()
    assert code != 0
    assert "The publication mine was changed" in output

    database.execute("select pg_replication_slot_advance(%s, pg_current_wal_flush_lsn())", [source.slot])
    code, output = source.run()
    assert code != 0
    assert "past the connector's offset" in output


@pytest.mark.parametrize("tombstones", [True, False])
def test_a_delete_becomes_one_null_value_with_and_without_tombstones(
    source: PostgresSource, database: Database, *, tombstones: bool
):
    """By default, the value is null and has headers. A tombstone would be a second null value."""
    database.execute("create table people(id int primary key, name text)")
    source.run_to_end()
    source.change(
        transforms="unwrap", transforms_unwrap_type="io.debezium.transforms.ExtractNewRecordState",
        transforms_unwrap_add_headers="op", tombstones_on_delete=str(tombstones).lower(),
    )  # fmt: skip
    database.execute("insert into people values (1, 'Ada'), (2, null)")
    database.execute("delete from people where id = 2")
    source.run_to_end()

    assert sorted(source.events("public.people"), key=str) == [
        ({"id": 1}, {"id": 1, "name": "Ada"}),
        ({"id": 2}, None),
        ({"id": 2}, {"id": 2, "name": None}),
    ]
    (deleted,) = [record for record in source.records("public.people") if record.value is None]
    assert deleted.headers == (("__op", b"d"),)


_LEFT_BY_DELETES: dict[str, list[Any]] = {
    "drop": [],
    "tombstone": [None],
    "delete-to-tombstone": [None],
    "rewrite": [{"id": 2, "name": None, "__deleted": "true"}],
    "rewrite-with-tombstone": [{"id": 2, "name": None, "__deleted": "true"}],
}


@pytest.mark.parametrize("tombstones", [True, False])
@pytest.mark.parametrize("mode", _LEFT_BY_DELETES)
def test_deletes_leave_the_records_that_the_mode_defines(
    source: PostgresSource, database: Database, mode: str, *, tombstones: bool
):
    database.execute("create table people(id int primary key, name text)")
    source.run_to_end()
    source.change(
        transforms="unwrap", transforms_unwrap_type="ExtractNewRecordState", tombstones_on_delete=str(tombstones).lower(),
        transforms_unwrap_delete_tombstone_handling_mode=mode,
    )  # fmt: skip
    database.execute("insert into people values (1, 'Ada'), (2, 'Bob')")
    database.execute("delete from people where id = 2")
    database.execute("update people set name = 'Eve' where id = 1")
    source.run_to_end()

    rewritten = {"__deleted": "false"} if mode.startswith("rewrite") else {}
    after = [None] if mode == "rewrite-with-tombstone" and tombstones else []
    by_id: dict[int, list[Any]] = {1: [], 2: []}
    for key, value in source.events("public.people"):
        by_id[key["id"]].append(value)
    assert by_id == {
        1: [{"id": 1, "name": name, **rewritten} for name in ("Ada", "Eve")],
        2: [{"id": 2, "name": "Bob", **rewritten}, *_LEFT_BY_DELETES[mode], *after],
    }


def test_a_transform_leaves_rows_and_tombstones(source: PostgresSource, database: Database):
    database.execute("create table people(id int primary key, name text)")
    source.run_to_end()
    source.change(
        transforms="unwrap", transforms_unwrap_type="ExtractNewRecordState", transforms_unwrap_add_fields="op"
    )
    database.execute("insert into people values (1, 'Ada'), (2, null); delete from people where id = 2")
    source.run_to_end()

    assert sorted(source.events("public.people"), key=str) == [
        ({"id": 1}, {"id": 1, "name": "Ada", "__op": "c"}),
        ({"id": 2}, None),
        ({"id": 2}, {"id": 2, "name": None, "__op": "c"}),
    ]
