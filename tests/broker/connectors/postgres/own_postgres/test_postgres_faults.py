"""The task of PostgresSource when its publication, its connection or its server is tampered with."""

from __future__ import annotations

import json
import os
import random
import socket
from typing import Any

import psycopg
import pytest

from fencepost.api.allowed_paths import ANYWHERE
from fencepost.config.validation_context import ValidationContext
from fencepost.connectors.jdbc.connection import PostgresAddress
from fencepost.connectors.jdbc.properties import JdbcConfig
from fencepost.connectors.postgres.changes.config import PostgresConfig
from fencepost.connectors.postgres.changes.connection import PositionLostError
from fencepost.connectors.postgres.changes.connector import PostgresSourceConnector
from fencepost.connectors.postgres.server.connect import connect
from fencepost.embedded.postgres import EmbeddedPostgres
from tests.support.bank import Tellers, balances, open_bank, replayed
from tests.support.fault_proxy import FaultProxy, Link
from tests.support.postgres import Database
from tests.support.postgres_task import Topics
from tests.support.processes import wait_for


def test_sending_to_a_server_that_is_gone_ends_the_connection(topics: Topics, database: Database):
    address = PostgresAddress.of(
        JdbcConfig.parse({"connection.url": database.jdbc_url, "topic.prefix": "t"}).values, ANYWHERE
    )
    with (
        PostgresConfig.parse(topics.configs()).connection.connect() as stream,
        connect({**address.parameters, "user": "postgres"}, "no connection", "the test") as polled,
    ):
        assert (_unanswered_ms(stream), _unanswered_ms(polled)) == (20_000, 20_000)


def _unanswered_ms(connection: psycopg.Connection[Any]) -> int:
    """TCP_USER_TIMEOUT of a connection: how long the kernel waits for acknowledgements before it closes it."""
    with socket.socket(fileno=os.dup(connection.pgconn.socket)) as own:
        return own.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT)


def test_a_stream_ended_by_the_server_as_silent_is_resumed(topics: Topics, database: Database, proxy: FaultProxy):
    topics.change(database_port=str(proxy.port))
    database.execute("create table t(id int primary key)")
    topics.run()
    with topics.running():
        wait_for(topics.slot_in_use, what="the stream")
        database.execute("insert into t values (1)")
        wait_for(lambda: topics.committed, what="the first change")
        proxy.to_broker = Link.HOLD
        database.execute("insert into t values (2)")
        # The server ends a stream if its client sends nothing for wal_sender_timeout.
        wait_for(lambda: not topics.slot_in_use(), what="the server to end the stream")
        proxy.heal()
        database.execute("insert into t values (3)")
        wait_for(lambda: len(topics.ids("public.t")) == 3, what="all changes")

    assert topics.ids("public.t") == [1, 2, 3]
    assert topics.fatal is None


def test_a_connection_cut_anywhere_in_a_block_keeps_transactions_whole(
    topics: Topics, database: Database, proxy: FaultProxy, seed: int, chance: random.Random
):
    topics.change(database_port=str(proxy.port))
    open_bank(database)
    topics.run()
    with Tellers(database, 3, seed) as tellers, topics.running():
        for cut in range(6):
            proxy.cut_after = chance.randrange(1, 10_000)
            wait_for(lambda: proxy.cut_after is None, what=f"cut {cut}")
            before = tellers.transfers
            wait_for(lambda before=before: tellers.transfers > before + 3, what="transfers")
        # The connection is not cut any more while the remaining changes are read.
        proxy.cut_after = None
    assert topics.fatal is None
    while not topics.run():
        pass

    assert topics.failed("PostgreSQL closed the replication connection")
    assert replayed(enumerate(topics.committed)) == balances(database)


def test_a_server_killed_in_mid_snapshot_is_read_from_the_start(topics: Topics, database: Database):
    server = database.server
    database.execute("create table wide(id int primary key, note text)")
    # With plain storage, the table has enough pages for several ranges.
    database.execute("alter table wide alter note set storage plain")
    database.execute("insert into wide select i, repeat('x', 7000) from generate_series(1, 5000) i")
    kills = iter([2, 1])
    read = 0

    def after_split() -> None:
        nonlocal read, kill_at
        read += 1
        if read == kill_at:
            server.kill()
            server.start()
            read, kill_at = 0, next(kills, None)

    kill_at = next(kills, None)
    topics.after_split = after_split
    runs = 1
    while not topics.run():
        runs += 1

    assert runs == 3
    assert len(topics.committed) == 1
    assert sorted(topics.ids("public.wide")) == list(range(1, 5001))


def test_a_transaction_of_100_000_rows_with_savepoints_is_whole(topics: Topics, database: Database):
    database.execute("create table many(id int primary key, note text)")
    topics.run()
    with database.connect(autocommit=False) as connection:
        for part in range(10):
            connection.execute("savepoint s")
            connection.execute(
                "insert into many select i, 'x' from generate_series(%s::int, %s::int) i",
                [part * 20_000, part * 20_000 + 19_999],
            )
            connection.execute("rollback to s" if part % 2 else "release s")
        connection.commit()
    with database.connect(autocommit=False) as connection:
        connection.execute("update many set note = 'y'")
        connection.rollback()
    topics.run()

    assert len(topics.committed) == 1
    kept = [part * 20_000 + i for part in range(0, 10, 2) for i in range(20_000)]
    assert [json.loads(key)["id"] for _, key, _ in topics.committed[0]] == kept


@pytest.mark.parametrize("running", [True, False])
def test_a_table_taken_out_of_the_publication_is_refused(running: bool, topics: Topics, database: Database):
    database.execute("create table t(id int primary key); create table other(id int primary key)")
    database.execute("create publication mine for table t, other")
    topics.change(publication_name="mine", publication_autocreate_mode="disabled")
    topics.run()
    if running:
        with topics.running():
            wait_for(topics.slot_in_use, what="the stream")
            database.execute("alter publication mine drop table t")
            wait_for(lambda: topics.fatal, what="the task ends")
        assert "The publication mine was changed" in str(topics.fatal)
    else:
        database.execute("alter publication mine drop table t")
    database.execute("insert into t values (1)")
    database.execute("alter publication mine add table t")
    with pytest.raises(PositionLostError, match=r"The publication mine was changed.*public\.t"):
        topics.run()

    assert topics.committed_offset is not None
    del topics.committed_offset["publication"]
    database.execute("insert into t values (2)")
    assert topics.run()
    assert topics.ids("public.t") == [2]


@pytest.mark.parametrize("running", [True, False])
def test_a_table_added_to_the_publication_is_captured(running: bool, topics: Topics, database: Database):
    database.execute("create table t(id int primary key); create table later(id int primary key)")
    database.execute("insert into later values (1)")
    database.execute("create publication mine for table t")
    topics.change(publication_name="mine", publication_autocreate_mode="disabled")
    topics.run()
    add = "alter publication mine add table later"
    if running:
        with topics.running():
            wait_for(topics.slot_in_use, what="the stream")
            database.execute("insert into t values (1)")
            wait_for(lambda: topics.ids("public.t"), what="the first change")
            database.execute(add)
            database.execute("insert into later values (2)")
            wait_for(lambda: topics.ids("public.later"), what="the change of the new table")
    else:
        database.execute(add)
        database.execute("insert into later values (2)")
        topics.run()
    assert topics.ids("public.later") == [2]

    topics.run()
    database.execute("alter publication mine drop table later")
    with pytest.raises(PositionLostError, match=r"public\.later"):
        topics.run()


@pytest.mark.parametrize("running", [True, False])
def test_tables_that_are_dropped_or_renamed_do_not_end_the_stream(running: bool, topics: Topics, database: Database):
    database.execute("create table t(id int primary key); create table gone(id int primary key)")
    database.execute("create table former(id int primary key)")
    topics.change(publication_name="mine", publication_autocreate_mode="filtered")
    topics.run()

    def tamper() -> None:
        database.execute("insert into gone values (1)")
        database.execute("drop table gone")
        database.execute("alter table former rename to latter")
        database.execute("insert into latter values (1)")
        database.execute("insert into t values (1)")

    if running:
        with topics.running():
            wait_for(topics.slot_in_use, what="the stream")
            tamper()
            wait_for(lambda: topics.ids("public.t"), what="the change")
    else:
        tamper()
    assert topics.run()

    assert topics.ids("public.gone") == topics.ids("public.latter") == topics.ids("public.t") == [1]
    # A new table has the old one's name. Its changes between creation and publication are missing in the stream.
    database.execute("drop table t; create table t(id int primary key); insert into t values (2)")
    with pytest.raises(PositionLostError, match=r"public\.t"):
        topics.run()


def test_a_locked_table_holds_up_the_stream_only_until_it_is_published(
    topics: Topics, database: Database, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("fencepost.connectors.postgres.changes.held_tables._LOCK_TIMEOUT", "200ms")
    database.execute("create table t(id int primary key); create table other(id int primary key)")
    topics.change(publication_name="mine", publication_autocreate_mode="filtered")
    topics.run()
    with database.connect(autocommit=False) as owner:
        owner.execute("lock table t in access exclusive mode")
        database.execute("insert into other values (1)")
        topics.run()
        assert topics.ids("public.other") == [1]

    database.execute("create table later(id int primary key)")
    with database.connect(autocommit=False) as owner:
        owner.execute("lock table later in access exclusive mode")
        with topics.running():
            wait_for(lambda: topics.failed("Another transaction has locked a table"), what="the lock is told")
            owner.commit()
            wait_for(topics.slot_in_use, what="the stream")
            database.execute("insert into later values (2)")
            wait_for(lambda: topics.ids("public.later"), what="the change of the new table")
    assert topics.fatal is None


def test_a_server_that_is_down_or_lacks_the_database_is_waited_for(
    topics: Topics, server: EmbeddedPostgres, caplog: pytest.LogCaptureFixture
):
    database = topics.database
    database.execute("create table t(id int primary key); insert into t values (1)")
    config = dict(topics.configs())
    server.kill()
    try:
        assert not errors(config)
        with topics.running():
            wait_for(lambda: topics.failed("Connection refused"), what="a failure of the task")
    finally:
        server.start()
    assert topics.fatal is None
    assert topics.run()
    assert topics.ids("public.t") == [1]

    # The server's message is logged; the property is accepted, because a database may be created later.
    assert not errors(config | {"database.dbname": "nosuch"})
    assert 'database "nosuch" does not exist' in caplog.text


def errors(config: dict[str, str]) -> dict[str, str]:
    connector = PostgresSourceConnector()
    connector.context = ValidationContext(config, ANYWHERE)
    return {value.name: "".join(value.errors) for value in connector.validate(config) if value.errors}
