"""Each row of the table of JSON Schemas, and differences to a registered schema."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from fencepost import DataError
from fencepost.converters.jsonschema.schema import (
    JsonSchemaOptions,
    check_kind,
    json_schema,
    missing_properties,
    schema_text,
)
from tests.support.refusals import refusal

OPTIONS = JsonSchemaOptions()
LOGICAL = "org.apache.kafka.connect.data."
DECIMAL = {"type": "bytes", "name": f"{LOGICAL}Decimal", "version": 1, "parameters": {"scale": "2"}}
INT = {"type": "int32"}
ROW = {
    "type": "struct",
    "name": "shop.Order",
    "fields": [
        {"type": "int64", "field": "id"},
        {"type": "string", "optional": True, "field": "note"},
        {"type": "array", "items": {"type": "struct", "fields": [{**INT, "field": "x"}]}, "field": "parts"},
    ],
}


@pytest.mark.parametrize(
    ("connect", "expected"),
    [
        ({"type": "int8"}, {"type": "integer", "connect.type": "int8"}),
        ({"type": "int16"}, {"type": "integer", "connect.type": "int16"}),
        ({"type": "int32"}, {"type": "integer", "connect.type": "int32"}),
        ({"type": "int64"}, {"type": "integer", "connect.type": "int64"}),
        ({"type": "float"}, {"type": "number", "connect.type": "float32"}),
        ({"type": "double"}, {"type": "number", "connect.type": "float64"}),
        ({"type": "boolean"}, {"type": "boolean"}),
        ({"type": "string"}, {"type": "string"}),
        ({"type": "bytes"}, {"type": "string", "connect.type": "bytes"}),
        (
            DECIMAL,
            {
                "type": "string", "title": f"{LOGICAL}Decimal", "connect.type": "bytes", "connect.version": 1,
                "connect.parameters": {"scale": "2"},
            },
        ),
        (
            {"type": "int32", "name": f"{LOGICAL}Date", "version": 1},
            {"type": "integer", "title": f"{LOGICAL}Date", "connect.type": "int32", "connect.version": 1},
        ),
        (
            {"type": "int64", "name": f"{LOGICAL}Timestamp", "version": 1},
            {"type": "integer", "title": f"{LOGICAL}Timestamp", "connect.type": "int64", "connect.version": 1},
        ),
        ({"type": "string", "doc": "said"}, {"type": "string", "description": "said"}),
        (
            {**INT, "optional": True},
            {"oneOf": [{"type": "null"}, {"type": "integer", "connect.type": "int32"}]},
        ),
        ({"type": "array", "items": INT}, {"type": "array", "items": {"type": "integer", "connect.type": "int32"}}),
        (
            {"type": "map", "keys": {"type": "string"}, "values": INT},
            {
                "type": "object", "connect.type": "map",
                "additionalProperties": {"type": "integer", "connect.type": "int32"},
            },
        ),
        (
            {"type": "map", "keys": INT, "values": {"type": "string", "optional": True}},
            {
                "type": "array",
                "connect.type": "map",
                "items": {
                    "type": "object",
                    "properties": {
                        "key": {"type": "integer", "connect.type": "int32", "connect.index": 0},
                        "value": {"oneOf": [{"type": "null"}, {"type": "string"}], "connect.index": 1},
                    },
                },
            },
        ),
        (
            ROW,
            {
                "type": "object",
                "title": "shop.Order",
                "properties": {
                    "id": {"type": "integer", "connect.type": "int64", "connect.index": 0},
                    "note": {"oneOf": [{"type": "null"}, {"type": "string"}], "connect.index": 1},
                    "parts": {
                        "type": "array",
                        "items": {
                            "type": "object",
                            "properties": {"x": {"type": "integer", "connect.type": "int32", "connect.index": 0}},
                        },
                        "connect.index": 2,
                    },
                },
            },
        ),
        (None, {}),
    ],
)  # fmt: skip
def test_each_connect_schema_has_its_json_schema(connect: dict[str, Any] | None, expected: dict[str, Any]):
    found = json_schema(connect, OPTIONS)
    assert found == expected
    assert json.loads(schema_text(found)) == expected
    assert list(found) == list(expected)


def test_decimals_may_be_numbers():
    found = json_schema(DECIMAL, JsonSchemaOptions(numeric_decimals=True))
    assert (found["type"], found["connect.type"]) == ("number", "bytes")


def test_structs_may_refuse_further_properties():
    found = json_schema(ROW, JsonSchemaOptions(additional_properties=False))
    assert found["additionalProperties"] is False
    assert found["properties"]["parts"]["items"]["additionalProperties"] is False


def test_fields_that_another_schema_lacks_are_named():
    assert list(missing_properties(ROW, json_schema(ROW, OPTIONS))) == []
    other = json_schema(ROW, OPTIONS)
    del other["properties"]["note"]
    del other["properties"]["parts"]["items"]["properties"]["x"]
    assert list(missing_properties(ROW, other)) == ["note", "parts[].x"]
    assert list(missing_properties(ROW, {"oneOf": [{"type": "null"}, other]})) == ["note", "parts[].x"]


@pytest.mark.parametrize("other", [{}, True, {"type": "object"}, {"anyOf": [{"type": "null"}, {"type": "object"}]}])
def test_a_schema_of_the_same_kind_passes(other: Any):
    assert refusal(check_kind, ROW, other, OPTIONS) is None


@pytest.mark.parametrize("other", [{"type": "array"}, {"type": ["string", "null"]}])
def test_a_schema_of_another_kind_is_refused(other: Any):
    with pytest.raises(DataError, match="and these are of object"):
        check_kind(ROW, other, OPTIONS)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (
            lambda found: found["properties"]["parts"]["items"].update(type="array"),
            r"parts\[\] is for values of the type array",
        ),
        (
            lambda found: found["properties"]["parts"]["items"]["properties"].update(x={"type": ["boolean", "null"]}),
            r"parts\[\]\.x is for values of the type boolean, null",
        ),
        (lambda found: found.update(required=["note", "other"]), "it requires other, which the records do not have"),
    ],
)
def test_fields_of_another_type_and_fields_that_are_required_are_refused(
    change: Callable[[dict[str, Any]], object], told: str
):
    other = json_schema(ROW, OPTIONS)
    assert refusal(check_kind, ROW, other, OPTIONS) is None
    change(other)
    with pytest.raises(DataError, match=told):
        check_kind(ROW, other, OPTIONS)
