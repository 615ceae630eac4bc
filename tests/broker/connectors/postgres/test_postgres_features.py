"""Configuration properties of PostgresSource, on a real server."""

from __future__ import annotations

import json
import random

import pytest

from fencepost.api.allowed_paths import ANYWHERE
from fencepost.api.errors import ConfigError
from fencepost.config.validation_context import ValidationContext
from fencepost.connectors.postgres.changes.config import PostgresConfig
from fencepost.connectors.postgres.changes.connection import PostgresError
from fencepost.connectors.postgres.changes.connector import PostgresSourceConnector
from tests.support.postgres import Database
from tests.support.postgres_task import Topics
from tests.support.processes import wait_for


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
        # With `shop` as the message key, the primary key is an ordinary column.
        ({"shop": None, "note": "b"}, "u"),
        ({"shop": None, "note": "b"}, "d"),
        ({"shop": None, "note": "b"}, None),
        ({"shop": 8, "note": "b"}, "c"),
        ({"shop": 8, "note": "b"}, "d"),
        ({"shop": 8, "note": "b"}, None),
    ]
    assert [key for key, _ in topics.events("public.shops")] == [{"id": 7}]


def test_names_that_no_topic_can_have_become_others_and_collisions_are_refused(topics: Topics, database: Database):
    database.execute('create schema "my shop"; create table "my shop"."order lines €"(id int primary key)')
    database.execute('insert into "my shop"."order lines €" values (1)')
    topics.run()
    database.execute('insert into "my shop"."order lines €" values (2)')
    topics.run()
    events = topics.events("my_shop.order_lines__")
    assert [key for key, _ in events] == [{"id": 1}, {"id": 2}]
    assert [value["source"]["table"] for _, value in events] == ["order lines €"] * 2

    database.execute('create table "my shop"."order lines__"(id int primary key)')
    refused = r"'my shop\.order lines.*' and 'my shop\.order lines.*' would .*\.my_shop\.order_lines__, .*table\.exclude\.list"
    with pytest.raises(PostgresError, match=refused):
        topics.run()
    topics.change(table_exclude_list=r".*\.order lines__")
    with topics.running():
        wait_for(topics.slot_in_use, what="the stream")
        database.execute('create table "my shop"."order_lines €"(id int primary key)')
        database.execute('insert into "my shop"."order_lines €" values (3)')
        wait_for(lambda: topics.fatal, what="the end of the task")
    assert "'my shop.order_lines €'" in str(topics.fatal)
    assert "'my shop.order lines €'" in str(topics.fatal)
    assert len(topics.events("my_shop.order_lines__")) == 2


@pytest.mark.parametrize(("columns", "problem"), [("shop", "REPLICA IDENTITY FULL"), ("nosuch", "no column nosuch")])
def test_a_chosen_key_that_events_cannot_have_is_refused(
    columns: str, problem: str, topics: Topics, database: Database
):
    database.execute("create table orders(id int primary key, shop int); insert into orders values (1, 7)")
    topics.change(message_key_columns=f"public.orders:{columns}")

    with pytest.raises(PostgresError, match=problem):
        topics.run()


def test_a_publication_that_leaves_out_changes_is_logged(
    topics: Topics, database: Database, caplog: pytest.LogCaptureFixture
):
    publication = f"of_{topics.slot}"
    topics.change(publication_name=publication)
    database.execute("create table t(id int primary key); insert into t values (1)")
    database.execute(f"create publication {publication} for table t with (publish = 'insert, delete')")
    topics.run()
    database.execute("update t set id = 2")
    database.execute("insert into t values (3)")
    topics.run()

    assert f"The publication {publication} leaves out update, truncate" in caplog.text
    assert [(key["id"], value["op"]) for key, value in topics.events("public.t")] == [(1, "r"), (3, "c")]


def test_heartbeats_have_the_time_while_tables_are_quiet(topics: Topics, database: Database):
    database.execute("create table t(id int primary key)")
    topics.change(heartbeat_interval_ms="100", topic_heartbeat_prefix="alive")
    topic = f"alive.{topics.prefix}"
    with topics.running():
        wait_for(lambda: len(topics.events(topic)) >= 3, what="three heartbeats")

    beats = topics.events(topic)
    assert {json.dumps(key) for key, _ in beats} == {json.dumps({"serverName": topics.prefix})}
    times = [value["ts_ms"] for _, value in beats]
    assert times == sorted(times)


def test_a_statement_runs_with_each_heartbeat(topics: Topics, database: Database):
    database.execute("create table t(id int primary key); create table beats(id int primary key, count int)")
    topics.change(
        heartbeat_interval_ms="400",
        # The query has two statements, and names its table without a schema.
        heartbeat_action_query="insert into beats values (1, 0) on conflict do nothing; update beats set count = count + 1",
    )
    with topics.running():
        wait_for(
            lambda: sum(value["op"] == "u" for _, value in topics.events("public.beats")) >= 3,
            what="changes of three heartbeats",
        )
    assert topics.fatal is None
    assert {key["id"] for key, _ in topics.events("public.beats")} == {1}


def test_a_statement_that_fails_is_logged_and_heartbeats_continue(
    topics: Topics, database: Database, caplog: pytest.LogCaptureFixture
):
    database.execute("create table t(id int primary key)")
    topics.change(heartbeat_interval_ms="400", heartbeat_action_query="update nosuch set count = 1")
    topic = f"__debezium-heartbeat.{topics.prefix}"
    with topics.running():
        wait_for(lambda: len(topics.events(topic)) >= 3, what="three heartbeats")
        said = [record.message for record in caplog.records if "heartbeat.action.query failed" in record.message]
        assert len(said) == 1
        assert "nosuch" in said[0]
        database.execute("create table nosuch(count int primary key); insert into nosuch values (0)")
        wait_for(lambda: database.execute("select 1 from nosuch where count = 1"), what="the statement to succeed")
    assert topics.fatal is None


def test_a_statement_that_waits_for_a_lock_does_not_keep_changes_back(
    topics: Topics, database: Database, caplog: pytest.LogCaptureFixture
):
    database.execute("create table t(id int primary key); create table beats(count int primary key)")
    topics.change(heartbeat_interval_ms="400", heartbeat_action_query="insert into beats values (1)")
    topics.run()
    database.execute("truncate beats")
    with database.connect(autocommit=False) as locking:
        locking.execute("lock table beats")
        with topics.running():
            database.execute("insert into t values (1)")
            wait_for(lambda: topics.events("public.t"), what="the change")
            wait_for(lambda: "statement timeout" in caplog.text, what="the statement to give up")
    assert topics.fatal is None


def test_logical_messages_arrive_once_and_with_their_transaction(topics: Topics, database: Database):
    database.execute("create table t(id int primary key)")
    topics.change(message_prefix_exclude_list="noise.*")
    topics.run()
    with database.connect(autocommit=False) as connection:
        connection.execute("insert into t values (1)")
        connection.execute("select pg_logical_emit_message(true, 'outbox', 'inside')")
        # A non-transactional message is written at once, also if the transaction is rolled back.
        connection.execute("select pg_logical_emit_message(false, 'audit', 'at once')")
        connection.execute("insert into t values (2)")
        connection.commit()
        connection.execute("select pg_logical_emit_message(true, 'outbox', 'never')")
        connection.execute("select pg_logical_emit_message(false, 'noise-1', 'left out')")
        connection.execute("select pg_logical_emit_message(false, 'audit', convert_to(E'\u00fc', 'UTF8'))")
        connection.rollback()
    # A commit flushes the WAL at once. Otherwise the last message is flushed, and so streamed, only a while later.
    database.execute("create table flushed(id int)")
    chance = random.Random(3)
    # Crashes at random before or after commits: each run resumes behind the committed offset.
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
    # The rows and the message of a database transaction are in one Kafka transaction.
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
        ("heartbeat.action.query", "select 1", r"no effect without heartbeat\.interval\.ms"),
        ("key.columns", "id", r"key\.columns is not supported: use message\.key\.columns"),
        ("topic.column", "region", "all changes of a table go to its topic"),
        ("schema.include.list", "sales", r"table\.include\.list"),
        ("column.mask.with.12.chars", "public.t.name", r"column\.exclude\.list"),
        ("signal.kafka.topic", "signals", "signal.data.collection"),
        ("binary.handling.mode", "hex", r"value hex .* not supported: bytea is written as bytes"),
    ],
)
def test_unsupported_property_values_are_refused(name: str, value: str, problem: str):
    config = {"database.hostname": "h", "database.user": "u", "database.dbname": "d", "topic.prefix": "p"}
    with pytest.raises(ConfigError, match=problem):
        PostgresConfig.parse(config | {name: value})


def test_property_values_that_match_the_behaviour_are_accepted():
    config = {"database.hostname": "h", "database.user": "u", "database.dbname": "d", "topic.prefix": "p"}
    same = {
        "binary.handling.mode": "bytes",
        "skip.messages.without.change": "false",
    }
    assert PostgresConfig.parse(config | same) == PostgresConfig.parse(config)


def test_an_unsupported_property_is_refused_under_its_own_name(database: Database):
    connector = PostgresSourceConnector()
    config = {
        "database.hostname": "127.0.0.1", "database.port": str(database.server.port), "database.user": "postgres",
        "database.dbname": database.name, "topic.prefix": "p", "key.columns": "id",
    }  # fmt: skip
    connector.context = ValidationContext(config, ANYWHERE)
    assert [value.name for value in connector.validate(config) if value.errors] == ["key.columns"]
