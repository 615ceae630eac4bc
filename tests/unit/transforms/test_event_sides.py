"""Debezium's TimezoneConverter and EnforceRecordSize, under their Java names."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from pyspark.sql import SparkSession

from fencepost import ConfigError, DataError
from fencepost.api.schema_name import SCHEMA_METADATA, field_identity, named_field
from fencepost.transforms.chain import Step, apply_chain
from tests.unit.transforms.support import Records, plain, predicate
from tests.unit.transforms.test_sql_table import DEBEZIUM, step

TIME = "io.debezium.time."


def zones(zone: str, **rules: str) -> Step:
    return step(f"{DEBEZIUM}TimezoneConverter", converted_timezone=zone, **rules)


def events(kind: str, semantic: str | None, *values: Any) -> Records:
    comment = f" {named_field(TIME + semantic)}" if semantic else ""
    row = f"STRUCT<a: {kind}{comment}, b: {kind} NOT NULL{comment}, c: BIGINT>"
    return Records(
        f"STRUCT<before: {row}, after: {row}, source: STRUCT<table: STRING, a: {kind}{comment}>, op: STRING>",
        [{"value": (None, (value, value, 1), ("t", value), "c")} for value in values],
    )


def after(spark: SparkSession, records: Records, wanted: Step, name: str = "a") -> list[Any]:
    return [row["value"]["after"][name] for row in apply_chain(records.frame(spark), [wanted]).collect()]


def instant(zone: str, *clock: int, fold: int = 0) -> int:
    """The time in seconds since the epoch at which clocks in a zone show this date and time."""
    return int(datetime(*clock, tzinfo=ZoneInfo(zone), fold=fold).timestamp())  # type: ignore[arg-type, misc]


def shown(*clock: int) -> int:
    return int(datetime(*clock, tzinfo=UTC).timestamp())  # type: ignore[arg-type, misc]


NEW_YORK = "America/New_York"


@pytest.mark.parametrize(
    ("clock", "expected"),
    [
        ((2024, 1, 15, 12), instant(NEW_YORK, 2024, 1, 15, 12)),
        ((2024, 7, 15, 12), instant(NEW_YORK, 2024, 7, 15, 12)),
        # Clocks skip from 2:00 to 3:00, so 2:30 counts as half an hour after 2:00.
        ((2024, 3, 10, 2, 30), instant(NEW_YORK, 2024, 3, 10, 1, 30) + 3600),
        # Clocks show 1:30 twice.
        ((2024, 11, 3, 1, 30), instant(NEW_YORK, 2024, 11, 3, 1, 30, fold=0)),
        ((1950, 6, 1, 0), instant(NEW_YORK, 1950, 6, 1, 0)),
    ],
)
@pytest.mark.parametrize(
    ("semantic", "unit"), [("Timestamp", 10**3), ("MicroTimestamp", 10**6), ("NanoTimestamp", 10**9)]
)
def test_local_times_become_instants(
    spark: SparkSession, clock: tuple[int, ...], expected: int, semantic: str, unit: int
) -> None:
    records = events("BIGINT", semantic, shown(*clock) * unit + 7, shown(*clock) * unit - 1)
    assert after(spark, records, zones(NEW_YORK))[0] == expected * unit + 7
    assert after(spark, records, zones(NEW_YORK), "b")[0] == expected * unit + 7
    assert after(spark, records, zones(NEW_YORK), "c") == [1, 1]
    assert after(spark, events("BIGINT", semantic, -1), zones("+01:00")) == [-1 - 3600 * unit]


@pytest.mark.parametrize("kind", ["TIMESTAMP", "TIMESTAMP_NTZ"])
def test_times_of_connect_become_instants(spark: SparkSession, kind: str) -> None:
    value = datetime(2024, 7, 1, 12, tzinfo=UTC if kind == "TIMESTAMP" else None)
    (found,) = after(spark, events(kind, None, value), zones("+08:00"))
    assert found.astimezone(UTC).hour == 4 if kind == "TIMESTAMP" else found.hour == 4


@pytest.mark.parametrize(
    ("given", "zone", "expected"),
    [
        ("2024-03-10T06:59:59.123456789Z", NEW_YORK, "2024-03-10T01:59:59.123456789-05:00"),
        ("2024-03-10T07:00:00Z", NEW_YORK, "2024-03-10T03:00:00-04:00"),
        ("2024-11-03T05:30:00Z", NEW_YORK, "2024-11-03T01:30:00-04:00"),
        ("2024-11-03T06:30:00Z", NEW_YORK, "2024-11-03T01:30:00-05:00"),
        ("2024-01-01T00:00:00+05:30", "UTC", "2023-12-31T18:30:00Z"),
        ("2024-01-01T00:00:00Z", "+05:45", "2024-01-01T05:45:00+05:45"),
        ("1800-01-01T00:00:00Z", "Europe/Amsterdam", None),
        ("infinity", NEW_YORK, "infinity"),
        ("2024-01-01T00:00:00", NEW_YORK, "2024-01-01T00:00:00"),
    ],
)
def test_zoned_times_get_the_offset_of_the_zone(
    spark: SparkSession, given: str, zone: str, expected: str | None
) -> None:
    (found,) = after(spark, events("STRING", "ZonedTimestamp", given), zones(zone))
    if expected is None:
        assert datetime.fromisoformat(found) == datetime.fromisoformat(given)
    else:
        assert found == expected


@pytest.mark.parametrize(
    ("rules", "converted"),
    [
        ({}, ("after.a", "after.b")),
        ({"include_list": "source:t"}, ("after.a", "after.b")),
        ({"include_list": "source:t:a"}, ("after.a",)),
        ({"include_list": "source:t:after.b,source:t:source.a"}, ("after.b", "source.a")),
        ({"include_list": "source:other"}, ()),
        ({"include_list": "topic:t:b, t:a"}, ("after.a", "after.b")),
        ({"include_list": "t:a"}, ("after.a",)),
        ({"include_list": "topic:other,source:t:a"}, ("after.a",)),
        ({"exclude_list": "source:t"}, ()),
        ({"exclude_list": "source:t:a"}, ("after.b",)),
        ({"exclude_list": "topic:other"}, ("after.a", "after.b")),
        ({"exclude_list": "t:before.a"}, ("after.a", "after.b")),
    ],
)
def test_time_zone_rules_select_the_converted_fields(
    spark: SparkSession, rules: dict[str, str], converted: tuple[str, ...]
) -> None:
    frame = apply_chain(events("BIGINT", "Timestamp", 0).frame(spark), [zones("+01:00", **rules)])
    value = plain(frame.collect()[0]["value"])
    changed = tuple(
        f"{side}.{name}" for side in ("after", "source") for name in ("a", "b") if value[side].get(name, 0) != 0
    )
    assert changed == converted


@pytest.mark.parametrize(
    "given",
    [
        {"converted_timezone": "Mars/Olympus"},
        {"converted_timezone": "UTC'); DROP"},
        {"converted_timezone": "UTC", "include_list": "a:b", "exclude_list": "c:d"},
        {"converted_timezone": "UTC", "include_list": "alone"},
        {"converted_timezone": "UTC", "include_list": "source:a:b:c"},
        {"converted_timezone": "UTC", "include_list": "source::b"},
    ],
)
def test_zones_and_rules_without_sense_are_refused(given: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match=r"converted\.timezone|include\.list|exclude\.list"):
        step(f"{DEBEZIUM}TimezoneConverter", **given)


def test_a_time_of_day_is_refused_unless_excluded(spark: SparkSession) -> None:
    records = events("STRING", "ZonedTime", "10:00:00Z")
    with pytest.raises(DataError, match=r"exclude\.list"):
        after(spark, records, zones(NEW_YORK))


def test_the_schema_stays_with_its_names(spark: SparkSession) -> None:
    records = events("BIGINT", "Timestamp", 0)
    frame = records.frame(spark)
    frame = frame.withMetadata("value", {SCHEMA_METADATA: {"name": "shop.Envelope"}})
    changed = apply_chain(frame, [zones(NEW_YORK)])
    assert changed.schema["value"].dataType == frame.schema["value"].dataType
    assert changed.schema["value"].metadata == frame.schema["value"].metadata
    side = changed.schema["value"].dataType["after"].dataType  # type: ignore[index]
    assert field_identity(side["a"])["name"] == f"{TIME}Timestamp"
    assert not side["b"].nullable


def test_a_predicate_selects_the_events(spark: SparkSession) -> None:
    records = events("BIGINT", "Timestamp", 0)
    wanted = Step(zones("+01:00").transform, predicate("TopicNameMatches", {"pattern": "other"}))
    assert after(spark, records, wanted) == [0]


TEXTS = "STRUCT<id: INT, t: STRING, u: STRING NOT NULL, b: BINARY>"


def sized(*rows: Any) -> Records:
    return Records(f"STRUCT<before: {TEXTS}, after: {TEXTS}, source: STRUCT<table: STRING>, op: STRING>", list(rows))


def enforced(spark: SparkSession, records: Records, **given: str) -> list[Any]:
    frame = apply_chain(records.frame(spark), [step(f"{DEBEZIUM}EnforceRecordSize", **given)])
    assert frame.schema["value"].dataType == records.frame(spark).schema["value"].dataType
    return [plain(row["value"]) for row in frame.collect()]


def size(value: Any) -> int:
    texts = {**value, "after": {**value["after"], "b": ""}, "before": None}
    return len(json.dumps(texts, separators=(",", ":"), ensure_ascii=False).encode())


def test_long_columns_are_shortened_in_proportion(spark: SparkSession) -> None:
    row = (1, "a" * 3000, "ü" * 500, None)
    (found,) = enforced(spark, sized({"value": (None, row, ("t",), "c")}), max_bytes="2000", min_field_size="100")
    after = found["after"]
    assert 1900 <= size(found) <= 2000
    assert 2.8 < len(after["t"]) / len(after["u"].encode()) < 3.2
    assert set(after["t"]) == {"a"}
    assert set(after["u"]) == {"ü"}


def test_small_events_and_short_columns_stay(spark: SparkSession) -> None:
    row = (1, "a" * 300, "b" * 90, b"c" * 300)
    records = sized({"value": (row, row, ("t",), "u")}, {"value": None})
    assert enforced(spark, records, max_bytes="20000")[0]["after"]["t"] == "a" * 300
    (found, none) = enforced(spark, records, max_bytes="900", min_field_size="100")
    assert none is None
    assert found["after"]["u"] == "b" * 90
    assert len(found["after"]["t"]) == len(found["before"]["t"]) < 300
    assert len(found["after"]["b"]) < 300
    # By default columns of up to 25,000 bytes are kept.
    assert enforced(spark, records, max_bytes="1")[0]["after"]["t"] == "a" * 300
    assert enforced(spark, records, max_bytes="900", compression_ratio="0.1")[0]["after"]["t"] == "a" * 300


@pytest.mark.parametrize(
    "given",
    [
        {"max_bytes": "0"},
        {"max_bytes": "1", "compression_ratio": "0"},
        {"max_bytes": "1", "compression_ratio": "nan"},
        {},
    ],
)
def test_sizes_without_sense_are_refused(given: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match=r"max\.bytes|compression\.ratio"):
        step(f"{DEBEZIUM}EnforceRecordSize", **given)


@pytest.mark.parametrize("kind", ["STRING", "BIGINT"])
def test_the_plan_grows_with_the_columns_and_not_faster(spark: SparkSession, kind: str) -> None:
    """A plan that doubled with each column would take all memory of the JVM for a wide table."""
    semantic = named_field(TIME + ("ZonedTimestamp" if kind == "STRING" else "Timestamp"))

    def size(columns: int) -> int:
        row = f"STRUCT<{', '.join(f'c{number}: {kind} {semantic}' for number in range(columns))}>"
        value = f"STRUCT<before: {row}, after: {row}, source: STRUCT<table: STRING>, op: STRING>"
        frame = apply_chain(Records(value, []).frame(spark), [zones(NEW_YORK)])
        return len(frame._jdf.queryExecution().optimizedPlan().toString())

    assert size(16) < 5 * size(4)
