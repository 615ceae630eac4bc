"""Debezium's unmodified connectors on real databases, killed again and again."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from fencepost.embedded.mariadb import AS_MYSQL, EmbeddedMariaDb
from fencepost.failpoint import FOLDER, FailPoint, of_task
from tests.support.checker import Record, assert_exactly_once, read_offsets, read_topic
from tests.support.java_plugins import DEBEZIUM_MARIADB, DEBEZIUM_MYSQL, DEBEZIUM_POSTGRES
from tests.support.java_runs import JavaRuns, kill_jvms
from tests.support.processes import wait_for
from tests.support.row_changes import Change, RowChanges
from tests.support.topics import Topics, unique

ROWS = 300
"""Rows that exist before the connector starts."""


@dataclass(frozen=True)
class Source:
    """A database, and the configuration of its connector."""

    plugin: str
    config: dict[str, str]
    table: str
    execute: Callable[[str], object]
    together: bool = True
    """Whether the test also uses transactions that change several rows."""

    @property
    def topic(self) -> str:
        return f"{self.config['topic.prefix']}.{self.table}"


@pytest.fixture
def postgres_source(request: pytest.FixtureRequest) -> Iterator[Source]:
    database, slot = request.getfixturevalue("database"), unique("debezium").replace("-", "_")
    config = {
        "connector.class": DEBEZIUM_POSTGRES,
        "plugin.name": "pgoutput",
        "database.port": str(database.server.port),
        "database.user": "postgres",
        "database.dbname": database.name,
        "slot.name": slot,
        "publication.name": slot,
        "slot.retry.delay.ms": "200",
    }
    with closing(database.connect()) as connection:
        yield Source("debezium-postgres", config, "public.items", lambda sql: connection.execute(sql.encode()))
    database.drop_slot(slot)


@pytest.fixture
def mariadb_source(bootstrap_servers: str, tmp_path: Path) -> Iterator[Source]:
    with EmbeddedMariaDb(tmp_path / "mariadb") as server, binary_log_of(server, bootstrap_servers) as (config, execute):
        config["connector.class"] = DEBEZIUM_MARIADB
        yield Source("debezium-mariadb", config, "shop.items", execute)


@pytest.fixture
def mysql_source(bootstrap_servers: str, tmp_path: Path) -> Iterator[Source]:
    with (
        EmbeddedMariaDb(tmp_path / "mariadb", shown_version=AS_MYSQL) as server,
        binary_log_of(server, bootstrap_servers) as (config, execute),
    ):
        config["connector.class"] = DEBEZIUM_MYSQL
        # The connector for MySQL repeats changes of MariaDB's transactions of several statements after a start.
        yield Source("debezium-mysql", config, "shop.items", execute, together=False)


@contextmanager
def binary_log_of(
    server: EmbeddedMariaDb, bootstrap_servers: str
) -> Iterator[tuple[dict[str, str], Callable[[str], object]]]:
    """A database `shop`: the configuration of a connector for its binary log, and a function that runs statements."""
    config = {
        "database.port": str(server.port),
        "database.user": "root",
        "database.server.id": "4711",
        "database.include.list": "shop",
        "schema.history.internal.kafka.bootstrap.servers": bootstrap_servers,
        "schema.history.internal.kafka.topic": unique("history"),
    }
    server.execute("create database shop")
    with server.session() as session:
        session.execute("use shop")
        yield config, session.execute


@pytest.fixture(params=["postgres", "mariadb", "mysql"])
def source(request: pytest.FixtureRequest, topics: Topics) -> Source:
    source: Source = request.getfixturevalue(f"{request.param}_source")
    source.config.update(
        {
            "name": "shop",
            "database.hostname": "127.0.0.1",
            "database.password": "none",
            "topic.prefix": unique("shop"),
            "table.include.list": source.table,
            "tombstones.on.delete": "false",
        }
    )
    topics.create(source.topic)
    return source


@pytest.fixture
def runs(tmp_path: Path, bootstrap_servers: str, source: Source) -> JavaRuns:
    return JavaRuns(tmp_path, bootstrap_servers, [source.plugin], source.config)


@pytest.mark.parametrize("source", ["postgres", "mariadb"], indirect=True)
def test_a_snapshot_is_one_transaction_if_asked(source: Source, runs: JavaRuns, bootstrap_servers: str, tmp_path: Path):
    def sent() -> int:
        """How many records are in the topic, committed or not, if none of them is committed."""
        assert not read_topic(bootstrap_servers, source.topic)
        return len(read_topic(bootstrap_servers, source.topic, isolation="read_uncommitted"))

    changes = RowChanges(source.execute, 2_000)
    runs.config |= {"transaction.boundary": "snapshot", "max.batch.size": "256", "max.queue.size": "512"}
    with runs.running(of_task(FailPoint.MID_SEND, 4)) as worker:
        assert worker.wait() == -signal.SIGKILL, worker.output
    before = sent()
    assert before
    with runs.running({FOLDER: str(tmp_path)}) as worker:
        held = hold_within_transaction(tmp_path, sends=4)
        assert sent() > before
        kill_jvms(worker.pid)
        held.unlink()
        worker.wait_for_output("The JVM of connector shop has ended: it was killed (SIGKILL)")
        wait_for(lambda: len(read_topic(bootstrap_servers, source.topic)) >= len(changes.expected), what="the snapshot")
        source.execute("insert into items values (7000, 'after', 1.5)")
        wait_for(lambda: len(read_topic(bootstrap_servers, source.topic)) > len(changes.expected), what="a change")
    events = [json.loads(record.value or b"{}") for record in read_topic(bootstrap_servers, source.topic)]
    assert_exactly_once(map(change, events), [*changes.expected, ("c", 7_000, "after")])


def hold_within_transaction(orders: Path, *, sends: int) -> Path:
    """Let the task stop in its transaction after some sends; it goes on when the returned file is removed.

    The worker has just started. Its own transaction has sends as well, but no such begin.
    """
    steps = [FailPoint.AFTER_BEGIN, *[FailPoint.MID_SEND] * sends]
    held = None
    for step in steps:
        (orders / f"{step.value} None").touch()
        if held is not None:
            held.unlink()
        held = orders / f"held {step.value} None"
        wait_for(held.exists, what=f"the task is at {step}")
    assert held is not None
    return held


def change(event: Any) -> Change:
    row = event["after"] or event["before"]
    return event["op"], row["id"], event["after"] and event["after"]["name"]


def test_a_snapshot_and_each_change_arrive_once_past_kills_of_worker_and_jvm(
    source: Source, runs: JavaRuns, bootstrap_servers: str
):
    def read() -> list[Record]:
        return read_topic(bootstrap_servers, source.topic)

    def wait_for_more() -> None:
        seen = len(read())
        wait_for(lambda: len(read()) > seen, what="progress")

    changes = RowChanges(source.execute, ROWS, together=source.together)
    with runs.running() as worker:
        wait_for(lambda: len(read()) == ROWS, what="the snapshot")
        with changes.going_on():
            wait_for_more()
            kill_jvms(worker.pid)
            wait_for_more()
            worker.kill()
    with (
        changes.going_on(),
        runs.running(transaction_boundary="interval", transaction_boundary_interval_ms="50") as worker,
    ):
        wait_for_more()
        worker.kill()
    with runs.running():
        wait_for(lambda: len(read()) >= len(changes.expected), what="all changes")
    events = [json.loads(record.value or b"{}") for record in read()]
    assert_exactly_once(map(change, events), changes.expected)
    assert [change(event) for event in events] == changes.expected
    ((partition, offset),) = read_offsets(bootstrap_servers, runs.offsets_topic, "shop")
    assert partition == {"server": source.config["topic.prefix"]}
    assert offset is not None


@pytest.mark.parametrize("source", ["mariadb"], indirect=True)
def test_a_repeated_entry_of_the_schema_history_changes_nothing(source: Source, runs: JavaRuns, bootstrap_servers: str):
    """The connector writes the entry by itself, before the transaction whose offset is after the statement."""

    def events() -> list[Any]:
        return [json.loads(record.value or b"{}") for record in read_topic(bootstrap_servers, source.topic)]

    def alterations() -> int:
        history = read_topic(bootstrap_servers, source.config["schema.history.internal.kafka.topic"])
        return sum("alter table" in json.loads(entry.value or b"{}").get("ddl", "").lower() for entry in history)

    def change_rows(number: int) -> None:
        source.execute(f"insert into items values ({number}, 'item {number}', 1.5, 'red')")  # noqa: S608 - a number
        source.execute(f"update items set name = 'new {number}' where id = {number - ROWS}")  # noqa: S608 - a number
        changes.made += [("c", number, f"item {number}"), ("u", number - ROWS, f"new {number}")]

    changes = RowChanges(source.execute, ROWS)
    with runs.running() as worker:
        wait_for(lambda: len(events()) == ROWS, what="the snapshot")
        worker.kill()
    source.execute("alter table items add column color varchar(10) default 'none'")
    change_rows(ROWS)
    with runs.running(of_task(FailPoint.BEFORE_END_TXN)) as worker:
        assert worker.wait() == -signal.SIGKILL, worker.output
    assert (len(events()), alterations()) == (ROWS, 1)
    with runs.running() as worker:
        wait_for(lambda: len(events()) >= ROWS + 2, what="the rows of the changed table")
        assert alterations() == 2
        # The next JVM reads both entries.
        kill_jvms(worker.pid)
        change_rows(ROWS + 1)
        wait_for(lambda: len(events()) >= ROWS + 4, what="the rows after the kill")
    assert [change(event) for event in events()] == changes.expected
    assert [event["after"]["color"] for event in events()[ROWS:]] == ["red", "none", "red", "none"]
    assert alterations() == 2
