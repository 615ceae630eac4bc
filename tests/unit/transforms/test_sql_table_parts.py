"""Confluent's and Aiven's transforms of keys, values, timestamps and topics, under their Java names."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from fencepost import ConfigError, DataError
from fencepost.transforms.chain import apply_chain
from tests.unit.transforms.support import Records, plain
from tests.unit.transforms.test_sql_table import AIVEN, CONFLUENT, step

RECORDS = Records(
    "STRUCT<id: INT, `a.b``c`: BINARY, at: TIMESTAMP, n: BIGINT, s: STRING>",
    [
        {"key": b"k", "value": (7, b"x\xff", datetime(2024, 1, 1, tzinfo=UTC), 5, 'say "hi"')},
        {"key": None, "value": None, "timestamp": 1},
    ],
    key="BINARY",
)
FIRST = RECORDS.with_rows(RECORDS.rows[0])


def column(spark: SparkSession, name: str, *steps: Any, records: Records = FIRST) -> list[Any]:
    return [plain(row[name]) for row in apply_chain(records.frame(spark), steps).collect()]


@pytest.mark.parametrize("behavior", ["nullify", "retain", "validate", "force_optional"])
def test_drop_makes_nulls_of_keys_or_values(spark: SparkSession, behavior: str) -> None:
    for part, name in (("Key", "key"), ("Value", "value")):
        dropped = apply_chain(RECORDS.frame(spark), [step(f"{CONFLUENT}Drop${part}", schema_behavior=behavior)])
        assert [row[name] for row in dropped.collect()] == [None, None]
        kept = dropped.schema[name].dataType == RECORDS.frame(spark).schema[name].dataType
        assert kept == (behavior != "nullify")


def test_timestamps_come_from_a_field_of_either_type(spark: SparkSession) -> None:
    for prefix in (CONFLUENT, AIVEN):
        assert column(spark, "timestamp", step(f"{prefix}ExtractTimestamp$Value", field_name="n")) == [5]
        found = column(spark, "timestamp", step(f"{prefix}ExtractTimestamp$Value", field_name="at"))
        assert found == [1704067200000]
    seconds = step(f"{AIVEN}ExtractTimestamp$Value", field_name="n", timestamp_resolution="seconds")
    assert column(spark, "timestamp", seconds) == [5000]


def test_a_record_without_the_time_is_refused(spark: SparkSession) -> None:
    wanted = step(f"{CONFLUENT}ExtractTimestamp$Value", field_name="n")
    with pytest.raises(PySparkException, match=r"no timestamp in value\.n"):
        column(spark, "timestamp", wanted, records=RECORDS)
    with pytest.raises(DataError, match=r"BIGINT or a TIMESTAMP in value\.s"):
        column(spark, "timestamp", step(f"{CONFLUENT}ExtractTimestamp$Value", field_name="s"))
    with pytest.raises(DataError, match=r"the field value\.no"):
        column(spark, "timestamp", step(f"{CONFLUENT}ExtractTimestamp$Value", field_name="no"))


@pytest.mark.parametrize(
    ("topic", "before", "after", "expected"),
    [
        ("user-events", "LOWER_HYPHEN", "UPPER_CAMEL", "UserEvents"),
        ("user_events", "LOWER_UNDERSCORE", "LOWER_CAMEL", "userEvents"),
        ("UserEvents", "UPPER_CAMEL", "LOWER_UNDERSCORE", "user_events"),
        ("userEventsX", "LOWER_CAMEL", "UPPER_UNDERSCORE", "USER_EVENTS_X"),
        ("USER_EVENTS", "UPPER_UNDERSCORE", "LOWER_HYPHEN", "user-events"),
        ("as_it_is", "LOWER_UNDERSCORE", "LOWER_UNDERSCORE", "as_it_is"),
        ("Plain", "lower_hyphen", "upper_underscore", "PLAIN"),
    ],
)
def test_topics_get_another_case(spark: SparkSession, topic: str, before: str, after: str, expected: str) -> None:
    wanted = step(f"{CONFLUENT}ChangeTopicCase", **{"from": before, "to": after})
    assert column(spark, "topic", wanted, records=RECORDS.with_rows({"topic": topic})) == [expected]


def test_the_topic_regex_router_is_the_regex_router(spark: SparkSession) -> None:
    router = step("io.confluent.connect.cloud.transforms.TopicRegexRouter", regex="(.)", replacement="$1-x")
    assert column(spark, "topic", router) == ["t-x"]


def test_a_value_becomes_json(spark: SparkSession) -> None:
    (text, nothing) = column(spark, "value", step(f"{CONFLUENT}ToJSON$Value"), records=RECORDS)
    assert nothing is None
    assert json.loads(text) == {
        "id": 7, "a.b`c": "eP8=", "at": "2024-01-01T00:00:00.000Z", "n": 5, "s": 'say "hi"',
    }  # fmt: skip
    assert column(spark, "key", step(f"{CONFLUENT}ToJSON$Key", output_schema_type="BYTES")) == [b'"aw=="']
    with pytest.raises(ConfigError, match=r"schemas\.enable=false"):
        step(f"{CONFLUENT}ToJSON$Value", schemas_enable="true")


@pytest.mark.parametrize(("kind", "value", "json_text"), [("STRING", 'a"}\n', r'"a\"}\n"'), ("DOUBLE", 1.5, "1.5")])
def test_a_value_without_fields_becomes_json(spark: SparkSession, kind: str, value: Any, json_text: str) -> None:
    records = Records(kind, [{"value": value}, {"value": None}])
    assert column(spark, "value", step(f"{CONFLUENT}ToJSON$Value"), records=records) == [json_text, None]


def test_bytes_become_texts(spark: SparkSession) -> None:
    assert column(spark, "key", step(f"{CONFLUENT}BytesToString$Key"), records=RECORDS) == ["k", None]
    some = column(spark, "value", step(f"{CONFLUENT}BytesToString$Value", fields="a.b`c, not.there"), records=RECORDS)
    assert some[0]["a.b`c"] == "x\ufffd"
    assert some[1] is None
    latin = step(f"{CONFLUENT}BytesToString$Value", fields="a.b`c", charset="iso-8859-1")
    assert column(spark, "value", latin)[0]["a.b`c"] == "xÿ"
    with pytest.raises(DataError, match=r"needs bytes in value\.s"):
        column(spark, "value", step(f"{CONFLUENT}BytesToString$Value", fields="s"))
    with pytest.raises(ConfigError, match="charset"):
        step(f"{CONFLUENT}BytesToString$Value", charset="EBCDIC")
