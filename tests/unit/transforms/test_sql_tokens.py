"""Errors of expressions before there are records, found by their tokens and by Spark's parser."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from fencepost import ConfigError
from fencepost.transforms.sql import Sql, SqlPredicate
from fencepost.transforms.sql_functions import ALLOWED
from fencepost.transforms.sql_table import ContentBasedRouter, DebeziumFilter
from fencepost.transforms.sql_tokens import DEEPEST, LONGEST, why_refused
from tests.unit.transforms.test_sql_refusals import FORMS, FUNCTIONS

REFUSED = [
    ("reflect('java.lang.System', 'getenv', 'PATH')", "function reflect is not allowed"),
    ("upper(`java_method`('a', 'b'))", "function java_method is not allowed"),
    ("sum(value.id) + 1", "function sum is not allowed"),
    ("key IN (SELECT 1)", "sub-query"),
    ("uuid()", "uuid gives another result each time"),
    ("upper(key", "1 of its brackets are not closed"),
    ("upper(key))", "closes nothing"),
    ("(value.items[1)]", "closes nothing"),
    ("concat('a, key)", "what ' begins is not closed"),
    ("`a", "what ` begins is not closed"),
    ("key /* a", r"what /\* begins is not closed"),
    ("(" * (DEEPEST + 1) + "1" + ")" * (DEEPEST + 1), "nested more than"),
    (f"'{'a' * LONGEST}'", "characters, and"),
    (f"CAST(NULL AS {'ARRAY<' * 3_000}INT{'>' * 3_000})", "types that are nested more than"),
    (f"CAST(NULL AS {'array /*>*/ <' * 33}INT{'>' * 33})", "types that are nested more than"),
]
ACCEPTED = [
    "value.sum(1)", "value.`count`", "'sum(1)'", "r'\\'", 'concat("it\'s (", key)', "key -- sum(1", "/* sum(1 */ key",
    "'it\\'s (' || key", "key LIKE ANY ('a', 'b')", "CAST(value.id AS DECIMAL(10, 2))", "value.a IN ('select', 'b')",
    "transform(value.items, (x, i) -> x)", "CASE WHEN (key) = ('a') THEN (1) END", "value.a[0]['b']", "'${env:PATH}'",
    "value.a < 1 AND value.map < 2", f"CAST(NULL AS {'ARRAY<' * 32}INT{'>' * 32})", "1 < 2 OR " * 99 + "true",
    "EXTRACT(YEAR FROM value.at)", "named_struct('a', value.`it``s (`)", "TIMESTAMPADD(DAY, 1, value.at)",
]  # fmt: skip


@pytest.mark.parametrize(("text", "match"), REFUSED)
def test_the_words_of_an_expression_show_what_is_refused(text: str, match: str) -> None:
    with pytest.raises(ConfigError, match=match) as caught:
        Sql().configure({"where": text})
    assert caught.value.name == "where"
    assert len(str(caught.value)) < 2_000


@pytest.mark.parametrize("text", [*ACCEPTED, *(f"{name}(key)" for name in sorted(ALLOWED))])
def test_words_refuse_nothing_that_may_be_right(text: str) -> None:
    assert why_refused(text, nondeterministic=False) is None


@pytest.mark.parametrize(
    ("text", "match"),
    [
        (f"from_json(value, 'a {'ARRAY<' * 33}INT{'>' * 33}')", "types that are nested more than 32 deep"),
        (f"from_json(value, 'a {'ARRAY' + chr(92) + 'u003c'}{'ARRAY<' * 32}INT{'>' * 33}')", "nested more than 32 deep"),
        ("from_json(value, concat(repeat('ARRAY<', 3000), 'INT', repeat('>', 3000)))", "needs its schema as a text"),
        (f"from_csv(value, schema_of_json('{'[' * 33}{']' * 33}'))", "more than 32 arrays and objects"),
        ("9" * 3_000, "DECIMAL_PRECISION_EXCEEDS_MAX_PRECISION"),
    ],
)  # fmt: skip
def test_what_would_occupy_the_parser_is_refused(spark: SparkSession, text: str, match: str) -> None:
    assert spark.version
    with pytest.raises(ConfigError, match=match):
        Sql().configure({"value": text})


@pytest.mark.parametrize("schema", ["'a INT, b ARRAY<INT>'", "schema_of_json('{\"a\": [1]}')"])
def test_a_schema_may_be_a_text_or_an_example(spark: SparkSession, schema: str) -> None:
    assert spark.version
    Sql().configure({"value": f"from_json(value, {schema})"})


def test_a_present_time_is_accepted_if_asked_for() -> None:
    assert why_refused("now()", nondeterministic=True) is None


@pytest.mark.parametrize("text", [*FUNCTIONS, *FORMS, "no_such(key)", "key +", "no.such.column", "1 2", "a b c"])
def test_with_a_session_all_that_is_wrong_is_found_before_the_first_record(spark: SparkSession, text: str) -> None:
    assert spark.version
    for plugin, name, more in (
        (Sql(), "value", {}),
        (SqlPredicate(), "condition", {}),
        (DebeziumFilter(), "condition", {"language": "sql"}),
        (ContentBasedRouter(), "topic.expression", {"language": "sql"}),
    ):
        with pytest.raises(ConfigError, match=f"does not accept {name}=") as caught:
            plugin.configure({name: text, **more})
        assert caught.value.name == name


def test_item_is_a_column_only_with_explode(spark: SparkSession) -> None:
    assert spark.version
    Sql().configure({"explode": "value.items", "value": "item"})
    for properties in ({"value": "item"}, {"explode": "item"}):
        with pytest.raises(ConfigError, match="no column 'item'"):
            Sql().configure(properties)


@pytest.mark.parametrize(
    "text", ["1" + "+1" * 10_000, "-" * 1 + " -" * 5_000 + "1", "NOT " * 5_000 + "true", "key" + ".a" * 10_000]
)
def test_an_expression_that_is_nested_without_brackets_is_refused(spark: SparkSession, text: str) -> None:
    assert spark.version
    with pytest.raises(ConfigError, match=r"nested more than|does not accept"):
        Sql().configure({"value": text})
