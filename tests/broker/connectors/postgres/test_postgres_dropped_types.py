"""Changes that are read after the types of their columns were dropped, and tables without columns."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest

from fencepost.connectors.postgres.changes.connection import PostgresError
from tests.support.postgres import Database
from tests.support.postgres_task import Topics
from tests.support.processes import wait_for

TYPES = """
create domain number as int; create domain price as numeric(10,2); create domain net as price check (value > 0);
create domain flag as boolean; create domain moment as timestamp(3); create domain numbers as int[];
create type mood as enum ('sad', 'ok'); create type place as (x int, y int); create type span as range (subtype = int4);
create table t(id number primary key, price net, flag flag, at moment, numbers numbers, mood mood, moods mood[],
  prices price[], place place, span span);
"""
ROW = "'1.5', true, '2024-05-01 12:00:00.25', '{1,2}', 'ok', '{sad,ok}', '{1.5,2.25}', '(1,2)', '[1,3)'"
VALUES = {
    "price": Decimal("1.50"), "flag": True, "at": 1714564800250, "numbers": [1, 2], "mood": "ok", "moods": ["sad", "ok"],
    "prices": [Decimal("1.50"), Decimal("2.25")], "place": "(1,2)", "span": "[1,3)",
}  # fmt: skip
RETYPE = (
    "alter table t alter id type text, "
    + ", ".join(f"alter {name} type text" for name in VALUES)
    + "; drop type number, price, net, flag, moment, numbers, mood, place, span"
)


def rows(topics: Topics) -> dict[str, Any]:
    """The newest row of each key in the topic, without deleted rows."""
    newest = {json.dumps(key): value and value["after"] for key, value in topics.events("public.t")}
    return {key: value for key, value in newest.items() if value is not None}


def retyped_while_no_task_runs(topics: Topics, database: Database, change: str) -> None:
    database.execute(change)
    database.execute(RETYPE)
    database.execute("insert into t(id, price) values ('later', 'x')")
    topics.run()


@pytest.mark.parametrize("offset", ["of the snapshot", "of a former version"])
def test_changes_of_dropped_types_are_decoded_as_before_the_drop(offset: str, topics: Topics, database: Database):
    database.execute(TYPES)
    database.execute(f"insert into t values (1, {ROW}), (2, {ROW})")  # noqa: S608
    topics.run()
    if offset == "of a former version":
        assert topics.committed_offset is not None
        del topics.committed_offset["types"]
        topics.run()
    change = f"update t set price = 2.5 where id = 1; delete from t where id = 2; insert into t values (3, {ROW})"  # noqa: S608
    retyped_while_no_task_runs(topics, database, change)

    left = {"id": "later", "price": "x"} | dict.fromkeys([name for name in VALUES if name != "price"])
    assert rows(topics) == {
        '{"id": 1}': {"id": 1} | VALUES | {"price": Decimal("2.50")},
        '{"id": 3}': {"id": 3} | VALUES,
        '{"id": "later"}': left,
    }
    assert topics.committed_offset is not None
    assert "types" not in topics.committed_offset


def test_dropped_types_are_kept_until_the_stream_is_past_them(topics: Topics, database: Database):
    database.execute(TYPES)
    database.execute("create table other(id int primary key, filler text)")
    topics.run()
    # These rows take more than one read of the stream.
    database.execute("insert into other select i, repeat('x', 1000) from generate_series(1, 12000) i")
    retyped_while_no_task_runs(topics, database, f"insert into t values (3, {ROW})")  # noqa: S608

    assert rows(topics)['{"id": 3}'] == {"id": 3} | VALUES
    assert topics.committed_offset is not None
    assert "types" not in topics.committed_offset


def test_types_that_no_task_saw_are_the_types_named_in_the_log(topics: Topics, database: Database):
    database.execute("create table t(id int primary key)")
    topics.run()
    database.execute("create domain flag as boolean; create type mood as enum ('ok'); create domain word as text")
    database.execute(
        "alter table t add flag flag, add mood mood, add word word; insert into t values (1, true, 'ok', 'a')"
    )
    database.execute("alter table t drop flag, drop mood, drop word; drop type flag, mood, word")
    topics.run()

    assert rows(topics) == {'{"id": 1}': {"id": 1, "flag": True, "mood": "ok", "word": "a"}}


@pytest.mark.parametrize(
    ("made", "value", "drop"),
    [
        ("create domain price as numeric(10,2)", "1.5", "price"),
        ("create domain price as timestamp(3)", "2024-05-01", "price"),
        ("create domain part as numeric(10,2); create domain price as part[]", "{1.5}", "price, part"),
        ("create domain price as time(3)[]", "{12:00:00}", "price"),
    ],
    ids=["numeric", "timestamp", "array of a domain", "array of times"],
)
def test_unknown_types_fail_the_task(made: str, value: str, drop: str, topics: Topics, database: Database):
    database.execute("create table t(id int primary key)")
    topics.run()
    database.execute(f"{made}; alter table t add price price")
    database.execute(f"insert into t values (1, '{value}')")  # noqa: S608
    database.execute(f"alter table t drop price; drop type {drop}")
    with pytest.raises(PostgresError, match=r"column public\.t\.price had a type .* dropped .* field types .* resync"):
        topics.run()

    topics.change(column_exclude_list=r"public\.t\.price")
    topics.run()
    assert rows(topics) == {'{"id": 1}': {"id": 1}}


def test_a_type_that_is_added_to_the_offset_applies_to_the_changes(topics: Topics, database: Database):
    database.execute("create table t(id int primary key)")
    topics.run()
    database.execute("create domain price as numeric(10,2); alter table t add price price")
    ((oid, base, modifier),) = database.execute(
        "select oid, typbasetype, typtypmod from pg_type where typname = 'price'"
    )
    database.execute("insert into t values (1, 1.5)")
    database.execute("alter table t drop price; drop domain price")
    assert topics.committed_offset is not None
    topics.committed_offset["types"] = json.dumps({str(oid): [base, modifier, 0]})
    topics.run()

    assert rows(topics) == {'{"id": 1}': {"id": 1, "price": Decimal("1.50")}}


def test_an_oid_that_another_type_has_now_is_refused(topics: Topics, database: Database):
    database.execute("create domain price as numeric(10,2); create table t(id int primary key, price price)")
    topics.run()
    assert topics.committed_offset is not None
    ((oid, base, modifier),) = [
        (int(oid), *info[:2]) for oid, info in json.loads(topics.committed_offset["types"]).items()
    ]
    topics.committed_offset["types"] = json.dumps({str(oid): [base, modifier + 1, 0]})
    database.execute("insert into t values (1, 1.5)")
    with pytest.raises(PostgresError, match=f"OID {oid} belonged to another type .* remove the field types"):
        topics.run()

    del topics.committed_offset["types"]
    topics.run()
    assert rows(topics) == {'{"id": 1}': {"id": 1, "price": Decimal("1.50")}}


@pytest.mark.parametrize("excluded", [True, False])
def test_a_table_without_columns_is_warned_about_once(
    excluded: bool, topics: Topics, database: Database, caplog: pytest.LogCaptureFixture
):
    database.execute(f"create table empty({'secret int' if excluded else ''}); create table t(id int primary key)")
    if excluded:
        topics.change(column_exclude_list=r"public\.empty\..*")
    with topics.running():
        wait_for(topics.slot_in_use, what="the stream")
        database.execute("insert into empty default values; insert into t values (1)")
        database.execute("alter table empty replica identity full")
        database.execute("insert into empty default values; insert into t values (2)")
        wait_for(lambda: topics.ids("public.t") == [1, 2], what="the rows of the other table")

    assert topics.fatal is None
    assert not topics.events("public.empty")
    assert caplog.text.count("The table public.empty has no columns to capture") == 1
