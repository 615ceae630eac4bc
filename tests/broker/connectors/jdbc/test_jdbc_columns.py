"""The modes incrementing, timestamp, timestamp+incrementing and bulk, and the offsets of Confluent's JDBC connector."""

from __future__ import annotations

import datetime as dt
import json
import logging
from typing import Any

import pytest

from fencepost.api.errors import DataError
from fencepost.connectors.jdbc.postgres.bulk_reader import BulkReader
from fencepost.connectors.jdbc.postgres.reader import PolledRows
from tests.support.jdbc_readers import TableReading
from tests.support.postgres import Database

TABLE = """create table t(id int generated always as identity primary key, at timestamp(6) not null, v int)"""
BOTH = {"mode": "timestamp+incrementing", "timestamp.column.name": "at"}


def insert(database: Database, at: str, v: int, rows: int = 1) -> None:
    database.execute("insert into t(at, v) select %s, %s from generate_series(1, %s)", (at, v, rows))


def numbers(rows: list[dict[str, Any]]) -> list[int]:
    return [row["v"] for row in rows]


def test_higher_ids_are_read_in_order_and_the_offset_is_the_last(database: Database) -> None:
    database.execute(TABLE)
    for number in range(5):
        insert(database, "2020-01-01", number)
    with TableReading(database, {"mode": "incrementing", "batch.max.rows": 2}) as reading:
        assert numbers(reading.poll()) == [0, 1]
        assert reading.offset == {"incrementing": 2}
        reading.restart()
        assert numbers(reading.rest()) == [2, 3, 4]
        assert reading.reader.partition == {"protocol": "1", "table": "public.t"}


def test_rows_of_one_timestamp_stay_together(database: Database) -> None:
    database.execute(TABLE)
    insert(database, "2020-01-01", 1)
    insert(database, "2020-01-01 00:00:00.000001", 2, rows=4)
    insert(database, "2020-01-02", 3)
    config = {"mode": "timestamp", "timestamp.column.name": "at", "batch.max.rows": 2}
    with TableReading(database, config) as reading:
        assert numbers(reading.poll()) == [1, 2, 2, 2, 2]
        assert reading.offset == {"timestamp": 1577836800000, "timestamp_nanos": 1000}
        reading.restart()
        assert numbers(reading.rest()) == [3]


def test_a_limit_in_query_suffix_keeps_rows_of_one_timestamp_together(database: Database) -> None:
    database.execute(TABLE)
    for day in range(1, 4):
        insert(database, f"2020-01-0{day}", day, rows=3)
    config = {"mode": "timestamp", "timestamp.column.name": "at", "query.suffix": "limit 4"}
    with TableReading(database, config) as reading:
        assert numbers(reading.poll()) == [1, 1, 1, 2, 2, 2]
        assert sorted(row["id"] for row in reading.rest()) == [7, 8, 9]


def test_a_limit_in_query_suffix_keeps_rows_of_one_id_together(database: Database) -> None:
    database.execute("create table t(id numeric not null, v int)")
    database.execute("insert into t select round(n / 3, n % 2), n from generate_series(3, 14) n")
    config = {"mode": "incrementing", "incrementing.column.name": "id", "query.suffix": "limit 4"}
    with TableReading(database, config) as reading:
        assert sorted(numbers(reading.rest())) == [*range(3, 15)]


def test_rows_of_one_timestamp_are_split_by_their_ids(database: Database) -> None:
    database.execute(TABLE)
    insert(database, "2020-01-01 00:00:00.123456", 1, rows=3)
    with TableReading(database, BOTH | {"batch.max.rows": 2}) as reading:
        assert numbers(reading.poll()) == [1, 1]
        assert reading.offset == {"incrementing": 2, "timestamp": 1577836800123, "timestamp_nanos": 123456000}
        reading.restart()
        assert numbers(reading.rest()) == [1]
        database.execute("update t set at = '2020-01-01 00:00:01', v = 9 where id = 1")
        assert numbers(reading.rest()) == [9]


def test_offsets_of_confluents_jdbc_connector_are_continued(database: Database) -> None:
    database.execute(TABLE)
    for number in range(1, 5):
        insert(database, f"2020-01-01 00:00:00.{number:06}", number)
    # Newer versions of Confluent's connector commit nanoseconds; older versions committed rounded milliseconds.
    theirs = {"timestamp": 1577836800000, "timestamp_nanos": 2000, "incrementing": 2}
    with TableReading(database, BOTH) as reading:
        reading.restart(theirs)
        assert numbers(reading.rest()) == [3, 4]
        reading.restart({"timestamp": 1577836800000, "incrementing": 2})
        assert numbers(reading.rest()) == [1, 2, 3, 4]
    with TableReading(database, {"mode": "incrementing", "incrementing.column.name": "id"}) as reading:
        reading.restart({"incrementing": 3})
        assert numbers(reading.rest()) == [4]


def test_timestamps_of_the_last_moments_wait_for_the_delay(database: Database) -> None:
    database.execute(TABLE)
    insert(database, "2020-01-01", 1)
    database.execute("insert into t(at, v) values (clock_timestamp() at time zone 'UTC' - interval '1 minute', 2)")
    with TableReading(database, BOTH | {"timestamp.delay.interval.ms": 3_600_000}) as reading:
        assert numbers(reading.rest()) == [1]
    with TableReading(database, BOTH | {"timestamp.delay.interval.ms": 1000}) as reading:
        assert numbers(reading.rest()) == [1, 2]


def test_a_future_timestamp_initial_does_not_mean_a_wrong_clock(
    database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    database.execute("create table t(id int primary key, at timestamptz not null default clock_timestamp())")
    database.execute("insert into t(id) values (1)")
    ((day,),) = database.execute("select (extract(epoch from now() + interval '1 day') * 1000)::bigint")
    config = {"mode": "timestamp", "timestamp.column.name": "at", "timestamp.initial": day}
    with TableReading(database, config) as reading:
        assert reading.rest() == reading.rest() == []
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING] == []


def test_a_first_start_begins_at_timestamp_initial(database: Database) -> None:
    database.execute(TABLE)
    insert(database, "2020-01-01", 1)
    insert(database, "2020-01-03", 2)
    day = int(dt.datetime(2020, 1, 2, tzinfo=dt.UTC).timestamp() * 1000)
    with TableReading(database, BOTH | {"timestamp.initial": day}) as reading:
        assert numbers(reading.rest()) == [2]
    with TableReading(database, BOTH | {"timestamp.initial": -1}) as reading:
        assert reading.rest() == []
        insert(database, str(dt.datetime.now(dt.UTC).replace(tzinfo=None)), 3)
        # The restart comes before the row was read.
        reading.restart()
        assert numbers(reading.rest()) == [3]


def test_the_first_timestamp_that_is_not_null_counts(database: Database) -> None:
    database.execute("create table t(v int, changed timestamptz, made timestamptz)")
    database.execute("insert into t values (1, null, '2020-01-01'), (2, '2020-01-03', '2020-01-01'), (3, null, null)")
    with TableReading(database, {"mode": "timestamp", "timestamp.column.name": "changed,made"}) as reading:
        assert numbers(reading.rest()) == [1, 2]


def test_a_query_is_read_by_its_columns(database: Database) -> None:
    database.execute(TABLE)
    insert(database, "2020-01-01", 1, rows=3)
    config = {
        "mode": "incrementing",
        "incrementing.column.name": "id",
        "query": "select id, v * 2 as v from t where v > 0 -- twice",
    }
    with TableReading(database, config, table=None) as reading:
        assert reading.rest() == [{"id": 1, "v": 2}, {"id": 2, "v": 2}, {"id": 3, "v": 2}]
        assert reading.reader.partition == {"query": "query"}
        assert reading.reader.source.topic == "p-"
    with TableReading(database, config | {"query.suffix": "limit 1 -- of them"}, table=None) as reading:
        assert len(reading.poll()) == 1
        assert len(reading.rest()) == 2


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"mode": "incrementing"}, "has 0 identity or serial columns"),
        ({"mode": "incrementing", "incrementing.column.name": "x"}, "has no column x"),
        ({"mode": "incrementing", "incrementing.column.name": "name"}, "has no exact numbers"),
        ({"mode": "incrementing", "incrementing.column.name": "id"}, "may be null.*validate.non.null=false"),
        ({"mode": "timestamp", "timestamp.column.name": "name"}, "has no timestamps"),
    ],
)
def test_columns_that_cannot_be_used_are_named(database: Database, config: dict[str, str], message: str) -> None:
    database.execute("create table t(id int, name text not null)")
    with TableReading(database, config) as reading, pytest.raises(DataError, match=message):
        reading.poll()


FRACTIONS = ["0.001", "1.4999", "1.5", "1.5001", "2", "17.25", "9223372036854775808", "100000000000000000000.000000001"]


@pytest.mark.parametrize(
    ("kind", "mapping"),
    [
        ("numeric", "none"),
        ("numeric", "best_fit"),
        ("numeric(38,10)", "none"),
        ("numeric(38,10)", "best_fit"),
        ("numeric(60,10)", "none"),
        ("numeric(38,0)", "precision_only"),
        ("id_number", "none"),
    ],
)
@pytest.mark.parametrize("mode", ["incrementing", "timestamp+incrementing"])
def test_ids_that_are_fractions_are_read_once(mode: str, kind: str, mapping: str, database: Database) -> None:
    database.execute("create domain id_number as numeric")
    database.execute(f"create table t(id {kind} not null, at timestamp not null, v text)")
    ids = FRACTIONS if kind != "numeric(38,0)" else [text for text in FRACTIONS if "." not in text]
    config = {"mode": mode, "incrementing.column.name": "id", "timestamp.column.name": "at", "numeric.mapping": mapping}
    with TableReading(database, config | {"batch.max.rows": 2}) as reading:
        for some in (ids[:3], ids[3:]):
            for number in some:
                database.execute("insert into t values (%s, '2020-01-01', %s)", (number, number))
            found = []
            for _ in ids:
                found += [row["v"] for row in reading.poll()]
                # The offset as the offsets topic stores it: as JSON.
                reading.restart(json.loads(json.dumps(reading.offset)))
            assert found == some
        assert reading.rest() == []


def test_ids_of_any_length_are_read_once(database: Database) -> None:
    database.execute("create table t(id numeric not null)")
    with TableReading(database, {"mode": "incrementing", "incrementing.column.name": "id"}) as reading:
        for number in ("7" * 5_000, "7" * 131_072 + ".3"):
            database.execute("insert into t values (%s)", [number])
            assert [row["id"] for row in reading.poll()] == [number]
            reading.restart(json.loads(json.dumps(reading.offset)))
        assert reading.rest() == []


def test_an_offset_of_whole_numbers_is_continued_by_fractions(database: Database) -> None:
    database.execute("create table t(id numeric(20,3) not null)")
    database.execute("insert into t values (17), (17.5)")
    with TableReading(database, {"mode": "incrementing", "incrementing.column.name": "id"}) as reading:
        reading.restart({"incrementing": 17})
        assert [str(row["id"]) for row in reading.rest()] == ["17.500"]
        assert reading.offset == {"incrementing": "17.500"}
        database.execute("insert into t values (18)")
        reading.poll()
        assert reading.offset == {"incrementing": 18}


@pytest.mark.parametrize("value", ["NaN", "Infinity", "-Infinity"])
def test_ids_that_are_not_numbers_are_refused(value: str, database: Database) -> None:
    database.execute("create table t(id numeric not null)")
    with TableReading(database, {"mode": "incrementing", "incrementing.column.name": "id"}) as reading:
        database.execute("insert into t values (%s)", [value])
        with pytest.raises(DataError, match=f'The column "id" .numeric. of the table public.t is {value} in a row'):
            reading.poll()


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("real", "1.5"),
        ("double precision", "1.5"),
        ("text", "1"),
        ("varchar(3)", "1"),
        ("uuid", "A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11"),
        ("timestamp", "2020-01-01"),
        ("date", "2020-01-01"),
        ("boolean", "t"),
        ("money", "1"),
        ("interval", "1 day"),
        ("xid8", "1"),
        ("int[]", "{1}"),
        ("public.int4", "1"),
    ],
)
def test_ids_of_other_types_are_refused(kind: str, value: str, database: Database) -> None:
    database.execute("create type public.int4 as enum ('1')")
    database.execute(f"create table t(id {kind} not null)")
    database.execute("insert into t values (%s)", [value])
    refused = pytest.raises(DataError, match="has no exact numbers, as integers and numeric are")
    with TableReading(database, {"mode": "incrementing", "incrementing.column.name": "id"}) as reading, refused:
        reading.poll()


def test_offsets_of_another_mode_are_refused(database: Database) -> None:
    database.execute(TABLE)
    with TableReading(database) as reading:
        with pytest.raises(DataError, match="is not one of the mode snapshot"):
            reading.restart({"incrementing": 3})
        insert(database, "2020-01-01", 1)
        reading.offset = None
        reading.restart()
        assert numbers(reading.rest()) == [1]
        snapshot = reading.offset
    with TableReading(database, {"mode": "incrementing"}) as reading:
        for wrong in (snapshot, {"incrementing": "NaN"}, {"incrementing": 1.5}, {"timestamp": "3"}):
            with pytest.raises(DataError, match=r"The offset .*(not one of the modes|not a number)"):
                reading.restart(wrong)


def test_bulk_reads_all_rows_each_time_that_it_is_due(database: Database) -> None:
    database.execute(TABLE)
    insert(database, "2020-01-01", 1, rows=2)
    now = 1000
    with TableReading(database, {"mode": "bulk", "poll.interval.ms": 100}) as reading:
        reader = BulkReader(reading.reader.source, {}, None, now=lambda: now)
        first = reader.read(reading.server)
        assert isinstance(first, PolledRows)
        assert (first.rows.num_rows, first.offset) == (2, {"bulk": 1000})
        now = 1099
        assert reader.read(reading.server) is None
        now = 1100
        assert reader.read(reading.server) is not None
        again = BulkReader(reading.reader.source, {}, {"bulk": 1100}, now=lambda: now)
        assert again.read(reading.server) is None
