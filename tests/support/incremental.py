"""Signals for incremental snapshots of PostgresSource, the resulting rows, and concurrent writers."""

from __future__ import annotations

import json
import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Self

import pytest

from fencepost.connectors.postgres.changes.snapshot import incremental_snapshots
from fencepost.connectors.postgres.changes.snapshot.chunk_reader import TableRun, read_chunk
from fencepost.connectors.postgres.changes.snapshot.chunks import Chunk
from tests.support.postgres import Database
from tests.support.postgres_task import Topics

_PLACEHOLDER = "__debezium_unavailable_value"


@contextmanager
def signalled_topics(database: Database) -> Iterator[Topics]:
    """The topics of a connector with a signal table and chunks of seven rows."""
    database.execute("create table signals(id text primary key, type text not null, data text)")
    topics = Topics(
        database,
        signal_data_collection="public.signals",
        table_exclude_list=r"public\.signals",
        incremental_snapshot_chunk_size="7",
    )
    yield topics
    topics.drop_slot()


def send(database: Database, name: str, kind: str = "execute-snapshot", **data: Any) -> None:
    data = {key.replace("_", "-"): value for key, value in data.items()}
    database.execute("insert into signals values (%s, %s, %s)", [name, kind, json.dumps(data)])


def read_rows(topics: Topics, table: str) -> list[Any]:
    """The rows from incremental snapshots, in order."""
    return [
        value["after"]
        for _, value in topics.events(table)
        if value is not None and value["source"]["snapshot"] == "incremental"
    ]


def left(topics: Topics, table: str) -> dict[Any, Any]:
    """The newest row of each key in the topic. Fails for a row that the table never had."""
    rows: dict[Any, Any] = {}
    for key, value in topics.events(table):
        if value is None or value["op"] == "d":
            rows.pop(key["id"], None)
            continue
        row = value["after"]
        if row["note"] == _PLACEHOLDER and key["id"] in rows:
            row["note"] = rows[key["id"]]["note"]
        rows[key["id"]] = row
    return rows


def after_chunk(monkeypatch: pytest.MonkeyPatch, actions: Mapping[tuple[str, int], Callable[[], object]]) -> None:
    """Call `action` after a chunk of a table, counted from 1, was read and before it is written."""
    done: Counter[str] = Counter()

    def read_and_act(database: Any, run: TableRun, *rest: Any) -> Chunk:
        chunk = read_chunk(database, run, *rest)
        done[run.table.name] += 1
        actions.get((run.table.name, done[run.table.name]), lambda: None)()
        return chunk

    monkeypatch.setattr(incremental_snapshots, "read_chunk", read_and_act)


def before_chunk(monkeypatch: pytest.MonkeyPatch, table: str, number: int, act: Callable[[], object]) -> None:
    """Call `action` before a chunk of a table, counted from 1, is read: the chunk's end is behind it in the stream."""
    counts = Counter[str]()

    def act_and_read(database: Any, run: TableRun, *rest: Any) -> Chunk:
        counts[run.table.name] += 1
        if (run.table.name, counts[run.table.name]) == (table, number):
            act()
        return read_chunk(database, run, *rest)

    monkeypatch.setattr(incremental_snapshots, "read_chunk", act_and_read)


def after_row(monkeypatch: pytest.MonkeyPatch, actions: Mapping[tuple[str, int], Callable[[], object]]) -> None:
    """Call `action` once, after the chunk with a row of this id was read and before it is written."""
    due = dict(actions)

    def read_and_act(database: Any, run: TableRun, *rest: Any) -> Chunk:
        chunk = read_chunk(database, run, *rest)
        for number in chunk.key[0].to_pylist():
            due.pop((run.table.name, int(number)), lambda: None)()
        return chunk

    monkeypatch.setattr(incremental_snapshots, "read_chunk", read_and_act)


class Writers:
    """Insert, update and delete rows with a large note, which updates do not change, until the block ends."""

    def __init__(self, database: Database, count: int, seed: int) -> None:
        self._database = database
        self._stopping = threading.Event()
        self._threads = [threading.Thread(target=self._work, args=(random.Random(seed + n),)) for n in range(count)]
        self.statements = 0

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stopping.set()
        for thread in self._threads:
            thread.join()

    def _work(self, chance: random.Random) -> None:
        statements = (
            "update large set n = n + 1 where id = %s",
            "insert into large values (%s, 0, 'new') on conflict do nothing",
            "delete from large where id = %s",
            "update large set n = -1 where id between %s and 40",
        )
        with self._database.connect() as connection:
            while not self._stopping.wait(chance.random() * 0.004):
                connection.execute(chance.choice(statements).encode(), [chance.randint(1, 120)])
                self.statements += 1
