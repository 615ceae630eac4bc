"""Properties of PostgresSource, on a real server."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator

import pytest

from fencepost.api.errors import ConfigError
from fencepost.connectors.postgres.config import PostgresConfig
from fencepost.connectors.postgres.connection import PostgresError
from tests.support.postgres import Database
from tests.support.postgres_task import Topics
from tests.support.processes import wait_for


@pytest.fixture
def topics(database: Database) -> Iterator[Topics]:
    topics = Topics(database)
    yield topics
    topics.drop_slot()


def test_chosen_columns_are_the_key_of_all_events(topics: Topics, database: Database):
    database.execute("create table orders(id int primary key, shop int, note text)")
    database.execute("alter table orders replica identity full")
    database.execute("create table shops(id int primary key)")
    database.execute("insert into orders values (1, 7, 'a'); insert into shops values (7)")
    topics.change(message_key_columns=r"public\.ord.*:shop, note; public\.nosuch:x")
    topics.run()
    database.execute("insert into orders values (2, null, 'b')")
    database.execute("update orders set id = 20 where id = 2")
    database.execute("update orders set shop = 8 where id = 20")
    database.execute("delete from orders where id = 20")
    topics.run()

    assert [(key, value and value["op"]) for key, value in topics.events("public.orders")] == [
        ({"shop": 7, "note": "a"}, "r"),
        ({"shop": None, "note": "b"}, "c"),
        # The primary key is a column like others then.
        ({"shop": None, "note": "b"}, "u"),
        ({"shop": None, "note": "b"}, "d"),
        ({"shop": None, "note": "b"}, None),
        ({"shop": 8, "note": "b"}, "c"),
        ({"shop": 8, "note": "b"}, "d"),
        ({"shop": 8, "note": "b"}, None),
    ]
    assert [key for key, _ in topics.events("public.shops")] == [{"id": 7}]


@pytest.mark.parametrize(("columns", "problem"), [("shop", "REPLICA IDENTITY FULL"), ("nosuch", "no column nosuch")])
def test_a_chosen_key_that_events_cannot_have_is_refused(
    columns: str, problem: str, topics: Topics, database: Database
):
    database.execute("create table orders(id int primary key, shop int); insert into orders values (1, 7)")
    topics.change(message_key_columns=f"public.orders:{columns}")

    with pytest.raises(PostgresError, match=problem):
        topics.run()


def test_heartbeats_tell_the_time_while_tables_are_quiet(topics: Topics, database: Database):
    database.execute("create table t(id int primary key)")
    topics.change(heartbeat_interval_ms="100", topic_heartbeat_prefix="alive")
    topic = f"alive.{topics.prefix}"
    with topics.running():
        wait_for(lambda: len(topics.events(topic)) >= 3, what="three heartbeats")

    beats = topics.events(topic)
    assert {json.dumps(key) for key, _ in beats} == {json.dumps({"serverName": topics.prefix})}
    times = [value["ts_ms"] for _, value in beats]
    assert times == sorted(times)


def test_logical_messages_arrive_once_and_with_their_transaction(topics: Topics, database: Database):
    database.execute("create table t(id int primary key)")
    topics.change(message_prefix_exclude_list="noise.*")
    topics.run()
    with database.connect(autocommit=False) as connection:
        connection.execute("insert into t values (1)")
        connection.execute("select pg_logical_emit_message(true, 'outbox', 'inside')")
        # Written at once, also if the transaction is rolled back.
        connection.execute("select pg_logical_emit_message(false, 'audit', 'at once')")
        connection.execute("insert into t values (2)")
        connection.commit()
        connection.execute("select pg_logical_emit_message(true, 'outbox', 'never')")
        connection.execute("select pg_logical_emit_message(false, 'noise-1', 'left out')")
        connection.execute("select pg_logical_emit_message(false, 'audit', convert_to(E'\u00fc', 'UTF8'))")
        connection.rollback()
    chance = random.Random(3)
    # Each end before or after a commit resumes behind what is committed.
    while not topics.run(chance, crash=0.3):
        pass
    topics.run()

    found = {value["message"]["content"]: value for _, value in topics.events("message")}
    assert {(key["prefix"], value["message"]["content"]) for key, value in topics.events("message")} == {
        ("audit", b"at once"), ("outbox", b"inside"), ("audit", "\u00fc".encode()),
    }  # fmt: skip
    assert len(topics.events("message")) == 3
    inside, outside = found[b"inside"]["source"], found[b"at once"]["source"]
    rows = {key["id"]: value["source"] for key, value in topics.events("public.t")}
    assert inside["txId"] == rows[1]["txId"]
    assert [json.loads(source["sequence"])[1] for source in (rows[1], inside, rows[2])] == ["0", "1", "2"]
    assert outside["txId"] is None
    assert {value["op"] for value in found.values()} == {"m"}
    # Rows and message of a transaction of the database are in one of Kafka.
    (whole,) = [part for part in topics.committed if any(table == "public.t" for table, _, _ in part)]
    assert b"inside" in [value["message"]["content"] for table, _, value in whole if table == "message"]


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        ("snapshot.mode", "initial_only", "initial_only .* is not supported: use initial"),
        ("snapshot.mode", "sometimes", "must be one of initial, no_data, never"),
        ("message.key.columns", "public.orders", "TABLE:COLUMN"),
        ("message.key.columns", "public.orders:a,", "TABLE:COLUMN"),
        ("message.key.columns", "public.(:a", "not a regular expression"),
    ],
)
def test_values_that_mean_nothing_here_are_refused(name: str, value: str, problem: str):
    config = {"database.hostname": "h", "database.user": "u", "database.dbname": "d", "topic.prefix": "p"}
    with pytest.raises(ConfigError, match=problem):
        PostgresConfig.parse(config | {name: value})
