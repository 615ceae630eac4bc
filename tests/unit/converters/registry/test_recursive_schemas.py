"""Recursive schemas: readers accept them, and writers as far as columns can have their types."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_type

from fencepost.api.ddl import parse_columns
from fencepost.converters.avro.converter import AvroConverter
from fencepost.converters.avro.reading import avro_reader
from fencepost.converters.jsonschema.converter import JsonSchemaConverter
from fencepost.converters.jsonschema.reading import json_reader
from fencepost.converters.protobuf.converter import ProtobufConverter
from fencepost.converters.protobuf.reading import protobuf_reader
from fencepost.converters.registry.base import RegistryConverter
from fencepost.converters.registry.errors import RegistryError
from fencepost.converters.registry.reading import RegistryReader
from fencepost.converters.registry.schemas import RegistrySchema
from tests.support.fake_registry import FakeRegistry

AVRO = json.dumps({
    "type": "record", "name": "Node", "fields": [
        {"name": "id", "type": "long"}, {"name": "next", "type": ["null", "Node"], "default": None},
        {"name": "kids", "type": {"type": "array", "items": "Node"}, "default": []},
    ],
})  # fmt: skip
REFERENCE = {"$ref": "#"}
JSON = json.dumps({
    "type": "object",
    "properties": {"id": {"type": "integer"}, "next": REFERENCE, "kids": {"type": "array", "items": REFERENCE}},
})  # fmt: skip
ITSELF = 'syntax = "proto3"; message Node { int64 id = 1; Node next = 2; repeated Node kids = 3; }'
EACH_OTHER = 'syntax = "proto3"; message A { int64 id = 1; B next = 2; } message B { A next = 1; int64 id = 2; }'
TWO_LEVELS = parse_columns("id BIGINT NOT NULL, next STRUCT<id: BIGINT NOT NULL, next: STRUCT<id: BIGINT NOT NULL>>")
ROW = {"id": 1, "next": {"id": 2, "next": {"id": 3}}}


def prepared(converter: type[RegistryConverter], registry: FakeRegistry, text: str) -> RegistryConverter:
    registry.add("t-value", text, converter.language)
    made = converter()
    settings = {"auto.register.schemas": "false", "use.latest.version": "true"}
    made.configure({"schema.registry.url": registry.address, **settings}, is_key=False)
    made.prepare("t", TWO_LEVELS)
    return made


@pytest.mark.parametrize(("converter", "text"), [(AvroConverter, AVRO), (JsonSchemaConverter, JSON)])
def test_columns_of_some_levels_are_written_with_a_recursive_schema(
    registry: FakeRegistry, converter: type[RegistryConverter], text: str
):
    made = prepared(converter, registry, text)
    (data,) = made.from_connect_data("t", TWO_LEVELS, pa.array([ROW], to_arrow_type(TWO_LEVELS))).to_pylist()
    reader = RegistryReader({"schema.registry.url": registry.address})
    found: Any = reader.read(data, is_key=False)
    reader.close()
    assert found["next"]["next"]["id"] == 3


@pytest.mark.parametrize(("text", "path"), [(ITSELF, "Node -> Node"), (EACH_OTHER, "A -> B -> A")])
def test_a_message_in_itself_is_refused_for_writing(registry: FakeRegistry, text: str, path: str):
    with pytest.raises(
        RegistryError, match=f"has a message that contains itself, {path}, and columns have a limited depth"
    ):
        prepared(ProtobufConverter, registry, text)


def test_recursive_values_are_read():
    below = b"\x0a\x02\x08\x02"
    read = protobuf_reader(RegistrySchema(EACH_OTHER, "PROTOBUF"), True, {})
    assert read(b"\0\x08\x01\x12" + bytes([len(below)]) + below)["next"]["next"]["id"] == 2
    read = avro_reader(RegistrySchema(AVRO, "AVRO"), True, {})
    assert read(b"\x02\x02\x04\x00\x00\x02\x06\x00\x00\x00") == {
        "id": 1, "next": {"id": 2, "next": None, "kids": []}, "kids": [{"id": 3, "next": None, "kids": []}],
    }  # fmt: skip
    read = json_reader(RegistrySchema(JSON, "JSON"), True, {})
    assert read(json.dumps(ROW).encode()) == ROW


DEEP = """
from fencepost.converters.avro.reading import avro_reader
from fencepost.converters.jsonschema.reading import json_reader
from fencepost.converters.protobuf.reading import protobuf_reader
from fencepost.converters.registry.schemas import RegistrySchema
from tests.unit.converters.registry.test_recursive_schemas import AVRO, ITSELF, JSON, deep_message
cases = (
    (avro_reader, "AVRO", AVRO, b"\\2\\2" * 100_000),
    (avro_reader, "AVRO", '[{"type":"record","name":"A","fields":[{"name":"b","type":{"type":"map","values":["null","A"]}}]}]',
        b"\\0" + b"\\2\\2a\\2" * 100_000),
    (json_reader, "JSON", JSON, b'{"next":' * 100_000 + b"1" + b"}" * 100_000),
    (protobuf_reader, "PROTOBUF", ITSELF, b"\\0" + deep_message(5_000)),
)
for make, kind, text, data in cases:
    try:
        make(RegistrySchema(text, kind), True, {})(data)
    except ValueError as error:
        print(kind, error)
"""


def deep_message(depth: int) -> bytes:
    found = b"\x08\x01"
    for _ in range(depth):
        size, length = len(found), b""
        while size > 127:
            length, size = length + bytes([size & 127 | 128]), size >> 7
        found = b"\x12" + length + bytes([size]) + found
    return found


def test_values_that_are_too_deep_are_refused_and_do_not_end_the_process():
    done = subprocess.run([sys.executable, "-c", DEEP], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert [line.split()[0] for line in done.stdout.splitlines()] == ["AVRO", "AVRO", "JSON", "PROTOBUF"]


@pytest.mark.parametrize("converter", [AvroConverter, JsonSchemaConverter])
def test_a_schema_that_is_too_deep_is_refused(registry: FakeRegistry, converter: type[RegistryConverter]):
    with pytest.raises(RegistryError):
        prepared(converter, registry, '{"items":' * 20_000 + "1" + "}" * 20_000)
