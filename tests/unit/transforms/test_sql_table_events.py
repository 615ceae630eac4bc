"""Debezium's transforms of change events, headers and partitions, under their Java names."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pyspark.sql import SparkSession

from fencepost import ConfigError, DataError
from fencepost.transforms.chain import apply_chain
from tests.unit.transforms.support import Records, plain
from tests.unit.transforms.test_sql_table import DEBEZIUM, step

ROW = "STRUCT<id: BIGINT, name: STRING, m: MAP<STRING, INT>, `x'.``y`: INT>"
EVENTS = Records(
    f"STRUCT<before: {ROW}, after: {ROW}, source: STRUCT<table: STRING>, op: STRING>",
    [
        {"value": (None, (7, "ada", {"a": 1}, 1), ("t",), "c"), "headers": [("h", b"1")]},
        {"value": ((7, "ada", {"a": 1}, 1), (7, "bob", {"a": 1}, 2), ("t",), "u"), "partition": 3},
        {"value": ((7, "bob", None, None), None, ("t",), "d")},
        {"value": (None, None, ("t",), "t"), "partition": 5},
        {"value": None, "partition": 6},
    ],
)


def column(spark: SparkSession, name: str, *steps: Any, records: Records = EVENTS) -> list[Any]:
    return [plain(row[name]) for row in apply_chain(records.frame(spark), steps).collect()]


def java_hash(value: Any) -> int:
    """hashCode() of Java's String, Long and Boolean."""
    if isinstance(value, bool):
        return 1231 if value else 1237
    if isinstance(value, int):
        return (value ^ ((value & (1 << 64) - 1) >> 32)) & 0xFFFFFFFF
    encoded, found = value.encode("utf-16-be"), 0
    for position in range(0, len(encoded), 2):
        found = (31 * found + int.from_bytes(encoded[position : position + 2], "big")) & 0xFFFFFFFF
    return found


def partition(*values: Any, count: int = 100) -> int:
    return (sum(java_hash(value) for value in values) & 0x7FFFFFFF) % 0x7FFFFFFF % count


def routing(fields: str, count: int = 100, **more: str) -> Any:
    given = {"partition_payload_fields": fields, "partition_topic_num": str(count), **more}
    return step(f"{DEBEZIUM}partitions.PartitionRouting", **given)


def test_partitions_are_chosen_as_by_java(spark: SparkSession) -> None:
    assert java_hash("hello") == 99162322
    found = column(spark, "partition", routing("change.name, change.id"))
    assert found == [partition("ada", 7), partition("bob", 7), partition("bob", 7), 5, 6]
    assert column(spark, "partition", routing("source.table"))[:3] == [partition("t")] * 3


@pytest.mark.parametrize("value", ["", "grün", "𝄞 clef", "a" * 1000, -1, -(1 << 63), (1 << 63) - 1, True, False])
def test_any_text_and_number_has_the_hash_of_java(spark: SparkSession, value: Any) -> None:
    kind = {bool: "BOOLEAN", int: "BIGINT", str: "STRING"}[type(value)]
    records = Records(
        f"STRUCT<before: STRUCT<a: {kind}>, after: STRUCT<a: {kind}>, source: STRUCT<b: INT>, op: STRING>",
        [{"value": (None, (value,), (1,), "c")}],
    )
    assert column(spark, "partition", routing("after.a", 1000), records=records) == [partition(value, count=1000)]


@pytest.mark.parametrize(("value", "expected"), [(2147483647, 0), (2147483646, 46), (7, 7), (-1, 0), ("hello", 22)])
def test_partitions_are_what_the_java_class_computes(spark: SparkSession, value: Any, expected: int) -> None:
    """Output of PartitionRouting in Debezium 3.6.1, which treats the largest hash as 0."""
    kind = "STRING" if isinstance(value, str) else "BIGINT"
    records = Records(
        f"STRUCT<before: STRUCT<a: {kind}>, after: STRUCT<a: {kind}>, source: STRUCT<b: INT>, op: STRING>",
        [{"value": (None, (value,), (1,), "c")}],
    )
    assert column(spark, "partition", routing("after.a", 100), records=records) == [expected]


MURMUR = {
    "STRING": {
        "hello": 671093217,
        "": 89125410,
        "é": 646796076,
        "𝄞 clef": 789363213,
        "日本語のテキスト": 330869195,
        "1234567é": 567680118,
        "123456789abcdeé": 553709285,
        "123456789abcdef0": 666215206,
        "éééééééé": 575081930,
        "a" * 1000: 79423963,
        "é" * 999 + "x": 246802643,
        "\0": 360361897,
        None: None,
    },
    "TINYINT": {-1: 171705313},
    "SMALLINT": {-300: 513531757},
    "INT": {0: 805505882, 128: 94871036, -(1 << 31): 350265485, None: None},
    "BIGINT": {7: 362943179, -1: 805505882, 1234567890123: 518237802},
    "BOOLEAN": {True: 255652383, False: 465108184},
}
"""Output of PartitionRouting in Debezium 3.7.0."""


@pytest.mark.parametrize("kind", MURMUR)
def test_partitions_by_murmur_are_what_the_java_class_computes(spark: SparkSession, kind: str) -> None:
    records = Records(
        f"STRUCT<before: STRUCT<a: {kind}>, after: STRUCT<a: {kind}>, source: STRUCT<b: INT>, op: STRING>",
        [{"value": (None, (value,), (1,), "c")} for value in MURMUR[kind]],
    )
    routed = routing("after.a", 1_000_000_007, partition_hash_function="murmur")
    assert column(spark, "partition", routed, records=records) == list(MURMUR[kind].values())


def test_events_without_the_fields_keep_their_partition(spark: SparkSession) -> None:
    assert column(spark, "partition", routing("after.no, change.no, no")) == [None, 3, None, 5, 6]
    with pytest.raises(DataError, match=r"cannot hash after\.m, which is of type map"):
        column(spark, "partition", routing("after.m"))


@pytest.mark.parametrize(
    ("properties", "match"),
    [
        ({"partition_topic_num": "0"}, "partition.topic.num"),
        ({"partition_payload_fields": ""}, "partition.payload.fields"),
        ({"partition_hash_function": "md5"}, "partition.hash.function"),
    ],
)
def test_a_routing_without_sense_is_refused(properties: dict[str, str], match: str) -> None:
    given = {"partition_payload_fields": "a", "partition_topic_num": "1"}
    with pytest.raises(ConfigError, match=match):
        step(f"{DEBEZIUM}partitions.PartitionRouting", **{**given, **properties})


def test_updates_list_what_they_changed(spark: SparkSession) -> None:
    names = {"header_changed_name": "it's", "header_unchanged_name": "same"}
    headers = column(spark, "headers", step(f"{DEBEZIUM}ExtractChangedRecordState", **names))
    assert headers[0] == [{"key": "h", "value": b"1"}]
    assert [(header["key"], json.loads(header["value"])) for header in headers[1]] == [
        ("it's", ["name", "x'.`y"]), ("same", ["id", "m"]),
    ]  # fmt: skip
    assert headers[2:] == [[], [], []]


def test_without_names_no_header_is_added(spark: SparkSession) -> None:
    assert column(spark, "headers", step(f"{DEBEZIUM}ExtractChangedRecordState"))[1] is None


HEADED = Records(
    "STRUCT<id: INT, in: STRUCT<a: INT>>",
    [
        {"value": (1, (2,)), "headers": [("h", b"0"), ("h", b"1"), ("i'", b"x")]},
        {"value": (1, None), "headers": None},
        {"value": None, "headers": [("h", b"1")]},
    ],
)


def test_headers_become_fields(spark: SparkSession) -> None:
    given = {"headers": "h,i'", "fields": "in.h`,i", "operation": "move"}
    frame = apply_chain(HEADED.frame(spark), [step(f"{DEBEZIUM}HeaderToValue", **given)]).collect()
    assert [plain(row["value"]) for row in frame] == [
        {"id": 1, "in": {"a": 2, "h`": "1"}, "i": "x"}, {"id": 1, "in": None, "i": None}, None,
    ]  # fmt: skip
    assert [plain(row["headers"]) for row in frame] == [[], [], [{"key": "h", "value": b"1"}]]
    copied = step(f"{DEBEZIUM}HeaderToValue", **{**given, "operation": "copy"})
    assert len(column(spark, "headers", copied, records=HEADED)[0]) == 3


@pytest.mark.parametrize(
    ("fields", "match"), [("id", "there already"), ("no.x", "struct value.no"), ("id.x", "needs a struct in value.id")]
)
def test_fields_that_cannot_be_added_are_refused(spark: SparkSession, fields: str, match: str) -> None:
    wanted = step(f"{DEBEZIUM}HeaderToValue", headers="h", fields=fields, operation="copy")
    with pytest.raises(DataError, match=match):
        column(spark, "value", wanted, records=HEADED)


def test_each_header_needs_a_field_of_its_own() -> None:
    for fields in ("a", "a,a"):
        with pytest.raises(ConfigError, match="fields"):
            step(f"{DEBEZIUM}HeaderToValue", headers="h,i", fields=fields, operation="copy")
