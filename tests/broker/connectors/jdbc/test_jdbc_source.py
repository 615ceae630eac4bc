"""JdbcSource on a worker: Kafka has each row of the tables once, also after restarts and failures."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, cast

import psycopg
import pytest

from fencepost.api.allowed_paths import ANYWHERE
from fencepost.api.context import SourceConnectorContext
from fencepost.api.errors import ConfigError
from fencepost.connectors.jdbc.connector import JdbcSourceConnector
from tests.support.checker import assert_exactly_once
from tests.support.jdbc import JdbcRun
from tests.support.postgres import Database
from tests.support.processes import wait_for
from tests.support.task_runner import TaskRunner

TABLE = """create table t(id bigint generated always as identity primary key, v int,
                          xid xid8 not null default pg_current_xact_id());
           create index on t(xid)"""


@pytest.fixture(scope="module")
def runner(broker: Any) -> Iterator[TaskRunner]:
    with TaskRunner(broker.bootstrap_servers, {"spark.master": "local[2]"}) as runner:
        yield runner


@pytest.fixture
def connector(runner: TaskRunner, bootstrap_servers: str, database: Database) -> Iterator[Callable[..., JdbcRun]]:
    runs: list[JdbcRun] = []

    def make(**config: Any) -> JdbcRun:
        runs.append(JdbcRun.on(runner, bootstrap_servers, database, **config))
        return runs[-1]

    yield make
    for run in runs:
        run.__exit__(None, None, None)


def insert(database: Database, seed: int, transactions: int) -> None:
    chance = random.Random(seed)
    with database.connect(autocommit=False) as connection:
        for _ in range(transactions):
            connection.execute("insert into t(v) select 1 from generate_series(1, %s)", (chance.randrange(1, 20),))
            connection.execute("select pg_sleep(%s)", (chance.random() * 0.02,))
            connection.commit()


def test_each_committed_row_is_in_kafka_once_over_restarts(
    connector: Callable[..., JdbcRun], database: Database
) -> None:
    database.execute(TABLE)
    writers = [threading.Thread(target=insert, args=(database, seed, 60)) for seed in range(6)]
    run = connector(exactly_once_support="required", batch_max_rows=200)
    run.start()
    for writer in writers:
        writer.start()
    wait_for(lambda: len(run.values("t")) > 100, what="a part of the rows")
    run.stop()
    run.start()
    for writer in writers:
        writer.join()

    expected = [row[0] for row in database.execute("select id from t")]
    found = run.wait_for_values("t", len(expected))
    run.stop()
    assert_exactly_once([value["id"] for value in found], expected)
    ((partition, offset),) = run.offsets()
    assert partition == {"protocol": "1", "table": "public.t"}
    assert offset is not None
    assert offset["transaction_column"] == "xid"


def test_a_lost_connection_is_opened_again(connector: Callable[..., JdbcRun], database: Database) -> None:
    database.execute(TABLE)
    database.execute("insert into t(v) values (1)")
    run = connector()
    run.start()
    run.wait_for_values("t", 1)

    with psycopg.connect(database.server.conninfo(), autocommit=True) as other:
        other.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity where datname = %s and pid <> pg_backend_pid()",
            (database.name,),
        )
    database.execute("insert into t(v) values (2)")

    assert [value["v"] for value in run.wait_for_values("t", 2)] == [1, 2]
    run.stop()


def test_a_task_of_many_tables_fails_with_the_name_of_the_one_that_was_dropped(
    connector: Callable[..., JdbcRun], database: Database
) -> None:
    for name in ("a", "b", "c"):
        database.execute(f"create table {name}(id int); insert into {name} values (1)")  # noqa: S608
    run = connector(table_blacklist="c")
    run.start()
    assert run.wait_for_values("a", 1) == [{"id": 1}]
    assert run.wait_for_values("b", 1) == [{"id": 1}]
    assert run.values("c") == []

    database.execute("drop table b")

    assert 'relation "public.b" does not exist' in run.wait_until_failed()


def test_incrementing_is_exactly_once_only_with_a_single_writer(
    connector: Callable[..., JdbcRun], database: Database
) -> None:
    database.execute("create table t(id int generated always as identity primary key)")
    database.execute("insert into t select from generate_series(1, 3)")
    run = connector(mode="incrementing", exactly_once_support="required")
    with pytest.raises(ConfigError, match="cannot deliver exactly once with this configuration"):
        run.start()

    run.start(single_writer="true")

    assert [value["id"] for value in run.wait_for_values("t", 3)] == [1, 2, 3]
    run.stop()
    assert run.offsets() == [({"protocol": "1", "table": "public.t"}, {"incrementing": 3})]


def test_names_that_no_topic_can_have_become_others(connector: Callable[..., JdbcRun], database: Database) -> None:
    database.execute('create table "order lines"(id int); insert into "order lines" values (1)')
    run = connector()
    run.start()
    assert run.wait_for_values("order_lines", 1) == [{"id": 1}]
    run.stop()


def test_tables_that_would_share_a_topic_are_refused_by_name(database: Database) -> None:
    database.execute('create table "order lines"(id int); create schema old; create table old.order_lines(id int)')

    def tasks(**config: str) -> int:
        connector = JdbcSourceConnector()
        connector.context = cast("SourceConnectorContext", SimpleNamespace(allowed_paths=ANYWHERE))
        needed = {"connection.url": database.jdbc_url, "connection.user": "postgres", "topic.prefix": "p-"}
        connector.start(needed | {key.replace("_", "."): value for key, value in config.items()})
        return len(connector.task_configs(9))

    refused = r"'old\.order_lines' and 'public\.order lines' would .* p-order_lines\. .*topic\.prefix"
    with pytest.raises(ConfigError, match=refused) as error:
        tasks()
    assert error.value.name == "table.blacklist"
    assert tasks(table_blacklist="old.order_lines") == 1
    # With `topic.column`, each row names its topic, so there may be two tables.
    assert tasks(topic_column="topic") == 2


def test_a_large_table_is_read_by_spark_and_then_polled(connector: Callable[..., JdbcRun], database: Database) -> None:
    rows = 40_000
    database.execute("create table t(id int, v text, n numeric(12,2))")
    database.execute("insert into t select i, repeat('x', 250), i / 100.0 from generate_series(1, %s::int) i", (rows,))
    run = connector()
    run.start()
    found = run.wait_for_values("t", rows)
    assert_exactly_once([value["id"] for value in found], range(1, rows + 1))
    database.execute("insert into t values (0, 'polled', null)")
    assert 0 in {value["id"] for value in run.wait_for_values("t", rows + 1)}
    run.stop()

    # The connection that held the snapshot and locked the table's columns is closed.
    database.execute("drop table t")
