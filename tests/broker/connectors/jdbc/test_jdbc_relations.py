"""mode=snapshot: rows that were written before their table was attached to the one that is read."""

from __future__ import annotations

import logging

import pytest

from fencepost.api.errors import DataError
from fencepost.connectors.jdbc.offsets import SnapshotOffset
from tests.support.jdbc_readers import TableReading
from tests.support.postgres import Database

STAMP = ", xid xid8 default pg_current_xact_id()"


def values(reading: TableReading) -> list[int]:
    return sorted(row["v"] for row in reading.rest())


def part(database: Database, name: str, low: int, stamp: str) -> None:
    database.execute(f"create table {name}(v int{stamp})")
    database.execute(f"insert into {name}(v) values (%s), (%s)", [low, low + 1])  # noqa: S608 - the test's own


@pytest.mark.parametrize("stamp", [STAMP, ""], ids=["column", "xmin"])
def test_a_partition_that_is_attached_is_read_with_its_earlier_rows(database: Database, stamp: str) -> None:
    database.execute(f"create table t(v int{stamp}) partition by range (v)")
    database.execute("create table p0 partition of t for values from (0) to (10)")
    part(database, "p1", 10, stamp)
    database.execute("insert into t(v) values (1)")
    with TableReading(database, {"batch.max.rows": 1}) as reading:
        assert values(reading) == [1]
        database.execute("alter table t attach partition p1 for values from (10) to (20)")
        database.execute("insert into t(v) values (2)")
        reading.restart()

        assert values(reading) == [2, 10, 11]
        database.execute("insert into t(v) values (3), (12)")
        reading.restart()
        assert values(reading) == [3, 12]


@pytest.mark.parametrize("stamp", [STAMP, ""], ids=["column", "xmin"])
def test_a_new_partition_is_read_by_polls_as_small_as_others(database: Database, stamp: str) -> None:
    database.execute(f"create table t(v int{stamp}) partition by range (v)")
    with TableReading(database, {"batch.max.rows": 1}) as reading:
        assert values(reading) == []
        database.execute("create table p0 partition of t for values from (0) to (10)")
        for number in (1, 2, 3):
            database.execute("insert into t(v) values (%s)", [number])

        assert [row["v"] for row in reading.poll()] == [1]
        reading.restart()
        assert values(reading) == [2, 3]


@pytest.mark.parametrize("most", [10, 64 << 20], ids=["large", "small"])
def test_a_child_that_inherits_later_is_read_whole(
    database: Database, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr("fencepost.connectors.jdbc.postgres.snapshot_reader.MOST_BYTES", most)
    database.execute("create table t(v int)")
    part(database, "child", 10, "")
    database.execute("insert into t(v) values (1)")
    with TableReading(database) as reading:
        assert values(reading) == [1]
        database.execute("alter table child inherit t")

        assert values(reading) == [10, 11]


def test_another_table_under_the_name_is_read_from_the_start(
    database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    database.execute("create table t(v int)")
    part(database, "prepared", 10, "")
    database.execute("insert into t(v) values (1)")
    with TableReading(database) as reading, caplog.at_level(logging.INFO):
        assert values(reading) == [1]
        with database.connect(autocommit=False) as swap:
            swap.execute("alter table t rename to former")
            swap.execute("alter table prepared rename to t")
        reading.restart()

        assert values(reading) == [10, 11]
        assert "public.t" in caplog.text
        database.execute("insert into t(v) values (12)")
        assert values(reading) == [12]


def test_a_partition_attached_while_a_poll_reads_is_read_once(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    database.execute("create table t(v int) partition by range (v)")
    database.execute("create table p0 partition of t for values from (0) to (10)")
    with TableReading(database) as reading:
        assert values(reading) == []
        part(database, "p1", 10, "")
        database.execute("insert into t(v) values (1)")
        copy = reading.reader.source.copy

        def attach_first(*args: object, **more: object) -> object:
            monkeypatch.undo()
            database.execute("alter table t attach partition p1 for values from (10) to (20)")
            return copy(*args, **more)  # type: ignore[arg-type]

        monkeypatch.setattr(reading.reader.source, "copy", attach_first)

        assert values(reading) == [1, 10, 11]


def test_an_offset_without_tables_continues(database: Database) -> None:
    database.execute("create table t(v int)")
    database.execute("insert into t(v) values (1)")
    with TableReading(database) as reading:
        assert values(reading) == [1]
        assert reading.offset is not None
        reading.restart({name: value for name, value in reading.offset.items() if name != "relations"})
        database.execute("insert into t(v) values (2)")

        assert values(reading) == [2]
        with pytest.raises(DataError, match="is not valid"):
            SnapshotOffset.of({**reading.offset, "relations": "t"})


@pytest.mark.parametrize("stamp", [STAMP, ""], ids=["column", "xmin"])
def test_rows_of_another_server_are_refused(database: Database, stamp: str) -> None:
    database.execute("create extension postgres_fdw")
    database.execute(
        "create server own foreign data wrapper postgres_fdw "
        f"options (host '127.0.0.1', port '{database.server.port}', dbname '{database.name}')"
    )
    database.execute("create user mapping for postgres server own options (user 'postgres')")
    part(database, "far", 10, stamp)
    database.execute(f"create table t(v int{stamp}) partition by range (v)")
    database.execute("create table p0 partition of t for values from (0) to (10)")
    with TableReading(database) as reading:
        assert values(reading) == []
        database.execute(
            "create foreign table p1 partition of t for values from (10) to (20) server own options (table_name 'far')"
        )
        with pytest.raises(DataError, match=r"lie on another server, in the foreign table p1, .*Detach it"):
            reading.poll()


@pytest.mark.parametrize("kind", ["partition", "child"])
def test_an_attached_table_without_an_xid_default_is_refused(database: Database, kind: str) -> None:
    partitioned = " partition by range (v)" if kind == "partition" else ""
    database.execute(f"create table t(v int{STAMP}){partitioned}; create table u(v int, xid xid8)")
    with TableReading(database) as reading:
        assert values(reading) == []
        database.execute("insert into u values (1)")
        database.execute("alter table t attach partition u default" if partitioned else "alter table u inherit t")
        database.execute("insert into u values (2)")
        with pytest.raises(
            DataError, match=r'column xid of u, .*ALTER TABLE "public"."t" ALTER COLUMN "xid" SET DEFAULT'
        ):
            reading.poll()

        database.execute("insert into u values (3)")
        database.execute('alter table "public"."t" alter column "xid" set default pg_current_xact_id()')
        database.execute("insert into u values (4)")
        reading.restart()
        assert values(reading) == [1, 2, 3, 4]
        database.execute("insert into u values (5)")
        assert values(reading) == [5]


def test_a_partition_that_loses_its_xid_default_is_noticed(database: Database) -> None:
    database.execute(f"create table t(v int{STAMP}) partition by range (v); create table u partition of t default")
    with TableReading(database) as reading:
        assert values(reading) == []
        database.execute("alter table u alter column xid drop default; insert into u values (1)")
        with pytest.raises(DataError, match="rows that are inserted there directly would not be found"):
            reading.poll()
