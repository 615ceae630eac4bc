"""A run to the end of tables that are written to all the time: it ends, with all rows that were there at its start."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from fencepost.connectors.jdbc.connector import JdbcSourceConnector
from fencepost.testing import run_task
from tests.support.postgres import Database
from tests.support.postgres_task import Topics
from tests.support.processes import wait_for

_WRITERS = 2
_SECONDS = 120.0


@contextmanager
def steady_load(database: Database) -> Iterator[None]:
    """Insert rows into the table t, a transaction each, with no pause in between."""
    stopping = threading.Event()

    def write() -> None:
        with database.connect() as connection:
            while not stopping.is_set():
                connection.execute("insert into t default values")

    threads = [threading.Thread(target=write) for _ in range(_WRITERS)]
    for thread in threads:
        thread.start()
    try:
        wait_for(lambda: rows(database), what="the first rows")
        yield
    finally:
        stopping.set()
        for thread in threads:
            thread.join()


def rows(database: Database) -> set[int]:
    return {number for (number,) in database.execute("select id from t")}


@pytest.fixture(autouse=True)
def _table(database: Database) -> None:
    database.execute("create table t(id int primary key generated always as identity)")


@pytest.mark.parametrize("snapshot", [True, False])
def test_changes_are_read_to_the_end_under_a_steady_load(snapshot: bool, database: Database):
    topics = Topics(database)
    try:
        if not snapshot:
            topics.run()
        with steady_load(database):
            there = rows(database)
            assert topics.run()
            delivered = {key["id"] for key, _ in topics.events("public.t")}
            assert there <= delivered < rows(database)
    finally:
        topics.drop_slot()


@pytest.mark.parametrize(
    "mode", [{"mode": "snapshot"}, {"mode": "incrementing", "batch.max.rows": "500"}, {"mode": "bulk"}], ids=str
)
def test_tables_are_read_to_the_end_under_a_steady_load(mode: dict[str, str], database: Database):
    config = {"connection.url": database.jdbc_url, "connection.user": "postgres", "topic.prefix": "p-"}
    delivered: set[int] = set()
    database.execute("insert into t select from generate_series(1, 1000)")
    with steady_load(database):
        there = rows(database)
        with run_task(JdbcSourceConnector, config | {"poll.interval.ms": "1"} | mode) as task:
            deadline = time.monotonic() + _SECONDS
            while (polled := task.poll_once()) or not task.at_end():
                assert time.monotonic() < deadline
                delivered |= {record.value["id"] for record in polled.records}
                task.commit()
    assert there <= delivered
