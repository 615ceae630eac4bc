"""Large reads: ranges of a table in one exported snapshot, which Spark's executors read."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from fencepost.api.errors import DataError, RetriableError
from fencepost.connectors.jdbc.postgres.reader import LargeRows
from tests.support.checker import assert_exactly_once
from tests.support.jdbc_readers import TableReading
from tests.support.postgres import Database
from tests.support.processes import wait_for

COLUMN = "create table t(id int, v text, xid xid8 not null default pg_current_xact_id()); create index on t(xid)"
XMIN = "create table t(id int, v text)"
ROWS = 5000


@pytest.fixture(autouse=True)
def _small_is_less(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lower the size of a large table, so that tests need few rows."""
    monkeypatch.setattr("fencepost.connectors.jdbc.postgres.reader.SMALL_BYTES", 100_000)
    monkeypatch.setattr("fencepost.connectors.jdbc.postgres.bulk_reader.SMALL_BYTES", 100_000)
    monkeypatch.setattr("fencepost.connectors.jdbc.postgres.snapshot_reader.MOST_BYTES", 100_000)
    monkeypatch.setattr("fencepost.connectors.jdbc.postgres.ranges._RANGE_BYTES", 100_000)
    monkeypatch.setattr("fencepost.connectors.jdbc.postgres.ranges._BLOCK_BYTES", 10_000)


def insert(database: Database, first: int, last: int) -> None:
    database.execute(
        "insert into t(id, v) select i, repeat('x', 100) from generate_series(%s::int, %s::int) i", (first, last)
    )


def ids(rows: list[dict[str, Any]]) -> list[int]:
    return [row["id"] for row in rows]


def large(reading: TableReading) -> LargeRows:
    found = reading.polls[-1]
    assert isinstance(found, LargeRows)
    return found


@pytest.mark.parametrize("table", [COLUMN, XMIN], ids=["column", "xmin"])
def test_a_table_and_then_a_large_transaction_are_read_in_ranges(database: Database, table: str) -> None:
    database.execute(table)
    insert(database, 1, ROWS)
    with TableReading(database) as reading, database.connect(autocommit=False) as slow:
        slow.execute("insert into t(id) values (0)")
        assert_exactly_once(ids(reading.poll()), range(1, ROWS + 1))
        assert len(large(reading).selects) > 3
        insert(database, ROWS + 1, 2 * ROWS)
        slow.commit()
        reading.restart()
        assert_exactly_once(ids(reading.poll()), [0, *range(ROWS + 1, 2 * ROWS + 1)])
        large(reading)
        insert(database, -1, -1)
        assert ids(reading.rest()) == [-1]


@pytest.mark.parametrize("table", [COLUMN, XMIN], ids=["column", "xmin"])
def test_changes_during_a_large_read_come_with_the_next_poll(database: Database, table: str) -> None:
    database.execute(table)
    insert(database, 1, ROWS)
    with TableReading(database) as reading:
        found = reading.reader.read(reading.server)
        assert isinstance(found, LargeRows)
        database.execute("delete from t where id <= 10")
        insert(database, ROWS + 1, ROWS + 1)
        with database.connect() as other:
            other.execute("set lock_timeout = '50ms'")
            with pytest.raises(psycopg.errors.LockNotAvailable):
                other.execute("alter table t drop column v")

        rows = [
            row for select in found.selects for part in found.reader.read(select) for row in part["value"].to_pylist()
        ]

        assert_exactly_once(ids(rows), range(1, ROWS + 1))
        found.export.close()
        assert ids(reading.rest()) == [ROWS + 1]


def test_ddl_that_waits_for_a_large_read_does_not_block_it(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fencepost.connectors.jdbc.postgres.ranges._LOCK_TIMEOUT", "200ms")
    database.execute(XMIN)
    insert(database, 1, ROWS)
    with TableReading(database) as reading, database.connect() as other:
        found = reading.reader.read(reading.server)
        assert isinstance(found, LargeRows)
        other.execute("set lock_timeout = '20s'")
        other.pgconn.send_query(b"alter table t drop column v")
        waits = "select pid from pg_stat_activity where pid = %s and wait_event_type = 'Lock'"
        wait_for(lambda: database.execute(waits, [other.info.backend_pid]), what="the command waits for the table")

        with pytest.raises(RetriableError, match="lock timeout"):
            list(found.reader.read(found.selects[0]))
        found.export.close()
        # The DDL statement now holds its lock on the table, and ends.
        while other.pgconn.get_result() is not None:
            pass
        reading.restart()
        assert_exactly_once(ids(reading.poll()), range(1, ROWS + 1))


@pytest.mark.parametrize("suffix", ["limit 7", "where id <= 7", "where id <= 7 -- the first"])
def test_query_suffix_applies_to_a_large_table_as_a_whole(database: Database, suffix: str) -> None:
    database.execute("create table t(id int, v text)")
    database.execute("insert into t select n, repeat('x', 100) from generate_series(1, 20000) n")
    with TableReading(database, {"mode": "bulk", "query.suffix": suffix}) as reading:
        assert len(reading.poll()) == 7
        assert isinstance(reading.polls[0], LargeRows)


def test_bulk_mode_reads_partitions_in_ranges(database: Database) -> None:
    database.execute("create table t(id int, v text) partition by range (id)")
    database.execute(f"create table t1 partition of t for values from (minvalue) to ({ROWS // 5})")
    database.execute(f"create table t2 partition of t for values from ({ROWS // 5}) to (maxvalue)")
    insert(database, 1, ROWS)
    with TableReading(database, {"mode": "bulk"}) as reading:
        assert_exactly_once(ids(reading.poll()), range(1, ROWS + 1))
        assert len(large(reading).selects) > 3


def test_a_large_query_is_read_in_one_part(database: Database) -> None:
    database.execute(XMIN)
    insert(database, 1, ROWS)
    query = "select * from t where id > 10 -- not all"
    with TableReading(database, {"mode": "bulk", "query": query}, table=None) as reading:
        assert_exactly_once(ids(reading.poll()), range(11, ROWS + 1))
        assert len(large(reading).selects) == 1


def test_a_value_that_cannot_be_represented_is_named_by_the_range(database: Database) -> None:
    database.execute("create table t(id int, v text, n numeric(3,1))")
    insert(database, 1, ROWS)
    database.execute("update t set n = 'NaN' where id = 3000")
    with TableReading(database) as reading, pytest.raises(DataError, match=r'The column "n" \(numeric\(3,1\)\)'):
        reading.poll()
