"""Debezium's connector for PostgreSQL, unchanged, against a real server, killed again and again."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.checker import Record, assert_exactly_once, read_offsets, read_topic
from tests.support.java_plugins import DEBEZIUM_POSTGRES
from tests.support.java_runs import JavaRuns, kill_jvms
from tests.support.postgres import Database
from tests.support.processes import wait_for
from tests.support.topics import Topics, unique

BEFORE = 300
"""Rows that are there before the connector starts."""


class Changes:
    """A table that changes all the time: rows come, change, and go, each in a transaction of its own."""

    def __init__(self, database: Database) -> None:
        self._connection = database.connect()
        self._connection.execute("create table items (id bigint primary key, name text, price numeric(10,2))")
        self._connection.execute("alter table items replica identity full")
        self._connection.execute(
            "insert into items select n, 'item ' || n, n / 100.0 from generate_series(0, %s) n", [BEFORE - 1]
        )
        self.made: list[tuple[str, int, str | None]] = []
        """The operation, the row and its name afterwards, in the order of the commits."""

    def close(self) -> None:
        self._connection.close()

    @contextmanager
    def going_on(self) -> Iterator[None]:
        done = threading.Event()
        thread = threading.Thread(target=self._change, args=[done])
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()

    def _change(self, done: threading.Event) -> None:
        number = BEFORE
        while not done.wait(0.002):
            self._make("insert into items values (%s, %s, 1.5)", "c", number, f"item {number}")
            self._make("update items set name = %s where id = %s", "u", number, f"changed {number}")
            if number % 3 == 0:
                self._make("delete from items where id = %s", "d", number, None)
            number += 1

    def _make(self, statement: str, operation: str, number: int, name: str | None) -> None:
        values: list[Any] = [number] if name is None else [number, name]
        self._connection.execute(statement.encode(), values if operation != "u" else values[::-1])
        self.made.append((operation, number, name))


@pytest.fixture
def runs(database: Database, tmp_path: Path, topics: Topics, bootstrap_servers: str) -> Iterator[JavaRuns]:
    slot, prefix = unique("debezium").replace("-", "_"), unique("shop")
    topics.create(f"{prefix}.public.items")
    yield JavaRuns(
        tmp_path,
        bootstrap_servers,
        ["debezium"],
        {
            "name": "shop",
            "connector.class": DEBEZIUM_POSTGRES,
            "plugin.name": "pgoutput",
            "database.hostname": "127.0.0.1",
            "database.port": str(database.server.port),
            "database.user": "postgres",
            "database.password": "none",
            "database.dbname": database.name,
            "topic.prefix": prefix,
            "table.include.list": "public.items",
            "slot.name": slot,
            "publication.name": slot,
            "tombstones.on.delete": "false",
            "slot.retry.delay.ms": "200",
        },
    )
    database.drop_slot(slot)


def read(runs: JavaRuns, bootstrap_servers: str) -> list[Record]:
    return read_topic(bootstrap_servers, f"{runs.config['topic.prefix']}.public.items")


def change(event: Any) -> tuple[str, int, str | None]:
    row = event["after"] or event["before"]
    return event["op"], row["id"], event["after"] and event["after"]["name"]


def run_with_kills(runs: JavaRuns, changes: Changes, bootstrap_servers: str) -> None:
    """Take the snapshot, then kill the JVM twice and two workers, each while rows change."""

    def wait_for_more() -> None:
        seen = len(read(runs, bootstrap_servers))
        wait_for(lambda: len(read(runs, bootstrap_servers)) > seen, what="progress")

    with runs.running():
        wait_for(lambda: len(read(runs, bootstrap_servers)) == BEFORE, what="the snapshot")
    with changes.going_on():
        with runs.running() as worker:
            for _ in range(2):
                wait_for_more()
                kill_jvms(worker.pid)
            wait_for_more()
        for boundary in ("poll", "interval"):
            with runs.running(transaction_boundary=boundary, transaction_boundary_interval_ms="50") as worker:
                wait_for_more()
                worker.kill()


def test_debezium_delivers_a_snapshot_and_each_change_once_past_kills_of_worker_and_jvm(
    runs: JavaRuns, database: Database, bootstrap_servers: str
):
    with closing(Changes(database)) as changes:
        run_with_kills(runs, changes, bootstrap_servers)
    expected = [("r", number, f"item {number}") for number in range(BEFORE)] + changes.made
    with runs.running():
        wait_for(lambda: len(read(runs, bootstrap_servers)) >= len(expected), what="all changes")
    events = [json.loads(record.value or b"{}") for record in read(runs, bootstrap_servers)]
    assert_exactly_once(map(change, events), expected)
    assert [change(event) for event in events] == expected
    places = [event["source"]["lsn"] for event in events if event["op"] != "r"]
    assert len(set(places)) == len(places)
    ((partition, offset),) = read_offsets(bootstrap_servers, runs.offsets_topic, "shop")
    assert partition == {"server": runs.config["topic.prefix"]}
    assert offset is not None
    assert offset["lsn"] == places[-1]
