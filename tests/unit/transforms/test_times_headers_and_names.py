from __future__ import annotations

import json
from datetime import UTC, date, datetime
from typing import Any

import pytest
from pyspark.sql import SparkSession

from fencepost import ConfigError, DataError
from fencepost.api.schema_name import NamedStruct
from fencepost.converters.json_schema import schema_text
from fencepost.engine.column_types import column_types
from fencepost.transforms.chain import Step, apply_chain
from tests.unit.transforms.support import Records, applied, predicate, step

PEOPLE = Records("STRUCT<id: INT, name: STRING>", [{"value": (1, "Ada"), "headers": [("h", b"x")]}, {}])
# A time that clocks in New York, the session's zone, skip.
LEAPT = datetime(2024, 3, 10, 2, 30, 0, 123_000, tzinfo=UTC)
MILLIS = 1_710_037_800_123


def named(frame_of: Records, spark: SparkSession, *chain: Step) -> dict[str, Any]:
    types = column_types(apply_chain(frame_of.frame(spark), chain).schema, where="a test")
    assert types.value is not None
    described: dict[str, Any] = json.loads(schema_text(types.value, optional=False))
    return described


def test_header_from_copies_fields_after_the_existing_headers(spark: SparkSession) -> None:
    copied = step("HeaderFrom$Value", {"fields": "id,name", "headers": "a,b", "operation": "copy"})
    known = {"key": "h", "value": b"x"}
    headers = [known, {"key": "a", "value": b"1"}, {"key": "b", "value": b"Ada"}]
    assert applied(spark, PEOPLE, copied, column="headers") == [headers, None]
    assert applied(spark, PEOPLE, copied) == [{"id": 1, "name": "Ada"}, None]


def test_header_from_moves_a_field_out_of_the_record_even_a_null(spark: SparkSession) -> None:
    moved = step("HeaderFrom$Key", {"fields": "at", "headers": "h", "operation": "move"})
    records = Records("INT", [{"key": (1, LEAPT)}, {"key": (2, None)}], key="STRUCT<id: INT, at: TIMESTAMP>")
    assert applied(spark, records, moved, column="key") == [{"id": 1}, {"id": 2}]
    headers = [[{"key": "h", "value": b"2024-03-10T02:30:00.123Z"}], [{"key": "h", "value": None}]]
    assert applied(spark, records, moved, column="headers") == headers


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        ({"fields": "a,b", "headers": "a", "operation": "copy"}, "lists of the same length"),
        ({"fields": "", "headers": "", "operation": "copy"}, "fields must be a list of names"),
        ({"fields": "a", "headers": "a", "operation": "swap"}, "one of move, copy"),
    ],
)
def test_header_from_refuses_invalid_properties(properties: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        step("HeaderFrom$Value", properties)


def test_header_from_must_leave_a_field(spark: SparkSession) -> None:
    with pytest.raises(DataError, match="moves all fields of the value"):
        applied(spark, PEOPLE, step("HeaderFrom$Value", {"fields": "id,name", "headers": "a,b", "operation": "move"}))


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("BIGINT", MILLIS),
        ("STRING", "2024-03-10 02:30:00.123"),
        ("TIMESTAMP", LEAPT),
        ("TIMESTAMP_NTZ", LEAPT.replace(tzinfo=None)),
    ],
)
def test_timestamp_converter_reads_any_time_in_utc(spark: SparkSession, kind: str, value: Any) -> None:
    converted = step("TimestampConverter$Value", {"target.type": "unix", "format": "yyyy-MM-dd HH:mm:ss.SSS"})
    assert applied(spark, Records(kind, [{"value": value}, {}]), converted) == [MILLIS, None]


@pytest.mark.parametrize(
    ("properties", "expected"),
    [
        ({"target.type": "string", "format": "dd.MM.yyyy 'at' HH:mm:ss.SSS Z"}, "10.03.2024 at 02:30:00.123 +0000"),
        ({"target.type": "Date"}, date(2024, 3, 10)),
    ],
)
def test_timestamp_converter_writes_a_field(spark: SparkSession, properties: dict[str, str], expected: Any) -> None:
    converted = step("TimestampConverter$Value", {"field": "at", **properties})
    records = Records("STRUCT<id: INT, at: BIGINT>", [{"value": (1, MILLIS)}, {"value": (2, None)}, {}])
    assert applied(spark, records, converted) == [{"id": 1, "at": expected}, {"id": 2, "at": None}, None]


def test_timestamp_converter_reads_text_with_an_offset_and_seconds(
    spark: SparkSession,
) -> None:
    text = step("TimestampConverter$Value", {"target.type": "Timestamp", "format": "yyyy-MM-dd HH:mm Z"})
    [found] = applied(spark, Records("STRING", [{"value": "2024-03-10 03:30 +0100"}]), text)
    assert found.astimezone(UTC) == datetime(2024, 3, 10, 2, 30, tzinfo=UTC)
    seconds = step("TimestampConverter$Value", {"target.type": "Timestamp", "unix.precision": "seconds"})
    [found] = applied(spark, Records("BIGINT", [{"value": -1}]), seconds)
    assert found.astimezone(UTC) == datetime(1969, 12, 31, 23, 59, 59, tzinfo=UTC)


def test_timestamp_converter_uses_the_given_precision_and_keeps_milliseconds(
    spark: SparkSession,
) -> None:
    micros = step("TimestampConverter$Value", {"target.type": "unix", "unix.precision": "microseconds"})
    assert applied(spark, Records("TIMESTAMP", [{"value": LEAPT}]), micros) == [MILLIS * 1_000]
    assert applied(spark, Records("BIGINT", [{"value": MILLIS * 1_000 + 7}]), micros) == [MILLIS * 1_000]


def test_timestamp_converter_rounds_days_down_before_1970(spark: SparkSession) -> None:
    converted = step("TimestampConverter$Value", {"target.type": "Date"})
    assert applied(spark, Records("BIGINT", [{"value": -1}]), converted) == [date(1969, 12, 31)]


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        ({"target.type": "date"}, "one of string, unix, Date"),
        ({"target.type": "string"}, "needs a format"),
        ({"target.type": "string", "format": "YYYY-ww"}, "has Y, w, which"),
        ({"target.type": "unix", "unix.precision": "days"}, "one of seconds"),
    ],
)
def test_timestamp_converter_refuses_invalid_properties(properties: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        step("TimestampConverter$Value", properties)


def test_timestamp_converter_names_texts_that_it_cannot_read_or_write(spark: SparkSession) -> None:
    with pytest.raises(DataError, match="cannot read a time from value, which is of type int"):
        applied(spark, Records("INT", []), step("TimestampConverter$Value", {"target.type": "unix"}))
    with pytest.raises(DataError, match="needs a format to read the text"):
        applied(spark, Records("STRING", []), step("TimestampConverter$Value", {"target.type": "unix"}))
    with pytest.raises(ConfigError, match=r"set spark\.sql\.timeType\.enabled=true"):
        applied(spark, Records("BIGINT", []), step("TimestampConverter$Value", {"target.type": "Time"}))


def test_timestamp_converter_reads_and_writes_times_where_spark_has_them(spark: SparkSession) -> None:
    session = spark.newSession()
    session.conf.set("spark.sql.timeType.enabled", "true")
    time = step("TimestampConverter$Value", {"target.type": "Time"})
    number = step("TimestampConverter$Value", {"target.type": "unix"})
    assert applied(session, Records("BIGINT", [{"value": MILLIS}]), time, number) == [9_000_123]


def test_a_schemas_name_and_version_reach_the_envelope(spark: SparkSession) -> None:
    name = step("SetSchemaMetadata$Value", {"schema.name": "org.Person"})
    version = step("SetSchemaMetadata$Value", {"schema.version": "2"})
    assert "name" not in named(PEOPLE, spark)
    described = named(PEOPLE, spark, name, version)
    assert list(described) == ["type", "fields", "optional", "name", "version"]
    assert (described["name"], described["version"]) == ("org.Person", 2)
    assert applied(spark, PEOPLE, name) == [{"id": 1, "name": "Ada"}, None]


def test_a_transform_with_a_predicate_leaves_a_schemas_name_and_may_not_set_one(spark: SparkSession) -> None:
    name = step("SetSchemaMetadata$Value", {"schema.name": "org.Person"})
    routed = Step(step("RegexRouter", {"regex": "t", "replacement": "u"}).transform, predicate("RecordIsTombstone"))
    assert named(PEOPLE, spark, name, routed)["name"] == "org.Person"
    with pytest.raises(ConfigError, match="has a predicate, but changes the name or version of the value's schema"):
        named(PEOPLE, spark, Step(name.transform, predicate("RecordIsTombstone")))


def test_a_schemas_name_needs_a_struct_and_something_to_set(spark: SparkSession) -> None:
    with pytest.raises(ConfigError, match="nothing to set"):
        step("SetSchemaMetadata$Value")
    with pytest.raises(DataError, match="needs a value that is a struct"):
        named(Records("STRING", []), spark, step("SetSchemaMetadata$Value", {"schema.name": "n"}))


def test_structs_of_different_names_differ(spark: SparkSession) -> None:
    fields = PEOPLE.frame(spark).schema.fields
    assert NamedStruct(fields, {"name": "a"}) == NamedStruct(fields, {"name": "a"})
    assert NamedStruct(fields, {"name": "a"}) != NamedStruct(fields, {"name": "b"})
