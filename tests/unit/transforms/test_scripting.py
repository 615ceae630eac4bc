"""Debezium's Filter and ContentBasedRouter with language=sql."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from fencepost import ConfigError
from fencepost.transforms.base import is_planned_by_schema
from fencepost.transforms.sql_table import ContentBasedRouter, DebeziumFilter
from fencepost.transforms.sql_translation import translated
from tests.unit.transforms.support import Records, applied, debezium

EVENTS = Records(
    "STRUCT<op: STRING, after: STRUCT<id: INT>>",
    [
        {"key": "a", "value": ("c", (1,))},
        {"key": "b", "value": ("u", (2,))},
        {"key": "c", "value": ("u", (2,)), "topic": "other"},
        {"key": "d", "value": None},
    ],
    key="STRING",
)


@pytest.mark.parametrize(
    ("more", "kept"),
    [
        ({}, ["b", "c", "d"]),
        ({"null.handling.mode": "drop"}, ["b", "c"]),
        ({"null.handling.mode": "evaluate"}, ["b", "c"]),
        ({"topic.regex": "oth.*"}, ["a", "b", "c", "d"]),
        ({"topic.regex": "oth"}, ["a", "b", "c", "d"]),
        ({"topic.regex": "t", "condition": "value.op = 'c' -- creations"}, ["a", "c", "d"]),
    ],
)
def test_the_filter_keeps_what_its_condition_selects(
    spark: SparkSession, more: dict[str, str], kept: list[str]
) -> None:
    given = {"language": "sql", "condition": "value.op = 'u' AND value.after.id = 2"}
    assert applied(spark, EVENTS, debezium("Filter", given | more), column="key") == kept


@pytest.mark.parametrize(
    ("more", "topics"),
    [
        ({}, ["t", "updates", "updates", "t"]),
        ({"topic.regex": "t"}, ["t", "updates", "other", "t"]),
        ({"null.handling.mode": "drop"}, ["t", "updates", "updates"]),
        ({"null.handling.mode": "drop", "topic.regex": "other"}, ["t", "t", "updates", "t"]),
        ({"null.handling.mode": "evaluate", "topic.expression": "coalesce(value.op, 'gone')"}, ["c", "u", "u", "gone"]),
    ],
)
def test_the_router_takes_the_topic_of_its_expression(
    spark: SparkSession, more: dict[str, str], topics: list[str]
) -> None:
    given = {"language": "sql", "topic.expression": "if(value.op = 'u', 'updates', NULL)"}
    assert applied(spark, EVENTS, debezium("ContentBasedRouter", given | more), column="topic") == topics


@pytest.mark.parametrize("language", ["jsr223.groovy", "jsr223.graal.js", "wasm.chicory"])
def test_another_language_is_refused_with_the_expression_in_sql(language: str) -> None:
    with pytest.raises(
        ConfigError, match=r"language=sql and condition=value.op = 'u' AND value.before.id = 2"
    ) as error:
        debezium("Filter", {"language": language, "condition": 'value.op == "u" && value.before.id == 2'})
    assert error.value.name == "language"
    with pytest.raises(ConfigError, match=r"topic.expression=if\(value.op = 'u', 'updates', NULL\)"):
        debezium("ContentBasedRouter", {"language": language, "topic.expression": "value.op == 'u' ? 'updates' : null"})


@pytest.mark.parametrize(
    ("groovy", "sql"),
    [
        ("value.op == 'u'", "value.op = 'u'"),
        ("value.op != 'u' || value.after?.id == null", "value.op <> 'u' OR value.after.id IS NULL"),
        ("!(value.after.id === 1)", "NOT (value.after.id = 1)"),
        ("value.after != null", "value.after IS NOT NULL"),
        ('value.name == "it\'s && that"', "value.name = 'it\\'s && that'"),
    ],
)
def test_comparisons_are_translated(groovy: str, sql: str) -> None:
    assert translated(groovy) == sql


def test_a_hostile_condition_is_refused_as_in_sql(spark: SparkSession) -> None:
    for condition in ("reflect('a', 'b') = 'c'", "EXISTS (SELECT 1)", "true) END, (SELECT 1"):
        with pytest.raises(ConfigError, match="DebeziumFilter does not accept condition="):
            applied(spark, EVENTS, debezium("Filter", {"language": "sql", "condition": condition}))


def test_plans_are_kept() -> None:
    assert is_planned_by_schema(debezium("Filter", {"language": "sql", "condition": "true"}).transform)
    assert {DebeziumFilter.__name__, ContentBasedRouter.__name__} == {"DebeziumFilter", "ContentBasedRouter"}
