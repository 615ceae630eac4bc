"""Fields within structs, named by paths: `field.syntax.version=V2`."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import types as t

from fencepost import ConfigError, DataError
from fencepost.transforms.chain import apply_chain
from fencepost.transforms.field_paths import field_path
from tests.unit.transforms.support import Records, applied, step

V2 = {"field.syntax.version": "V2"}
NESTED = Records(
    "STRUCT<id: INT, `a.b`: INT, a: STRUCT<b: STRING, c: STRUCT<d: BIGINT, e: STRING>>, other: STRUCT<x: INT NOT NULL>>",
    [{"value": (1, 2, ("text", (5_000, "e")), (9,)), "partition": 3}, {"value": (1, 2, None, None)}, {"value": None}],
)

FULL: dict[str, Any] = {"id": 1, "a.b": 2, "a": {"b": "text", "c": {"d": 5_000, "e": "e"}}, "other": {"x": 9}}


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("a", ("a",)),
        ("a.b", ("a", "b")),
        ("`a.b`", ("a.b",)),
        ("`a.b`.c.`d.e`", ("a.b", "c", "d.e")),
        ("a.`b.c`.d", ("a", "b.c", "d")),
        ("a`b.c", ("a`b", "c")),
        ("`a`b`.c", ("a`b", "c")),
        (r"`a\`.b`.c", ("a`.b", "c")),
        ("a.", ("a", "")),
        ("`a`.", ("a", "")),
        (".a", ("", "a")),
    ],
)
def test_a_path_has_names_between_dots_or_in_backticks(text: str, path: tuple[str, ...]) -> None:
    assert field_path(text, V2, "field") == path
    assert field_path(text, {"field.syntax.version": "V1"}, "field") == (text,)


@pytest.mark.parametrize("text", ["`a", "`a.b", "a.`b", r"`a\`"])
def test_a_backtick_that_is_not_closed_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"field has the path .* backtick"):
        step("ExtractField$Value", {"field": text, **V2})


def test_a_dot_is_part_of_a_name_unless_paths_are_asked_for(spark: SparkSession) -> None:
    for properties, expected in (({}, [2, 2, None]), (V2, ["text", None, None])):
        assert applied(spark, NESTED, step("ExtractField$Value", {"field": "a.b", **properties})) == expected


CHANGED = {
    "Cast": (
        step("Cast$Value", {"spec": "a.c.d:string,`a.b`:string", **V2}),
        {**FULL, "a.b": "2", "a": {"b": "text", "c": {"d": "5000", "e": "e"}}},
    ),
    "MaskField": (
        step("MaskField$Value", {"fields": "a.c.e,a.b", **V2}),
        {**FULL, "a": {"b": "", "c": {"d": 5_000, "e": ""}}},
    ),
    "ReplaceField, excluded and renamed": (
        step("ReplaceField$Value", {"exclude": "a.c.e,`a.b`", "renames": "a.c.d:D,id:ID", **V2}),
        {"ID": 1, "a": {"b": "text", "c": {"D": 5_000}}, "other": {"x": 9}},
    ),
    "ReplaceField, included": (
        step("ReplaceField$Value", {"include": "a.c,id", "exclude": "a.c.e", **V2}),
        {"id": 1, "a": {"c": {"d": 5_000}}},
    ),
    "TimestampConverter": (
        step("TimestampConverter$Value", {"field": "a.c.d", "target.type": "string", "format": "ss", **V2}),
        {**FULL, "a": {"b": "text", "c": {"d": "05", "e": "e"}}},
    ),
    "InsertField": (
        step("InsertField$Value", {"static.field": "a.c.s", "static.value": "v", "partition.field": "a.p?", **V2}),
        {**FULL, "a": {"b": "text", "c": {"d": 5_000, "e": "e", "s": "v"}, "p": 3}},
    ),
    "HeaderFrom": (
        step("HeaderFrom$Value", {"fields": "a.c.d,id", "headers": "d,i", "operation": "move", **V2}),
        {"a.b": 2, "a": {"b": "text", "c": {"e": "e"}}, "other": {"x": 9}},
    ),
}


@pytest.mark.parametrize("name", CHANGED)
def test_a_field_within_structs_is_changed(spark: SparkSession, name: str) -> None:
    """A null struct around the field stays null."""
    chain, expected = CHANGED[name]
    found, nulls, nothing = applied(spark, NESTED, chain)
    assert found == expected
    assert nulls.get("a") is None
    assert nothing is None


def test_structs_without_a_named_field_keep_their_schema(spark: SparkSession) -> None:
    changed = apply_chain(NESTED.frame(spark), [step("ReplaceField$Value", {"exclude": "a.c.e", **V2})])
    kind = changed.schema["value"].dataType
    assert isinstance(kind, t.StructType)
    assert kind["other"].dataType == t.StructType([t.StructField("x", t.IntegerType(), nullable=False)])


def test_headers_and_keys_are_made_of_fields_within_structs(spark: SparkSession) -> None:
    header = step("HeaderFrom$Value", {"fields": "a.c.d", "headers": "h", "operation": "copy", **V2})
    assert applied(spark, NESTED, header, column="headers")[0] == [{"key": "h", "value": b"5000"}]
    key = step("ValueToKey", {"fields": "a.c.d,id", **V2})
    values = NESTED.with_rows(*NESTED.rows[:2])
    assert applied(spark, values, key, column="key") == [{"d": 5_000, "id": 1}, {"d": None, "id": 1}]
    with pytest.raises(ConfigError, match="several fields of one name"):
        step("ValueToKey", {"fields": "a.id,id", **V2})


@pytest.mark.parametrize(
    ("name", "properties"),
    [
        ("ExtractField$Value", {"field": "a.nothing"}),
        ("MaskField$Value", {"fields": "a.b.c"}),
        ("ValueToKey", {"fields": "a.c.nothing"}),
        ("TimestampConverter$Value", {"field": "nothing.a", "target.type": "unix"}),
        ("InsertField$Value", {"topic.field": "nothing.topic"}),
        ("InsertField$Value", {"topic.field": "a.b.topic"}),
        ("HeaderFrom$Value", {"fields": "a.nothing", "headers": "h", "operation": "copy"}),
        ("HeaderFrom$Value", {"fields": "other.x", "headers": "h", "operation": "move"}),
        ("ReplaceField$Value", {"exclude": "other.x"}),
    ],
)
def test_a_path_that_leads_nowhere_is_refused(spark: SparkSession, name: str, properties: dict[str, str]) -> None:
    with pytest.raises(DataError):
        applied(spark, NESTED, step(name, {**properties, **V2}))


@pytest.mark.parametrize(("suffix", "nullable"), [("", True), ("?", True), ("!", False)])
def test_a_suffix_says_whether_an_inserted_field_may_be_null(spark: SparkSession, suffix: str, nullable: bool) -> None:
    names = {"topic.field": "t", "partition.field": "p", "timestamp.field": "at", "static.field": "s"}
    inserting = step(
        "InsertField$Value", {**{name: field + suffix for name, field in names.items()}, "static.value": "x"}
    )
    given = Records("STRUCT<id: INT>", [{"value": (1,), "partition": 2, "timestamp": 1_500}, {"value": None}])
    frame = apply_chain(given.frame(spark), [inserting])
    kind = frame.schema["value"].dataType
    assert isinstance(kind, t.StructType)
    assert [kind[name].nullable for name in names.values()] == [nullable] * 4
    found, nothing = [row["value"] for row in frame.collect()]
    assert (found["t"], found["p"], found["s"], nothing) == ("t", 2, "x", None)
    assert found["at"].astimezone(dt.UTC) == dt.datetime(1970, 1, 1, 0, 0, 1, 500_000, dt.UTC)


def test_a_record_without_a_required_partition_is_refused(spark: SparkSession) -> None:
    with pytest.raises(PySparkException, match=r"no partition, which InsertField is to insert: remove the !"):
        applied(
            spark, NESTED.with_rows({"value": (1, 2, None, None)}), step("InsertField$Value", {"partition.field": "p!"})
        )
