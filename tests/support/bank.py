"""A bank whose sum of balances never changes, and the check that each Kafka transaction keeps that sum."""

from __future__ import annotations

import json
import random
from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator
from typing import Any

import psycopg

from fencepost.kafka.config.client_config import ClientConfig
from fencepost.kafka.consumer.transaction_markers import read_transaction_markers
from tests.support.checker import Record, read_topic
from tests.support.db_writers import Writers
from tests.support.postgres import Database
from tests.support.postgres_source import PostgresSource

ACCOUNTS = 60
OPENING_BALANCE = 1_000
SUM = ACCOUNTS * OPENING_BALANCE
TABLES = ("public.savings", "public.checking")


def open_bank(database: Database) -> None:
    """Create the accounts, half of them in each of two tables."""
    for number, table in enumerate(TABLES):
        database.execute(f"create table {table}(id int primary key, balance int not null, note text)")
        database.execute(
            f"insert into {table} select i, {OPENING_BALANCE}, 'opened' from generate_series(1, {ACCOUNTS}) i "  # noqa: S608
            f"where i % 2 = {number}"
        )


class Tellers(Writers):
    """Writers that move money concurrently, until the block ends.

    They also change ids of accounts, roll back, use savepoints, and change many rows at once.
    """

    def __init__(self, database: Database, count: int, seed: int, *, pause_s: float = 0.002) -> None:
        super().__init__(database, count, seed, pause_s=pause_s)

    @property
    def transfers(self) -> int:
        """The number of transfers so far, with rolled back ones."""
        return self.done

    def write(self, connection: psycopg.Connection[Any], chance: random.Random) -> None:
        """Move money from one account to another."""
        execute = connection.execute
        amount = chance.randint(1, 50)
        giver, taker = chance.sample(TABLES, 2) if chance.random() < 0.8 else (TABLES[0], TABLES[0])
        moved = execute(
            f"update {giver} set balance = balance - %s, note = %s where id = (select id from {giver} order by random() "  # noqa: S608
            "limit 1) returning 1".encode(),
            [amount, "x" * chance.choice([1, 10, 3000])],
        ).fetchall()
        if chance.random() < 0.2:
            execute(b"savepoint s")
            execute(f"delete from {taker}".encode())  # noqa: S608
            execute(b"rollback to s")
        paid = execute(
            f"update {taker} set balance = balance + %s where id = (select id from {taker} order by random() limit 1) "  # noqa: S608
            "returning 1".encode(),
            [amount],
        ).fetchall()
        if chance.random() < 0.1:
            execute(f"update {giver} set id = id + 1000 where id = (select min(id) from {giver})".encode())  # noqa: S608
        if chance.random() < 0.05:
            execute(f"update {taker} set note = 'all'".encode())  # noqa: S608
        if len(moved) != 1 or len(paid) != 1 or chance.random() < 0.1:
            connection.rollback()
        else:
            connection.commit()


def balances(database: Database) -> dict[str, dict[str, Any]]:
    """The rows of each table by key, in the form of events."""
    return {
        table: {
            json.dumps({"id": row["id"]}): row
            for (row,) in database.execute(f"select row_to_json(t) from {table} t")  # noqa: S608
        }
        for table in TABLES
    }


Event = tuple[str, str, Any]
"""Table, key as JSON, and value; None is a tombstone."""


def assert_transactions_are_whole(source: PostgresSource) -> dict[str, dict[str, Any]]:
    """Replay Kafka's transactions in order; return the final rows. Fails like `replayed`."""
    return replayed(_by_transaction(source))


def replayed(transactions: Iterable[tuple[Hashable, Iterable[Event]]]) -> dict[str, dict[str, Any]]:
    """Apply the events of named Kafka transactions in order; return the final rows.

    Fails if a transaction changes the sum of all balances, has only a part of a database transaction, or does not fit
    the rows before it. A row of an incremental snapshot must be equal to the current one.
    """
    whole: dict[int, Hashable] = {}
    rows: dict[str, dict[str, Any]] = {table: {} for table in TABLES}
    for name, events in transactions:
        for table, key, value in events:
            _apply(rows[table], key, value)
            xid = None if value is None else value["source"]["txId"]
            assert xid is None or whole.setdefault(xid, name) == name, f"transaction {xid} is torn apart"
        total = sum(row["balance"] for table in rows.values() for row in table.values())
        assert total == SUM, f"the sum is {total} after Kafka's transaction {name}"
    return rows


def _apply(rows: dict[str, Any], key: str, value: Any) -> None:
    if value is None:
        assert key not in rows, f"a tombstone for {key}, which is there"
    elif value["source"]["snapshot"] == "incremental":
        assert rows.get(key) == value["after"], f"{key} was read as it was not at this place"
    elif value["op"] == "d":
        assert rows.pop(key, None) is not None, f"{key} was deleted, but is not there"
    else:
        assert (key in rows) == (value["op"] == "u"), f"{key} does not fit {value['op']}"
        rows[key] = value["after"]


def records_by_transaction(bootstrap_servers: str, topic: str) -> Iterator[tuple[tuple[int, int], Record]]:
    """A topic's committed records, partition by partition in order, each with the id of its transaction.

    One transactional id has one producer id, whose epoch grows with each transaction, so the ids have the order of
    commits.
    """
    config = ClientConfig.from_properties({"bootstrap.servers": bootstrap_servers}, where="a test")
    markers = defaultdict(list)
    for marker in read_transaction_markers(config, topic):
        markers[marker.partition].append(marker)
    ends = {partition: iter(found) for partition, found in markers.items()}
    current = {partition: next(found) for partition, found in ends.items()}
    for record in read_topic(bootstrap_servers, topic):
        while current[record.partition].offset < record.offset:
            current[record.partition] = next(ends[record.partition])
        end = current[record.partition]
        assert end.committed
        yield end.transaction, record


def _by_transaction(source: PostgresSource) -> list[tuple[tuple[int, int], list[Event]]]:
    """The events of each committed transaction, in the order of commits, in the topics of all tables."""
    events: defaultdict[tuple[int, int], list[Event]] = defaultdict(list)
    for table in TABLES:
        for transaction, record in records_by_transaction(source.bootstrap_servers, f"{source.prefix}.{table}"):
            key = json.dumps(json.loads(record.key or b""))
            events[transaction].append((table, key, None if record.value is None else json.loads(record.value)))
    return sorted(events.items())
