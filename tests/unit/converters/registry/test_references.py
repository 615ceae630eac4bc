"""Schemas that refer to other schemas, for writing and reading."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_type

from fencepost.api.ddl import parse_columns
from fencepost.converters.avro.converter import AvroConverter
from fencepost.converters.jsonschema.converter import JsonSchemaConverter
from fencepost.converters.protobuf.converter import ProtobufConverter
from fencepost.converters.registry.base import RegistryConverter
from fencepost.converters.registry.errors import RegistryError
from fencepost.converters.registry.reading import RegistryReader
from tests.support.fake_registry import FakeRegistry

ROW = parse_columns("id INT, home STRUCT<city: STRING>")
LATEST = {"auto.register.schemas": "false", "use.latest.version": "true"}
ADDRESS = {"type": "record", "name": "shop.Address", "fields": [{"name": "city", "type": ["null", "string"]}]}
ORDER = {
    "type": "record", "name": "shop.Order",
    "fields": [{"name": "id", "type": ["null", "int"]}, {"name": "home", "type": ["null", "shop.Address"]}],
}  # fmt: skip
MONEY = 'syntax = "proto3"; package shop; message Address { string city = 4; }'
PROTO = 'syntax = "proto3"; import "address.proto"; message ConnectDefault1 { shop.Address home = 2; int32 id = 9; }'
JSON = {"type": "object", "properties": {"id": {"type": "integer"}, "home": {"$ref": "address.json"}}}


@pytest.mark.parametrize(
    ("converter", "whole", "part", "name"),
    [
        (AvroConverter, json.dumps(ORDER), json.dumps(ADDRESS), "shop.Address"),
        (ProtobufConverter, PROTO, MONEY, "address.proto"),
        (JsonSchemaConverter, json.dumps(JSON), json.dumps({"type": "object"}), "address.json"),
    ],
)
def test_values_are_written_and_read_with_a_schema_that_refers_to_another(
    registry: FakeRegistry, converter: type[RegistryConverter], whole: str, part: str, name: str
):
    registry.add("address", part, converter.language)
    registry.add_referring("t-value", whole, converter.language, name, "address")
    made = converter()
    made.configure({"schema.registry.url": registry.address, **LATEST}, is_key=False)
    made.prepare("t", ROW)
    rows = pa.array([{"id": 7, "home": {"city": "x"}}], to_arrow_type(ROW, timezone="UTC"))
    (data,) = made.from_connect_data("t", ROW, rows).to_pylist()
    reader = RegistryReader({"schema.registry.url": registry.address})
    assert reader.read(data, is_key=False) == {"id": 7, "home": {"city": "x"}}
    reader.close()
    if converter is ProtobufConverter:
        assert data == b"\0\0\0\0\2\0\x12\3\x22\1x\x48\7"


def test_a_schema_that_refers_to_itself_is_refused(registry: FakeRegistry):
    registry.add("t-value", json.dumps(ORDER))
    registry.schemas[1]["references"] = [{"name": "shop.Address", "subject": "t-value", "version": 1}]
    made = AvroConverter()
    made.configure({"schema.registry.url": registry.address, **LATEST}, is_key=False)
    with pytest.raises(RegistryError, match=r"refers to shop.Address .*, which refers to itself"):
        made.prepare("t", ROW)


def test_a_reference_that_is_gone_is_named(registry: FakeRegistry):
    registry.add("address", json.dumps(ADDRESS))
    registry.add_referring("t-value", json.dumps(ORDER), "AVRO", "shop.Address", "address")
    registry.subjects["address"].clear()
    made = AvroConverter()
    made.configure({"schema.registry.url": registry.address, **LATEST}, is_key=False)
    with pytest.raises(RegistryError, match="version 1 of subject address"):
        made.prepare("t", ROW)


@pytest.mark.parametrize("for_people", [True, False])
def test_decimals_of_fixed_bytes_are_read(registry: FakeRegistry, for_people: bool):
    fixed = {"type": "fixed", "name": "Money", "size": 12, "logicalType": "decimal", "precision": 20, "scale": 2}
    schema: Any = {"type": "record", "name": "R", "fields": [{"name": "price", "type": fixed}]}
    registry.add("t-value", json.dumps(schema))
    reader = RegistryReader({"schema.registry.url": registry.address}, for_people=for_people)
    data = (-128).to_bytes(12, "big", signed=True)
    assert reader.read(b"\0\0\0\0\1" + data, is_key=False) == {"price": Decimal("-1.28")}
    reader.close()
