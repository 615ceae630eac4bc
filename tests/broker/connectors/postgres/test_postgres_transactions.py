"""Transaction metadata of PostgresSource, from a real server."""

from __future__ import annotations

import json
import random
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.bank import Tellers, open_bank
from tests.support.postgres import Database
from tests.support.postgres_task import Topics


@pytest.fixture
def topics(database: Database) -> Iterator[Topics]:
    topics = Topics(database, provide_transaction_metadata="true")
    yield topics
    topics.drop_slot()


def boundaries(topics: Topics) -> list[dict[str, Any]]:
    return [value for _, value in topics.events("transaction")]


def test_begin_and_end_are_in_the_transaction_of_their_changes(topics: Topics, database: Database):
    database.execute("create table a(id int primary key); create table b(id int primary key)")
    database.execute("insert into a values (0)")
    topics.run()
    # Rows of the snapshot belong to no transaction.
    assert [value["transaction"] for _, value in topics.events("public.a")] == [None]
    assert boundaries(topics) == []

    before = len(topics.committed)
    with database.connect(autocommit=False) as connection:
        connection.execute("insert into a values (1), (2)")
        connection.execute("insert into b values (1)")
        connection.execute("delete from a where id = 2")
        ((xid,),) = connection.execute("select pg_current_xact_id()::text::bigint")
        connection.commit()
    topics.run()

    (whole,) = topics.committed[before:]
    changes = [(table, value) for table, _, value in whole if table.startswith("public.") and value is not None]
    (identity,) = {value["transaction"]["id"] for _, value in changes}
    assert identity.split(":")[0] == str(xid)
    placed = {
        value["transaction"]["total_order"]: (table, value["op"], value["transaction"]["data_collection_order"])
        for table, value in changes
    }
    assert placed == {
        1: ("public.a", "c", 1),
        2: ("public.a", "c", 2),
        3: ("public.b", "c", 1),
        4: ("public.a", "d", 3),
    }
    told = [(json.loads(key), value) for table, key, value in whole if table == "transaction"]
    times = {value["source"]["ts_ms"] for _, value in changes}
    assert [key for key, _ in told] == [{"id": identity}, {"id": identity}]
    assert [(value["status"], value["event_count"]) for _, value in told] == [("BEGIN", None), ("END", 4)]
    assert told[0][1]["data_collections"] is None
    assert told[1][1]["data_collections"] == [
        {"data_collection": "public.a", "event_count": 3}, {"data_collection": "public.b", "event_count": 1},
    ]  # fmt: skip
    assert {value["ts_ms"] for _, value in told} == times


def test_the_topic_has_the_name_that_is_set(topics: Topics, database: Database):
    database.execute("create table t(id int primary key)")
    topics.change(topic_transaction="tx")
    topics.run()
    database.execute("insert into t values (1)")
    topics.run()
    assert [value["status"] for _, value in topics.events("tx")] == ["BEGIN", "END"]


def check(topics: Topics) -> None:
    """Check that each transaction has one BEGIN and one END, whose counts match its events, without a gap."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    orders: dict[str, list[int]] = defaultdict(list)
    within: dict[tuple[str, str], list[int]] = defaultdict(list)
    for part in topics.committed:
        for table, _, value in part:
            if table.startswith("public.") and value is not None and value["op"] != "r":
                place = value["transaction"]
                counts[place["id"]][table] += 1
                orders[place["id"]].append(place["total_order"])
                within[place["id"], table].append(place["data_collection_order"])
    for found in (*orders.values(), *within.values()):
        assert sorted(found) == list(range(1, len(found) + 1))
    told = boundaries(topics)
    assert [value["id"] for value in told if value["status"] == "BEGIN"] == list(dict.fromkeys(v["id"] for v in told))
    ends = [value for value in told if value["status"] == "END"]
    assert Counter(value["id"] for value in ends) == Counter(list(counts))
    for end in ends:
        assert end["event_count"] == counts[end["id"]].total()
        assert {part["data_collection"]: part["event_count"] for part in end["data_collections"]} == counts[end["id"]]


def test_counts_are_right_through_crashes_and_concurrent_writers(
    topics: Topics, database: Database, chance: random.Random
):
    open_bank(database)
    crashes = 0
    with Tellers(database, 3, chance.randrange(1000)) as tellers:
        while tellers.transfers < 200 or crashes < 6:
            crashes += not topics.run(chance, crash=0.3)
    topics.run()
    check(topics)


def test_a_transaction_that_is_split_is_counted_through_crashes(
    topics: Topics, database: Database, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("fencepost.connectors.postgres.changes.stream.stream.BLOCK_BYTES", 1 << 18)
    topics.change(transaction_split_interval_ms="1")
    database.execute("create table many(id int primary key, note text); create table few(id int primary key)")
    topics.run()
    database.execute(
        "begin; insert into many select i, repeat('x', 500) from generate_series(1, 4000) i; insert into few values (1); "
        "update many set id = id + 10000 where id % 2 = 0; commit"
    )
    chance = random.Random(5)
    while not topics.run(chance, crash=0.2):
        pass
    assert len(topics.committed) > 3
    check(topics)
    (end,) = [value for value in boundaries(topics) if value["status"] == "END"]
    assert end["data_collections"] == [
        {"data_collection": "public.few", "event_count": 1}, {"data_collection": "public.many", "event_count": 8000},
    ]  # fmt: skip
