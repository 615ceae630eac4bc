"""Dates and times of PostgresSource by `time.precision.mode`, from a real server."""

from __future__ import annotations

from datetime import date, datetime
from typing import Any

import pytest

from fencepost.api.errors import ConfigError, DataError
from fencepost.connectors.postgres.changes.config import PostgresConfig
from tests.support.postgres import Database
from tests.support.postgres_task import Topics

COLUMNS = {
    "day": ("date", "'1969-12-31'"),
    "t3": ("time(3)", "'12:30:00.25'"),
    "t": ("time", "'12:30:00.250999'"),
    "s3": ("timestamp(3)", "'1969-12-31 23:59:59.25'"),
    "s": ("timestamp", "'1969-12-31 23:59:59.250999'"),
    "tz": ("time with time zone", "'01:00:00.5+05:45'"),
    "z": ("timestamp with time zone", "'2024-05-01 14:30:00.25+02'"),
    "length": ("interval", "'1 day 02:00'"),
    "days": ("date[]", "'{1970-01-02,null}'"),
}
ZONED = {"tz": "19:15:00.5Z", "z": "2024-05-01T12:30:00.25Z", "length": "P1DT2H"}
MICROS = {"t": 45_000_250_999, "s": -749_001}
EXPECTED: dict[str, dict[str, Any]] = {
    "adaptive": {"day": -1, "t3": 45_000_250, "s3": -750, **MICROS, "days": [1, None]},
    "adaptive_time_microseconds": {"day": -1, "t3": 45_000_250_000, "s3": -750, **MICROS, "days": [1, None]},
    "microseconds": {"day": -1, "t3": 45_000_250_000, "s3": -750_000, **MICROS, "days": [1, None]},
    "connect": {
        "day": date(1969, 12, 31), "t3": 45_000_250, "t": 45_000_250, "days": [date(1970, 1, 2), None],
        "s3": datetime(1969, 12, 31, 23, 59, 59, 250_000), "s": datetime(1969, 12, 31, 23, 59, 59, 250_000),  # noqa: DTZ001
    },
    "isostring": {
        "day": "1969-12-31Z", "t3": "12:30:00.25Z", "t": "12:30:00.250999Z", "s3": "1969-12-31T23:59:59.25Z",
        "s": "1969-12-31T23:59:59.250999Z", "days": ["1970-01-02Z", None],
    },
}  # fmt: skip


@pytest.mark.parametrize("mode", EXPECTED)
def test_snapshot_and_stream_represent_times_as_the_mode_says(mode: str, topics: Topics, database: Database):
    columns = ", ".join(f"{name} {kind}" for name, (kind, _) in COLUMNS.items())
    literals = ", ".join(literal for _, literal in COLUMNS.values())
    database.execute(f"create table times(id int primary key, {columns})")
    database.execute(f"insert into times values (1, {literals})")  # noqa: S608 - of this file
    topics.change(time_precision_mode=mode)
    topics.run()
    database.execute(f"insert into times values (2, {literals})")  # noqa: S608 - likewise
    topics.run()

    rows = {key["id"]: value["after"] for key, value in topics.events("public.times")}
    assert rows == {number: {"id": number, **EXPECTED[mode], **ZONED} for number in (1, 2)}


def test_times_of_other_zones_are_other_keys_also_at_one_moment(topics: Topics, database: Database):
    times = ["01:00:00.5+05:45", "19:15:00.5+00", "11:15:00.5-08", "19:15:00.5-00:00:01", "24:00:00+00", "00:00:00+00"]
    for name, kind, literal in (("shifts", "timetz", "%s::timetz"), ("lists", "timetz[]", "array[%s::timetz, null]")):
        database.execute(f"create table {name}(start {kind} primary key)")
        for time in times:
            database.execute(f"insert into {name} values ({literal})", [time])  # noqa: S608 - of this file
    topics.run()
    for name in ("shifts", "lists"):
        database.execute(f"delete from {name}")  # noqa: S608 - likewise
    topics.run()

    expected = ["01:00:00.5+05:45", "19:15:00.5Z", "11:15:00.5-08:00", "19:15:00.5-00:00:01", "24:00:00Z", "00:00:00Z"]
    for name, keys in (("shifts", expected), ("lists", [[key, None] for key in expected])):
        events = topics.events(f"public.{name}")
        assert [key["start"] for key, value in events if value and value["op"] == "r"] == keys
        assert [key["start"] for key, value in events if value is None] == keys
    after = [value["after"]["start"] for _, value in topics.events("public.shifts")[: len(times)]]
    assert after == ["19:15:00.5Z", "19:15:00.5Z", "19:15:00.5Z", "19:15:01.5Z", "24:00:00Z", "00:00:00Z"]


def test_intervals_are_microseconds_if_the_mode_says_so(topics: Topics, database: Database):
    month, day, minute = 2_629_800_000_000, 86_400_000_000, 60_000_000
    lengths = {
        "1 year -2 months 3 days 04:05:06.78": 10 * month + 3 * day + 245 * minute + 6_780_000,
        "-1 day -00:00:00.5": -day - 500_000,
        "0": 0,
        "200000 years": 2_400_000 * month,
    }
    database.execute("create table lengths(id int primary key, one interval, more interval[])")
    insert = "insert into lengths select n + %s, l::interval, array[null, l::interval] from unnest(%s::text[]) with ordinality t(l, n)"
    topics.change(interval_handling_mode="numeric")
    database.execute(insert, [0, list(lengths)])
    topics.run()
    database.execute(insert, [len(lengths), list(lengths)])
    topics.run()
    assert [(value["after"]["one"], value["after"]["more"]) for _, value in topics.events("public.lengths")] == [
        (length, [None, length]) for length in [*lengths.values()] * 2
    ]

    database.execute("insert into lengths(id, one) values (0, '100000000 years')")
    with pytest.raises(DataError, match=r"public\.lengths\.one .*interval\.handling\.mode=string"):
        topics.run()


def test_a_moment_that_has_no_microseconds_fails_the_task_and_isostring_writes_it(topics: Topics, database: Database):
    database.execute("create table far(id int primary key, s timestamp)")
    topics.run()
    database.execute("insert into far values (1, '294276-12-31 23:59:59'), (2, 'infinity')")
    with pytest.raises(DataError, match=r"public\.far\.s .*time\.precision\.mode=isostring"):
        topics.run()

    topics.change(time_precision_mode="isostring")
    topics.run()
    assert [value["after"]["s"] for _, value in topics.events("public.far")] == ["294276-12-31T23:59:59Z", "infinity"]


def test_nanoseconds_are_refused_with_advice():
    config = {"database.hostname": "h", "database.user": "u", "database.dbname": "d", "topic.prefix": "p"}
    with pytest.raises(ConfigError, match=r"nanoseconds .* use microseconds"):
        PostgresConfig.parse(config | {"time.precision.mode": "nanoseconds"})
