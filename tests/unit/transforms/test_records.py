from __future__ import annotations

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from fencepost import ConfigError
from fencepost.transforms.chain import Step
from tests.unit.transforms.support import Records, applied, predicate, step

LINES = Records("STRING", [{"topic": "app-logs", "value": "a"}, {"topic": "metrics", "value": None}])


def only(wanted: Step, name: str, properties: dict[str, str] | None = None, *, negate: bool = False) -> Step:
    return Step(wanted.transform, predicate(name, properties), negate)


@pytest.mark.parametrize(
    ("regex", "replacement", "expected"),
    [
        ("(.*)-logs", "logs.$1", ["logs.app", "metrics"]),
        ("logs", "never", ["app-logs", "metrics"]),
        ("app|metrics", "part", ["app-logs", "part"]),
    ],
)
def test_regex_router_renames_topics_that_match_as_a_whole(
    spark: SparkSession, regex: str, replacement: str, expected: list[str]
) -> None:
    routed = step("RegexRouter", {"regex": regex, "replacement": replacement})
    assert applied(spark, LINES, routed, column="topic") == expected


def test_timestamp_router_writes_the_time_in_utc(spark: SparkSession) -> None:
    records = LINES.with_rows({"topic": "a", "timestamp": 1_700_000_000_000}, {"topic": "b", "timestamp": 0})
    assert applied(spark, records, step("TimestampRouter"), column="topic") == ["a-20231114", "b-19700101"]
    formatted = step(
        "TimestampRouter", {"topic.format": "${timestamp}.${topic}.x", "timestamp.format": "yyyy-MM-dd.HH"}
    )
    assert applied(spark, records, formatted, column="topic") == ["2023-11-14.22.a.x", "1970-01-01.00.b.x"]


def test_timestamp_router_writes_an_hour_that_the_sessions_time_zone_skips(spark: SparkSession) -> None:
    at_half_past_two = LINES.with_rows({"topic": "a", "timestamp": 1_710_037_800_000})
    hourly = step("TimestampRouter", {"timestamp.format": "yyyy-MM-dd'T'HH"})
    assert applied(spark, at_half_past_two, hourly, column="topic") == ["a-2024-03-10T02"]


def test_timestamp_router_uses_the_current_time_if_there_is_none(spark: SparkSession) -> None:
    [topic] = applied(spark, LINES.with_rows({"topic": "a"}), step("TimestampRouter"), column="topic")
    assert topic.startswith("a-20")


def test_value_to_key_makes_a_key_of_fields(spark: SparkSession) -> None:
    records = Records("STRUCT<a: INT, b: STRING>", [{"value": (1, "x")}, {"value": (None, "y")}])
    keyed = step("ValueToKey", {"fields": "b,a"})
    assert applied(spark, records, keyed, column="key") == [{"b": "x", "a": 1}, {"b": "y", "a": None}]
    assert applied(spark, records, keyed, step("ExtractField$Key", {"field": "b"}), column="key") == ["x", "y"]


@pytest.mark.parametrize("kind", ["STRUCT<a: INT>", "VOID"])
def test_value_to_key_refuses_a_null_value(spark: SparkSession, kind: str) -> None:
    with pytest.raises(PySparkException, match="RecordIsTombstone"):
        applied(spark, Records(kind, [{}]), step("ValueToKey", {"fields": "a"}), column="key")


@pytest.mark.parametrize("kind", ["STRUCT<a: INT>", "VOID"])
def test_the_key_of_a_tombstone_stays_if_a_predicate_says_so(spark: SparkSession, kind: str) -> None:
    keyed = only(step("ValueToKey", {"fields": "a"}), "RecordIsTombstone", negate=True)
    records = Records(kind, [{"key": (7,)}], key="STRUCT<a: INT>")
    assert applied(spark, records, keyed, column="key") == [{"a": 7}]


def test_headers_are_inserted_after_existing_ones_and_dropped_by_name(spark: SparkSession) -> None:
    records = LINES.with_rows({"headers": [("a", b"1"), ("b", b"2")]}, {})
    inserted = step("InsertHeader", {"header": "from", "value.literal": "test"})
    dropped = step("DropHeaders", {"headers": "b,c"})
    new = {"key": "from", "value": b"test"}
    assert applied(spark, records, inserted, dropped, column="headers") == [[{"key": "a", "value": b"1"}, new], [new]]


def test_filter_drops_the_records_that_its_predicate_holds_for(spark: SparkSession) -> None:
    assert applied(spark, LINES, step("Filter")) == []
    assert applied(spark, LINES, only(step("Filter"), "RecordIsTombstone")) == ["a"]
    assert applied(spark, LINES, only(step("Filter"), "RecordIsTombstone", negate=True)) == [None]


def test_a_transform_applies_to_the_records_that_its_predicate_holds_for(spark: SparkSession) -> None:
    renamed = step("RegexRouter", {"regex": ".*", "replacement": "other"})
    matching = only(renamed, "TopicNameMatches", {"pattern": "app.*"})
    others = only(renamed, "TopicNameMatches", {"pattern": "app.*"}, negate=True)
    partly = only(renamed, "TopicNameMatches", {"pattern": "app"})
    assert applied(spark, LINES, matching, column="topic") == ["other", "metrics"]
    assert applied(spark, LINES, others, column="topic") == ["app-logs", "other"]
    assert applied(spark, LINES, partly, column="topic") == ["app-logs", "metrics"]


def test_a_predicate_on_a_header_holds_for_records_that_have_it(spark: SparkSession) -> None:
    records = LINES.with_rows(
        {"value": "with", "headers": [("h", b"")]}, {"value": "other", "headers": [("i", b"")]}, {}
    )
    dropped = only(step("Filter"), "HasHeaderKey", {"name": "h"})
    assert applied(spark, records, dropped) == ["other", None]


def test_a_key_that_was_absent_may_come_to_some_records_only(spark: SparkSession) -> None:
    records = Records("STRUCT<a: INT>", [{"topic": "x", "value": (1,)}, {"topic": "y", "value": (2,)}])
    keyed = only(step("ValueToKey", {"fields": "a"}), "TopicNameMatches", {"pattern": "x"})
    assert applied(spark, records, keyed, column="key") == [{"a": 1}, None]


def test_a_transform_with_a_predicate_may_not_change_a_type(spark: SparkSession) -> None:
    hoisted = only(step("HoistField$Value", {"field": "line"}), "RecordIsTombstone")
    with pytest.raises(ConfigError, match=r"HoistField has a predicate, but makes struct<line:string> of the value's"):
        applied(spark, LINES, hoisted)


def test_steps_apply_in_their_order(spark: SparkSession) -> None:
    chain = (
        step("HoistField$Value", {"field": "line"}),
        step("InsertField$Value", {"topic.field": "topic"}),
        step("RegexRouter", {"regex": ".*", "replacement": "all"}),
    )
    assert applied(spark, LINES, *chain) == [{"line": "a", "topic": "app-logs"}, {"line": None, "topic": "metrics"}]
    assert applied(spark, LINES, *chain, column="topic") == ["all", "all"]


@pytest.mark.parametrize(
    ("name", "listed"), [("MaskField$Value", "fields"), ("DropHeaders", "headers"), ("ValueToKey", "fields")]
)
def test_a_list_without_names_is_refused(name: str, listed: str) -> None:
    with pytest.raises(ConfigError, match=rf"{listed} must be a list of names, none of them empty"):
        step(name, {listed: ""})
