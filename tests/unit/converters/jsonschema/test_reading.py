"""JSON with a schema, read by `fencepost tail` and `fencepost verify`."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest

from fencepost.converters.jsonschema.reading import json_reader
from fencepost.converters.registry.schemas import RegistrySchema

DECIMAL = {
    "type": "string", "title": "org.apache.kafka.connect.data.Decimal", "connect.type": "bytes",
    "connect.parameters": {"scale": "2"},
}  # fmt: skip


def logical(name: str) -> dict[str, Any]:
    return {"type": "integer", "title": f"org.apache.kafka.connect.data.{name}"}


def read(schema: Any, data: bytes, *, for_people: bool = True) -> Any:
    return json_reader(RegistrySchema(json.dumps(schema), "JSON"), for_people, {})(data)


@pytest.mark.parametrize(
    ("schema", "data", "people", "checks"),
    [
        ({}, b'{"a": 1.10}', {"a": Decimal("1.10")}, {"a": Decimal("1.10")}),
        (DECIMAL, b'"gA=="', Decimal("-1.28"), Decimal("-1.28")),
        (DECIMAL | {"type": "number"}, b"-1.28", Decimal("-1.28"), Decimal("-1.28")),
        (logical("Date"), b"-1", "1969-12-31", -1),
        (logical("Time"), b"1500", "00:00:01.500000", 1500),
        (logical("Timestamp"), b"1500", "1970-01-01T00:00:01.500000+00:00", 1500),
        ({"oneOf": [{"type": "null"}, logical("Date")]}, b"0", "1970-01-01", 0),
        ({"oneOf": [{"type": "null"}, logical("Date")]}, b"null", None, None),
        ({"type": "array", "items": DECIMAL}, b'["AQ=="]', [Decimal("0.01")], [Decimal("0.01")]),
        ({"additionalProperties": logical("Date")}, b'{"k": 1}', {"k": "1970-01-02"}, {"k": 1}),
        ({"properties": {"d": logical("Date")}}, b'{"d": 1, "e": 1}', {"d": "1970-01-02", "e": 1}, {"d": 1, "e": 1}),
        # Data that do not match their schema are shown unchanged.
        (logical("Date"), b'"x"', "x", "x"),
        (logical("Date"), b"99999999999", 99999999999, 99999999999),
        (DECIMAL, b'"not base64"', "not base64", "not base64"),
        (True, b"1", 1, 1),
    ],
)
def test_logical_types_are_resolved(schema: Any, data: bytes, people: Any, checks: Any):
    assert read(schema, data) == people
    assert read(schema, data, for_people=False) == checks


def test_invalid_json_and_invalid_schemas_are_refused():
    with pytest.raises(ValueError, match="bytes that are not JSON"):
        read({}, b"\xff")
    with pytest.raises(ValueError, match="a schema that is not JSON"):
        json_reader(RegistrySchema("{", "JSON"), True, {})
