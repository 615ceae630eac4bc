"""mode=snapshot: no row is lost or doubled, in whatever order transactions commit."""

from __future__ import annotations

import random
import threading
from contextlib import ExitStack
from typing import Any

import pytest

from fencepost.api.errors import DataError
from tests.support.checker import assert_exactly_once
from tests.support.jdbc_readers import TableReading
from tests.support.postgres import Database

COLUMN = """create table t(id bigint generated always as identity primary key, v int,
                           xid xid8 not null default pg_current_xact_id());
            create index on t(xid)"""
XMIN = "create table t(id bigint generated always as identity primary key, v int)"


def ids(rows: list[dict[str, Any]]) -> list[int]:
    return [row["id"] for row in rows]


def numbers(rows: list[dict[str, Any]]) -> list[int]:
    return [row["v"] for row in rows]


def write(database: Database, seed: int, transactions: int) -> None:
    """Run transactions that do not end in the order of their ids: some are slow, roll back, or use savepoints."""
    chance = random.Random(seed)
    with database.connect(autocommit=False) as connection:
        for _ in range(transactions):
            for _ in range(chance.randrange(1, 4)):
                if savepoint := chance.random() < 0.3:
                    connection.execute("savepoint a")
                rows = 1 if chance.random() < 0.9 else chance.randrange(2, 1000)
                connection.execute("insert into t(v) select %s from generate_series(1, %s)", (seed, rows))
                if savepoint:
                    connection.execute("rollback to a" if chance.random() < 0.3 else "release a")
                connection.execute(
                    "select pg_sleep(%s)", (chance.random() * (0.3 if chance.random() < 0.02 else 0.01),)
                )
            if chance.random() < 0.1:
                connection.rollback()
            else:
                connection.commit()


@pytest.mark.parametrize("table", [COLUMN, XMIN], ids=["column", "xmin"])
def test_six_writers_lose_and_double_nothing_over_many_starts(database: Database, table: str) -> None:
    database.execute(table)
    found: list[int] = []
    chance = random.Random(1)
    writers = [threading.Thread(target=write, args=(database, seed, 80)) for seed in range(6)]
    with TableReading(database, {"batch.max.rows": 300}) as reading:
        for writer in writers:
            writer.start()
        while any(writer.is_alive() for writer in writers):
            found += ids(reading.poll())
            if chance.random() < 0.1:
                reading.restart()
        found += ids(reading.rest())

    expected = [row[0] for row in database.execute("select id from t")]
    assert len(expected) > 1000
    assert_exactly_once(found, expected)


def test_a_transaction_that_ends_while_its_parts_are_looked_up_comes_whole(database: Database) -> None:
    database.execute(XMIN)
    # Each row is written in its own subtransaction.
    parts = (
        "do $$ begin for i in 1..3000 loop begin insert into t(v) values (%s); exception when division_by_zero then end; "
        "end loop; end $$"
    )
    transactions = 40

    def write_parts() -> None:
        for number in range(transactions):
            database.execute(parts % number)

    def end_others() -> None:
        # Subtransactions are looked up only if other transactions end meanwhile.
        with database.connect() as connection:
            while writer.is_alive():
                connection.execute("select pg_current_xact_id()")

    polls: list[list[int]] = []
    writer, other = threading.Thread(target=write_parts), threading.Thread(target=end_others)
    with TableReading(database, {"batch.max.rows": 10_000_000}) as reading:
        writer.start()
        other.start()
        while writer.is_alive():
            polls.append(numbers(reading.poll()))
        polls.append(numbers(reading.rest()))

    seen = [number for poll in polls for number in set(poll)]
    assert sorted(seen) == list(range(transactions))
    assert sum(map(len, polls)) == transactions * 3000


@pytest.mark.parametrize("table", [COLUMN, XMIN], ids=["column", "xmin"])
def test_a_long_transaction_delays_only_itself(database: Database, table: str) -> None:
    database.execute(table)
    with TableReading(database) as reading, database.connect(autocommit=False) as slow:
        slow.execute("insert into t(v) values (1)")
        slow.execute("savepoint a")
        slow.execute("insert into t(v) values (2)")
        # The subtransaction has ended, so no list of running transactions has it.
        slow.execute("release a")
        database.execute("insert into t(v) values (3)")
        assert numbers(reading.poll()) == [3]
        database.execute("insert into t(v) values (4)")
        assert numbers(reading.poll()) == [4]
        reading.restart()
        slow.commit()

        assert numbers(reading.rest()) == [1, 2]


def test_a_transaction_is_not_split_but_a_poll_is(database: Database) -> None:
    database.execute(COLUMN)
    with TableReading(database, {"batch.max.rows": 5}) as reading:
        assert reading.poll() == []
        database.execute("insert into t(v) values (1)")
        database.execute("insert into t(v) select 2 from generate_series(1, 7)")
        database.execute("insert into t(v) values (3)")

        assert numbers(reading.poll()) == [1] + [2] * 7
        reading.restart()
        assert numbers(reading.poll()) == [3]
        assert reading.poll() == []


def test_more_running_subtransactions_than_an_offset_lists_only_delay_rows(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fencepost.connectors.jdbc.postgres.snapshot_reader._MOST_RUNNING", 3)
    database.execute(XMIN)
    with TableReading(database) as reading, ExitStack() as stack:
        reading.poll()
        slow = [stack.enter_context(database.connect(autocommit=False)) for _ in range(5)]
        for number, connection in enumerate(slow):
            connection.execute("insert into t(v) values (%s)", (number,))
            connection.execute("savepoint a")
            connection.execute("insert into t(v) values (%s)", (number,))
        database.execute("insert into t(v) values (9)")
        assert reading.poll() == []
        for connection in slow[:3]:
            connection.commit()
        reading.restart()
        early = numbers(reading.rest())
        for connection in slow[3:]:
            connection.commit()

        assert_exactly_once(early + numbers(reading.rest()), [0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 9])


def test_an_xid8_column_added_later_replaces_xmin(database: Database) -> None:
    database.execute(XMIN)
    database.execute("insert into t(v) values (1)")
    with TableReading(database) as reading:
        assert numbers(reading.poll()) == [1]
        database.execute("insert into t(v) values (2)")
        database.execute("alter table t add column xid xid8")
        database.execute("alter table t alter column xid set default pg_current_xact_id()")
        database.execute("insert into t(v) values (3)")
        reading.restart()
        assert numbers(reading.poll()) == [2, 3]
        database.execute("insert into t(v) values (4)")
        assert numbers(reading.rest()) == [4]
        assert reading.offset is not None
        assert reading.offset["transaction_column"] == "xid"

        # A first read also has the rows that were written before the column was added.
        with TableReading(database) as another:
            assert sorted(numbers(another.poll())) == [1, 2, 3, 4]

        database.execute("alter table t drop column xid")
        with pytest.raises(DataError, match="its column xid, which no longer has the type xid8"):
            reading.poll()


def test_a_column_with_transactions_of_another_server_is_refused(database: Database) -> None:
    database.execute(COLUMN)
    database.execute("insert into t(v, xid) values (1, '99999999999')")
    with TableReading(database) as reading:
        with pytest.raises(DataError, match="its rows were written on another server, and restored"):
            reading.poll()
        database.execute("alter table t alter column xid drop not null")
        database.execute("update t set xid = null")
        reading.restart()
        assert numbers(reading.rest()) == [1]


def test_updates_arrive_by_xmin_and_by_a_column_with_a_trigger(database: Database) -> None:
    database.execute(XMIN)
    database.execute("create table u(id int primary key, v int, xid xid8 not null default pg_current_xact_id())")
    database.execute(
        "create function stamp() returns trigger language plpgsql as "
        "'begin new.xid := pg_current_xact_id(); return new; end'"
    )
    database.execute("create trigger stamp before update on u for each row execute function stamp()")
    for table in "tu":
        database.execute(f"insert into {table}(id, v) overriding system value values (1, 1)")  # noqa: S608
        with TableReading(database, table=table) as reading:
            assert numbers(reading.poll()) == [1]
            database.execute(f"update {table} set v = 2")  # noqa: S608
            assert numbers(reading.poll()) == [2]


def test_a_partitioned_table_is_read_as_one(database: Database) -> None:
    database.execute("create table t(id int, v int) partition by list (v)")
    database.execute("create table t1 partition of t for values in (1)")
    database.execute("create table t2 partition of t for values in (2)")
    database.execute("insert into t values (1, 1), (2, 2)")
    with TableReading(database) as reading:
        assert ids(reading.poll()) == [1, 2]
        database.execute("update t set v = 2 where id = 1")
        assert reading.poll() == [{"id": 1, "v": 2}]


def test_xmin_is_refused_once_it_cannot_distinguish_old_from_new_rows(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fencepost.connectors.jdbc.postgres.snapshot_reader.XMIN_LIMIT", 10)
    database.execute(XMIN)
    with TableReading(database) as reading, pytest.raises(DataError, match="Give the table a column of type xid8"):
        reading.poll()
