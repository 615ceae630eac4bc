"""Protobuf read by `fencepost tail` and `fencepost verify`, with schemas of any program."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf import timestamp_pb2
from pyspark.sql import types as spark
from pyspark.sql.pandas.types import to_arrow_type

from fencepost.api.ddl import parse_columns
from fencepost.converters.protobuf.converter import ProtobufConverter, message_indexes
from fencepost.converters.protobuf.reading import protobuf_reader
from fencepost.converters.registry.reading import RegistryReader
from fencepost.converters.registry.registry import forget_registries
from fencepost.converters.registry.schemas import RegistrySchema
from tests.support.fake_registry import fake_registry

ALL = (
    "i INT, l BIGINT, d DOUBLE, t BOOLEAN, text STRING, raw BINARY, day DATE, at TIMESTAMP, price DECIMAL(20, 2), "
    "tags ARRAY<STRING>, sizes MAP<STRING, INT>, inner STRUCT<x: INT NOT NULL>"
)
ROW = {
    "i": -1, "l": 2**62, "d": 0.5, "t": True, "text": "ä", "raw": b"\0\1", "day": dt.date(1969, 12, 31),
    "at": dt.datetime(2026, 11, 24, 12, 30, 0, 250_000, dt.UTC), "price": Decimal("-1.28"), "tags": ["a", "b"],
    "sizes": [("k", 7)], "inner": {"x": 5},
}  # fmt: skip
SHOWN = {
    "i": -1, "l": 2**62, "d": 0.5, "t": True, "text": "ä", "raw": {"base64": "AAE="}, "day": "1969-12-31",
    "at": "2026-11-24T12:30:00.250000+00:00", "price": Decimal("-1.28"), "tags": ["a", "b"],
    "sizes": [{"key": "k", "value": 7}], "inner": {"x": 5},
}  # fmt: skip


def read(text: str, data: bytes, *, for_people: bool = True, **referred: str) -> Any:
    named = {f"{name}.proto": RegistrySchema(part, "PROTOBUF") for name, part in referred.items()}
    return protobuf_reader(RegistrySchema(text, "PROTOBUF"), for_people, named)(data)


@pytest.mark.parametrize("wrappers", ["false", "true"])
def test_rows_of_all_types_are_read_back_by_the_registered_schema(wrappers: str):
    forget_registries()
    schema = parse_columns(ALL)
    with fake_registry() as registry:
        converter = ProtobufConverter()
        settings = {"optional.for.nullables": "true", "wrapper.for.nullables": wrappers}
        converter.configure({"schema.registry.url": registry.address, **settings}, is_key=False)
        converter.prepare("t", schema)
        column = pa.array([ROW, dict.fromkeys(ROW)], to_arrow_type(schema, timezone="UTC"))
        first, second = converter.from_connect_data("t", schema, column).to_pylist()
        people = RegistryReader({"schema.registry.url": registry.address})
        checks = RegistryReader({"schema.registry.url": registry.address}, for_people=False)
        assert people.read(first, is_key=False) == SHOWN
        assert people.read(second, is_key=False) == dict.fromkeys(ROW) | {"tags": [], "sizes": []}
        numbers = {"day": -1, "at": 1_795_523_400_250}
        assert checks.read(first, is_key=False) == SHOWN | numbers
        people.close()
        checks.close()
    forget_registries()


def test_a_whole_value_in_a_wrapper_is_the_value():
    forget_registries()
    with fake_registry() as registry:
        converter = ProtobufConverter()
        converter.configure({"schema.registry.url": registry.address}, is_key=True)
        converter.prepare("t", spark.IntegerType())
        (data,) = converter.from_connect_data("t", spark.IntegerType(), pa.array([7], pa.int32())).to_pylist()
        reader = RegistryReader({"schema.registry.url": registry.address})
        assert reader.read(data, is_key=True) == 7
        reader.close()
    forget_registries()


OTHERS = """
// What other programs write.
syntax = "proto3";
package shop.v1;
import "google/protobuf/timestamp.proto";
import public "common.proto";
option java_package = "shop";
enum Color { option allow_alias = true; reserved 7; RED = 0; CRIMSON = 0; BLUE = 0x2 [deprecated = true]; NONE = -1; }
service Orders { rpc Get (Order) returns (Order) { option (x) = { a: 1 }; } }
message Order {
  message Line { sint32 count = 1; fixed64 id = 2; Line next = 3; enum Kind { A = 0; B = 1; } Kind kind = 4; }
  reserved 20 to 30;
  Color color = 1;
  oneof who { string user = 2; int64 number = 3; }
  map<string, Line> lines = 4;
  map<bool, Color> by_flag = 5;
  repeated uint32 sizes = 6 [packed = false];
  optional string note = 7;
  .google.protobuf.Timestamp at = 8;
  common.Money price = 9;
}
message Other { .shop.v1.Order order = 1; }
"""
COMMON = 'syntax = "proto3"; package common; message Money { string currency = 1; }'


def test_schemas_of_other_programs_are_read():
    line = b"\x08\x03\x11" + (9).to_bytes(8, "little") + b"\x1a\x02\x08\x02" + b"\x20\x01"
    at = timestamp_pb2.Timestamp(seconds=1, nanos=500_000_000).SerializeToString()
    data = b"".join((
        b"\x08\x02", b"\x12\x01u", b"\x22" + bytes([len(line) + 5]) + b"\x0a\x01k\x12" + bytes([len(line)]) + line,
        b"\x2a\x04\x08\x01\x10\x02", b"\x30\x05\x30\x06", b"\x42" + bytes([len(at)]) + at, b"\x4a\x05\x0a\x03EUR",
    ))  # fmt: skip
    found = read(OTHERS, b"\0" + data, common=COMMON)
    inner = {"count": 1, "id": 0, "next": None, "kind": "A"}
    assert found == {
        "color": "BLUE", "user": "u", "number": None, "sizes": [5, 6], "note": None, "price": {"currency": "EUR"},
        "lines": {"k": {"count": -2, "id": 9, "next": inner, "kind": "B"}}, "by_flag": {"true": "BLUE"},
        "at": "1970-01-01T00:00:01.500000+00:00",
    }  # fmt: skip
    other = b"\x0a" + bytes([len(data)]) + data
    assert read(OTHERS, message_indexes([1]) + other, common=COMMON) == {"order": found}
    assert read(OTHERS, message_indexes([0, 0]) + line, common=COMMON)["count"] == -2


def test_proto2_is_read():
    text = 'syntax = "proto2"; message A { required int32 x = 1; optional string y = 2 [default = "z"]; extensions 9 to 10; }'
    with pytest.raises(ValueError, match="'extensions', which is not supported"):
        read(text, b"\0\x08\1")
    text = text.replace("extensions 9 to 10;", "")
    assert read(text, b"\0\x08\1") == {"x": 1, "y": None}


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "without the index"),
        (b"\x80\x80\x80\x80\x80\x80", "without the index"),
        (b"\1", "without the index"),
        (message_indexes([7]), r"message \[7\], which the schema does not have"),
        (b"\0\x08", "do not fit"),
        (b"\0\x0a\x7f", "do not fit"),
    ],
)
def test_bytes_of_no_value_are_refused(data: bytes, message: str):
    with pytest.raises(ValueError, match=message):
        read('syntax = "proto3"; message A { int32 x = 1; string s = 2; }', data)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('import "gone.proto"; message A {}', r"imports gone.proto, which the registry does not name"),
        ("message A { Gone x = 1; }", "not one of Protobuf"),
        ("message A { int32 x = 1; int32 x = 2; }", "not one of Protobuf"),
        ("<html>", "is not one of Protobuf|has '<'"),
    ],
)
def test_schemas_that_cannot_be_read_are_refused(text: str, message: str):
    with pytest.raises(ValueError, match=message):
        read(f'syntax = "proto3"; {text}', b"\0")
