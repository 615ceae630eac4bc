from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from fencepost import ConfigError, DataError
from tests.unit.transforms.support import Records, applied, step

PEOPLE = Records("STRUCT<id: INT, name: STRING>", [{"value": (1, "Ada")}, {"value": None}])


def test_insert_field_adds_topic_partition_timestamp_and_a_fixed_text(spark: SparkSession) -> None:
    inserted = step(
        "InsertField$Value",
        {
            "topic.field": "topic!", "partition.field": "partition?", "timestamp.field": "at",
            "static.field": "from", "static.value": "test",
        },
    )  # fmt: skip
    records = PEOPLE.with_rows({"value": (1, "Ada"), "topic": "people", "partition": 3, "timestamp": 1_500}, {})
    found = applied(spark, records, inserted)
    assert found[0] | {"at": found[0]["at"].astimezone(UTC)} == {
        "id": 1, "name": "Ada", "topic": "people", "partition": 3,
        "at": datetime(1970, 1, 1, 0, 0, 1, 500_000, tzinfo=UTC), "from": "test",
    }  # fmt: skip
    assert found[1] is None


def test_insert_field_replaces_a_field_in_its_place(spark: SparkSession) -> None:
    inserted = step("InsertField$Value", {"static.field": "id", "static.value": "x"})
    assert applied(spark, PEOPLE, inserted) == [{"id": "x", "name": "Ada"}, None]


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        ({}, "No field to insert"),
        ({"static.field": "a"}, "belong together"),
    ],
)
def test_insert_field_refuses_invalid_properties(properties: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        step("InsertField$Value", properties)


@pytest.mark.parametrize(
    ("properties", "expected"),
    [
        ({"exclude": "id"}, {"name": "Ada"}),
        ({"include": "id"}, {"id": 1}),
        ({"include": "id,name", "exclude": "id", "renames": "name:who"}, {"who": "Ada"}),
    ],
)
def test_replace_field_leaves_fields_out_and_renames(
    spark: SparkSession, properties: dict[str, str], expected: Any
) -> None:
    assert applied(spark, PEOPLE, step("ReplaceField$Value", properties)) == [expected, None]


def test_replace_field_must_leave_a_field(spark: SparkSession) -> None:
    with pytest.raises(DataError, match="leaves no field of id, name"):
        applied(spark, PEOPLE, step("ReplaceField$Value", {"exclude": "id,name"}))
    with pytest.raises(ConfigError, match="old:new"):
        step("ReplaceField$Value", {"renames": "id"})


@pytest.mark.parametrize("properties", [{"renames": "id:name"}, {"renames": "name:x2"}])
def test_replace_field_refuses_names_that_are_taken(spark: SparkSession, properties: dict[str, str]) -> None:
    with pytest.raises(DataError, match=r"two fields named \w+ of the value: correct renames"):
        applied(spark, Records("STRUCT<id: INT, name: STRING, x2: INT>", [{}]), step("ReplaceField$Value", properties))


def test_replace_field_swaps_names_and_reuses_names_of_excluded_fields(spark: SparkSession) -> None:
    swapped = step("ReplaceField$Value", {"renames": "id:name,name:id"})
    assert applied(spark, PEOPLE, swapped) == [{"name": 1, "id": "Ada"}, None]
    replaced = step("ReplaceField$Value", {"renames": "id:name", "exclude": "name"})
    assert applied(spark, PEOPLE, replaced) == [{"name": 1}, None]


@pytest.mark.parametrize("syntax", ["V1", "V2"])
def test_replace_field_gives_no_name_twice(syntax: str) -> None:
    with pytest.raises(ConfigError, match="renames gives the name x to several fields"):
        step("ReplaceField$Value", {"renames": "id:x,name:x", "field.syntax.version": syntax})
    step("ReplaceField$Value", {"renames": "a.id:x,name:x", "field.syntax.version": "V2"})


def test_flatten_refuses_names_that_are_taken(spark: SparkSession) -> None:
    nested = Records("STRUCT<`a.b`: INT, a: STRUCT<b: INT>>", [{}])
    with pytest.raises(DataError, match=r"two fields named a\.b of the value: set another delimiter"):
        applied(spark, nested, step("Flatten$Value"))
    assert applied(spark, nested, step("Flatten$Value", {"delimiter": "_"})) == [None]


def test_extract_field_takes_a_fields_content(spark: SparkSession) -> None:
    assert applied(spark, PEOPLE, step("ExtractField$Value", {"field": "name"})) == ["Ada", None]
    with pytest.raises(DataError, match=r"needs the field 'nam'.*it has: id, name \(did you mean name\?\)\. Correct"):
        applied(spark, PEOPLE, step("ExtractField$Value", {"field": "nam"}))


def test_a_transform_of_fields_refuses_a_value_that_is_not_a_struct(spark: SparkSession) -> None:
    with pytest.raises(DataError, match="ExtractField needs a value that is a struct, but it is of type string"):
        applied(spark, Records("STRING", [{"value": "a"}]), step("ExtractField$Value", {"field": "name"}))


def test_hoist_field_wraps_whole_values_and_nulls(spark: SparkSession) -> None:
    lines = Records("STRING", [{"value": "a"}, {}])
    assert applied(spark, lines, step("HoistField$Value", {"field": "line"})) == [{"line": "a"}, {"line": None}]


def test_keys_are_transformed_by_the_same_transforms(spark: SparkSession) -> None:
    records = Records("STRING", [{"key": {"id": 7, "x": 1}, "value": "v"}], key="STRUCT<id: INT, x: INT>")
    assert applied(spark, records, step("ExtractField$Key", {"field": "id"}), column="key") == [7]
    assert applied(spark, records, step("ExtractField$Key", {"field": "id"})) == ["v"]


def test_a_key_that_no_record_has_stays_absent(spark: SparkSession) -> None:
    assert applied(spark, PEOPLE, step("ExtractField$Key", {"field": "id"}), column="key") == [None, None]


def test_mask_field_puts_in_neutral_values(spark: SparkSession) -> None:
    records = Records(
        "STRUCT<n: DECIMAL(5,2), s: STRING, b: BOOLEAN, d: DATE, l: ARRAY<INT>, none: INT, kept: INT>",
        [{"value": (Decimal(1), "secret", True, date(2020, 1, 1), [1, 2], None, 5)}],
    )
    assert applied(spark, records, step("MaskField$Value", {"fields": "n,s,b,d,l,none"})) == [
        {"n": 0, "s": "", "b": False, "d": date(1970, 1, 1), "l": [], "none": None, "kept": 5}
    ]


def test_mask_field_puts_in_a_replacement_for_texts_and_numbers(spark: SparkSession) -> None:
    masked = step("MaskField$Value", {"fields": "id,name", "replacement": "9"})
    assert applied(spark, PEOPLE, masked) == [{"id": 9, "name": "9"}, None]
    flags = Records("STRUCT<b: BOOLEAN>", [{"value": (True,)}])
    with pytest.raises(DataError, match="cannot mask the field b of type boolean with a replacement"):
        applied(spark, flags, step("MaskField$Value", {"fields": "b", "replacement": "9"}))


def test_flatten_joins_the_names_of_nested_fields(spark: SparkSession) -> None:
    records = Records(
        "STRUCT<a: STRUCT<b: INT, c: STRUCT<`d.e`: STRING>>, f: ARRAY<INT>>",
        [{"value": ((1, ("x",)), [2])}, {"value": (None, None)}, {}],
    )
    assert applied(spark, records, step("Flatten$Value", {"delimiter": "_"})) == [
        {"a_b": 1, "a_c_d.e": "x", "f": [2]},
        {"a_b": None, "a_c_d.e": None, "f": None},
        None,
    ]


def test_cast_changes_the_types_of_fields(spark: SparkSession) -> None:
    records = Records(
        "STRUCT<a: STRING, b: DOUBLE, at: TIMESTAMP, text: TIMESTAMP, d: DATE, raw: BINARY, other: INT>",
        [
            {
                "value": (
                    "12", 1.5, datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC), datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC),
                    date(1970, 1, 3), b"hi", 7,
                )
            }
        ],
    )  # fmt: skip
    spec = "a:int8, b:string, at:int64, text:string, d:int32, raw:string"
    assert applied(spark, records, step("Cast$Value", {"spec": spec})) == [
        {"a": 12, "b": "1.5", "at": 1000, "text": "1970-01-01T00:00:01.000Z", "d": 2, "raw": "aGk=", "other": 7}
    ]


def test_cast_changes_the_type_of_the_whole(spark: SparkSession) -> None:
    assert applied(spark, Records("STRING", [{"value": "7"}, {}]), step("Cast$Value", {"spec": "int64"})) == [7, None]
    with pytest.raises(DataError, match="only simple types can be cast"):
        applied(spark, PEOPLE, step("Cast$Value", {"spec": "string"}))


@pytest.mark.parametrize(
    ("kind", "value", "spec"),
    [
        ("DOUBLE", 1e39, "float32"),
        ("STRING", "1e400", "float64"),
        ("STRING", "-1e39", "float32"),
        ("DOUBLE", 1e19, "int64"),
        ("BIGINT", 2**31, "int32"),
        ("DECIMAL(20,0)", Decimal(2**63), "int64"),
    ],
)
def test_cast_refuses_a_number_that_is_too_large(spark: SparkSession, kind: str, value: Any, spec: str) -> None:
    with pytest.raises(PySparkException, match=r"cannot hold|OVERFLOW"):
        applied(spark, Records(kind, [{"value": value}]), step("Cast$Value", {"spec": spec}))


def test_cast_keeps_infinity(spark: SparkSession) -> None:
    infinite = Records("DOUBLE", [{"value": float("-inf")}, {"value": 1.5}, {}])
    assert applied(spark, infinite, step("Cast$Value", {"spec": "float32"})) == [float("-inf"), 1.5, None]
    texts = Records("STRING", [{"value": "Infinity"}])
    assert applied(spark, texts, step("Cast$Value", {"spec": "float64"})) == [float("inf")]


@pytest.mark.parametrize("spec", ["a:int31", "int", "int32,a:int32"])
def test_cast_refuses_an_invalid_spec(spec: str) -> None:
    with pytest.raises(ConfigError, match="spec has"):
        step("Cast$Value", {"spec": spec})
