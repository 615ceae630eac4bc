"""Small transforms of other vendors, under their Java names."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from fencepost import ConfigError, DataError
from fencepost.config.plugin_sources import ANY_MODULE
from fencepost.config.plugins import PluginKind, find_plugin
from fencepost.transforms.chain import Step, apply_chain
from tests.unit.transforms.support import Records, plain

AIVEN, CONFLUENT, DEBEZIUM = (
    "io.aiven.kafka.connect.transforms.",
    "io.confluent.connect.transforms.",
    "io.debezium.transforms.",
)
RECORDS = Records(
    "STRUCT<id: INT, name: STRING>",
    [{"key": (1,), "value": (7, "ada")}, {"key": (2,), "value": (8, None)}, {"key": None, "value": None}],
    key="STRUCT<id: INT>",
)


def step(name: str, **properties: str) -> Step:
    transform: Any = find_plugin(PluginKind.TRANSFORMATION, name, property_name="type", sources=ANY_MODULE)()
    transform.configure({key.replace("_", "."): value for key, value in properties.items()})
    return Step(transform)


def column(spark: SparkSession, name: str, wanted: Step) -> list[Any]:
    return [plain(row[name]) for row in apply_chain(RECORDS.frame(spark), [wanted]).collect()]


@pytest.mark.parametrize(("prefix", "field"), [(CONFLUENT, "field"), (AIVEN, "field_name")])
def test_extract_topic_takes_a_field(spark: SparkSession, prefix: str, field: str) -> None:
    skipping = {"skip_missing_or_null": "true"}
    assert column(spark, "topic", step(f"{prefix}ExtractTopic$Value", **{field: "name"}, **skipping)) == [
        "ada",
        "t",
        "t",
    ]
    assert column(spark, "topic", step(f"{prefix}ExtractTopic$Value", **{field: "no"}, **skipping)) == ["t"] * 3
    assert column(spark, "topic", step(f"{prefix}ExtractTopic$Key", **{field: "id"}, **skipping)) == ["1", "2", "t"]
    with pytest.raises(PySparkException, match="no field name for the topic"):
        column(spark, "topic", step(f"{prefix}ExtractTopic$Value", **{field: "name"}))
    with pytest.raises(DataError, match=r"needs the field value.no") as failure:
        column(spark, "topic", step(f"{prefix}ExtractTopic$Value", **{field: "no"}))
    assert failure.value.name is None, "it is named by an expression that no user wrote"


def test_extract_topic_takes_no_path() -> None:
    """Confluent's class has JSON_PATH.

    Taken as a field name, it would be missing in each record, which may be skipped silently.
    """
    step(f"{CONFLUENT}ExtractTopic$Value", field="a", field_format="plain")
    with pytest.raises(ConfigError, match=r"field\.format"):
        step(f"{CONFLUENT}ExtractTopic$Value", field="$.a", field_format="JSON_PATH", skip_missing_or_null="true")


@pytest.mark.parametrize("function", ["md5", "sha1", "sha256"])
def test_hash_replaces_a_field_in_its_place(spark: SparkSession, function: str) -> None:
    wanted = step(f"{AIVEN}Hash$Value", field_name="name", function=function, skip_missing_or_null="true")
    digest = hashlib.new(function, b"ada").hexdigest()
    assert column(spark, "value", wanted) == [{"id": 7, "name": digest}, {"id": 8, "name": None}, None]
    assert column(spark, "key", wanted) == [{"id": 1}, {"id": 2}, None]


@pytest.mark.parametrize(
    ("properties", "kept"),
    [
        ({"field_value": "ada"}, [7]),
        ({"field_value_pattern": "a.."}, [7]),
        ({"field_value_pattern": "a"}, []),
        ({"field_value": "ada", "field_value_matches": "false"}, [8, None]),
        ({"field_value": "it's \\ '"}, []),
    ],
)
def test_filter_by_field_value_keeps_matching_records(
    spark: SparkSession, properties: dict[str, str], kept: list[Any]
) -> None:
    found = column(spark, "value", step(f"{AIVEN}FilterByFieldValue", field_name="name", **properties))
    assert [value and value["id"] for value in found] == kept


def test_filter_by_field_value_needs_one_of_two() -> None:
    with pytest.raises(ConfigError, match="Set one of"):
        step(f"{AIVEN}FilterByFieldValue", field_name="name")


def test_tombstones_are_made_dropped_or_refused(spark: SparkSession) -> None:
    assert column(spark, "value", step(f"{AIVEN}MakeTombstone")) == [None] * 3
    for prefix in (AIVEN, CONFLUENT):
        assert len(column(spark, "key", step(f"{prefix}TombstoneHandler"))) == 2
        assert len(column(spark, "key", step(f"{prefix}TombstoneHandler", behavior="ignore"))) == 3
        with pytest.raises(PySparkException, match="behavior=fail"):
            column(spark, "key", step(f"{prefix}TombstoneHandler", behavior="fail"))


def test_tables_become_one_topic_whose_keys_differ(spark: SparkSession) -> None:
    wanted = {"topic_regex": "(.)", "topic_replacement": "all-$1"}
    router = step(f"{DEBEZIUM}ByLogicalTableRouter", **wanted)
    assert column(spark, "topic", router) == ["all-t"] * 3
    assert column(spark, "key", router) == [
        {"id": 1, "__dbz__physicalTableIdentifier": "t"}, {"id": 2, "__dbz__physicalTableIdentifier": "t"}, None,
    ]  # fmt: skip
    named = step(
        f"{DEBEZIUM}ByLogicalTableRouter", **wanted, key_field_name="from`", key_field_regex="(.)",
        key_field_replacement="table-$1",
    )  # fmt: skip
    assert column(spark, "key", named)[0] == {"id": 1, "from`": "table-t"}
    plain_keys = step(f"{DEBEZIUM}ByLogicalTableRouter", **wanted, key_enforce_uniqueness="false")
    assert column(spark, "key", plain_keys)[0] == {"id": 1}


@pytest.mark.parametrize(
    ("properties", "name"),
    [
        ({"topic_replacement": "all-$2"}, "topic.replacement"),
        ({"topic_replacement": ""}, "topic.replacement"),
        ({"key_field_regex": "(.)"}, "key.field.replacement"),
        ({"key_field_regex": "(.)", "key_field_replacement": "${table}"}, "key.field.replacement"),
    ],
)
def test_a_replacement_that_would_not_tell_tables_apart_is_refused(properties: dict[str, str], name: str) -> None:
    given = {"topic_regex": "(.)", "topic_replacement": "all", **properties}
    with pytest.raises(ConfigError, match="replacement") as error:
        step(f"{DEBEZIUM}ByLogicalTableRouter", **given)
    assert error.value.name == name
