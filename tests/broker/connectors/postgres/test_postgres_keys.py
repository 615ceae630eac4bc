"""Keys of events: primary keys and replica identities that are altered, and key columns whose values are rounded."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fencepost.api.errors import DataError, FencepostError
from fencepost.connectors.postgres.changes.connection import PostgresError
from tests.support.incremental import after_chunk, send
from tests.support.postgres import Database
from tests.support.postgres_task import Topics
from tests.support.processes import wait_for

ALTER = "alter table t drop constraint t_pkey, add primary key (code)"


def told(topics: Topics) -> list[tuple[Any, str | None]]:
    """The key and the operation of each event of table t; None for a tombstone."""
    return [(key, value and value["op"]) for key, value in topics.events("public.t")]


@pytest.mark.parametrize("identity", ["default", "full", "using index t_code"])
@pytest.mark.parametrize("running", [True, False])
def test_an_altered_key_is_used_from_then_on(
    running: bool, identity: str, topics: Topics, database: Database, caplog: pytest.LogCaptureFixture
):
    database.execute("create table t(id int primary key, code text not null); create unique index t_code on t(code)")
    if identity == "full":
        database.execute("alter table t replica identity full")
    topics.run()
    alter = f"alter table t replica identity {identity}" if "index" in identity else ALTER
    change = "update t set id = id + 1; delete from t; insert into t values (1, 'b')"
    changed = [({"code": "a"}, "u"), ({"code": "a"}, "d"), ({"code": "a"}, None), ({"code": "b"}, "c")]
    if running:
        with topics.running():
            wait_for(topics.slot_in_use, what="the stream")
            database.execute("insert into t values (1, 'a')")
            wait_for(lambda: topics.events("public.t"), what="the event before")
            database.execute(alter)
            database.execute(change)
            wait_for(lambda: len(told(topics)) == 5, what="the events after")
        assert topics.fatal is None
    else:
        database.execute("insert into t values (1, 'a')")
        topics.run()
        database.execute(alter)
        database.execute(change)
        topics.run()

    assert told(topics) == [({"id": 1}, "c"), *changed]
    assert ("The key of public.t was (id), and is (code) from now on" in caplog.text) is running


def test_changes_before_an_alteration_keep_the_old_key_even_if_read_later(topics: Topics, database: Database):
    database.execute("create table t(id int primary key, code text not null)")
    topics.run()
    database.execute("insert into t values (1, 'a')")
    database.execute(ALTER)
    database.execute("insert into t values (2, 'b')")
    topics.run()

    assert told(topics) == [({"id": 1}, "c"), ({"code": "b"}, "c")]


@pytest.mark.parametrize("later", [True, False])
def test_an_old_primary_key_that_the_log_lacks_is_looked_up(later: bool, topics: Topics, database: Database):
    column = "" if later else ", code text"
    database.execute(f"create table t(id int primary key{column}); alter table t replica identity full")
    topics.run()
    database.execute("insert into t(id) values (1)")
    if later:
        database.execute("alter table t add column code text")
    database.execute("update t set code = 'a'")
    database.execute(ALTER)
    error = "code now, but rows to be read were written before" if later else "has no code, which is a column of its"
    with pytest.raises(FencepostError, match=f"{error}.*message.key.columns"):
        topics.run()

    topics.change(message_key_columns="public.t:id")
    topics.run()
    assert told(topics) == [({"id": 1}, "c"), ({"id": 1}, "u")]


def test_a_table_whose_key_is_altered_between_chunks_starts_over(
    topics: Topics, database: Database, monkeypatch: pytest.MonkeyPatch
):
    database.execute("create table t(id int primary key, code int not null); alter table t replica identity full")
    database.execute("create table signals(id text primary key, type text not null, data text)")
    database.execute("insert into t select i, i from generate_series(1, 50) i")
    topics.change(
        signal_data_collection="public.signals", incremental_snapshot_chunk_size="10", snapshot_mode="no_data"
    )
    topics.run()
    after_chunk(monkeypatch, {("public.t", 3): lambda: database.execute(ALTER)})
    send(database, "s", data_collections=[r"public\.t"])
    topics.run()

    assert {key["code"] for key, _ in topics.events("public.t") if "code" in key} == set(range(1, 51))


def test_a_part_of_a_key_is_not_used_as_the_key(topics: Topics, database: Database):
    database.execute("create table t(shop int, id int, primary key (shop, id)); insert into t values (1, 1), (1, 2)")
    topics.change(column_exclude_list=r"public\.t\.id")
    with pytest.raises(PostgresError, match=r"Events of public.t lack id, .*different rows would have one key"):
        topics.run()
    topics.change(message_key_columns="public.t:shop")
    topics.run()
    assert [key for key, _ in topics.events("public.t")] == [{"shop": 1}, {"shop": 1}]


ROUNDED = [
    ("numeric", {"decimal_handling_mode": "double"}, "0.1234567890123456", "0.1234567890123457", "0.123456789012345"),
    (
        "numeric(20)",
        {"decimal_handling_mode": "double"},
        "90071992547409921",
        "90071992547409922",
        "100000000000000000",
    ),
    ("numeric[]", {"decimal_handling_mode": "double"}, "{1,1e-400}", "{1,0}", "{1,2.50}"),
    ("interval", {"interval_handling_mode": "numeric"}, "1 month", "30 days 10:30:00", "90 days 1 minute"),
    (
        "timestamp",
        {"time_precision_mode": "connect"},
        "2024-05-01 12:00:00.0001",
        "2024-05-01 12:00:00.0002",
        "2024-05-01 12:00:00.123",
    ),
    ("time", {"time_precision_mode": "connect"}, "12:00:00.500001", "12:00:00.500002", "12:00:00.123"),
    ("time[]", {"time_precision_mode": "connect"}, "{12:00:00.123456}", "{12:00:00.123}", "{12:00:00.5}"),
]


@pytest.mark.parametrize(("kind", "mode", "one", "two", "exact"), ROUNDED)
@pytest.mark.parametrize("stream", [True, False])
def test_values_that_would_share_a_key_are_refused(  # noqa: PLR0917 - a row of the table
    stream: bool, kind: str, mode: dict[str, str], one: str, two: str, exact: str, topics: Topics, database: Database
):
    topics.change(**mode)
    database.execute(f"create table t(id {kind} primary key); insert into t values ('{exact}')")  # noqa: S608
    if stream:
        topics.run()
        assert len(topics.events("public.t")) == 1
    database.execute(f"insert into t values ('{one}'), ('{two}')")  # noqa: S608
    with pytest.raises(
        DataError, match=r"column public.t.id .* two rows could have one key.*decimal.handling.mode=string"
    ):
        topics.run()
    by_text = {name: "isostring" if "time" in name else "string" for name in mode}
    topics.change(**by_text)
    topics.run()
    assert len({json.dumps(key) for key, _ in topics.events("public.t")}) == 3


@pytest.mark.parametrize("kind", ["double precision", "real"])
def test_keys_of_floating_point_numbers_are_exact(kind: str, topics: Topics, database: Database):
    database.execute(f"create table t(id {kind} primary key)")
    near = "1, 1.0000001, 1.0000002, 16777216, 16777218, 'NaN', 'Infinity', '-Infinity', 1e-37"
    database.execute(f"insert into t select unnest(array[{near}]::{kind}[])")
    count = len(database.execute("select distinct id from t"))
    topics.run()
    assert len({json.dumps(key) for key, _ in topics.events("public.t")}) == count
