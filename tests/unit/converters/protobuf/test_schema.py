"""Each row of the table of Protobuf schemas, refused schemas, and schemas read from a registry."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import types as spark

from fencepost import DataError
from fencepost.api.ddl import parse_columns
from fencepost.converters.json_schema import connect_schema
from fencepost.converters.protobuf.parser import parsed_file
from fencepost.converters.protobuf.schema import ProtobufOptions, proto_file, schema_text
from fencepost.converters.registry.schema_names import with_names

pytestmark = pytest.mark.unit


def text(columns: str, **options: bool) -> str:
    return schema_text(proto_file(connect_schema(parse_columns(columns), optional=False), ProtobufOptions(**options)))


def field(columns: str, **options: bool) -> str:
    """The lines of the only field."""
    found = text(columns, **options)
    return found.partition("message ConnectDefault1 {\n")[2].rpartition("\n}")[0]


META = """  int32 f = 1 [(confluent.field_meta) = {
    params: [
      {
        key: "connect.type",
        value: "%s"
      }
    ]
  }];"""


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("TINYINT", META % "int8"),
        ("SMALLINT", META % "int16"),
        ("INT", "  int32 f = 1;"),
        ("BIGINT", "  int64 f = 1;"),
        ("FLOAT", "  float f = 1;"),
        ("DOUBLE", "  double f = 1;"),
        ("BOOLEAN", "  bool f = 1;"),
        ("STRING", "  string f = 1;"),
        ("BINARY", "  bytes f = 1;"),
        ("DATE", "  google.type.Date f = 1;"),
        ("TIMESTAMP", "  google.protobuf.Timestamp f = 1;"),
        ("ARRAY<STRING>", "  repeated string f = 1;"),
        ("ARRAY<TINYINT>", (META % "int8").replace("int32 f", "repeated int32 f")),
        (
            "MAP<STRING, INT>",
            "  repeated ConnectDefault2Entry f = 1;\n\n  message ConnectDefault2Entry {\n    string key = 1;\n    int32 value = 2;\n  }",
        ),
        (
            "STRUCT<x: BIGINT, y: STRING>",
            "  ConnectDefault2 f = 1;\n\n  message ConnectDefault2 {\n    int64 x = 1;\n    string y = 2;\n  }",
        ),
    ],
)
def test_each_type_has_its_field(kind: str, expected: str):
    assert field(f"f {kind}") == expected


def test_decimals_have_their_scale_in_the_metadata_and_all_imports_are_named():
    assert text("d DECIMAL(20, 2), a TIMESTAMP, b DATE") == (
        'syntax = "proto3";\n\nimport "confluent/meta.proto";\nimport "confluent/type/decimal.proto";\n'
        'import "google/protobuf/timestamp.proto";\nimport "google/type/date.proto";\n\n'
        "message ConnectDefault1 {\n  confluent.type.Decimal d = 1 [(confluent.field_meta) = {\n    params: [\n      {\n"
        '        key: "scale",\n        value: "2"\n      }\n    ]\n  }];\n  google.protobuf.Timestamp a = 2;\n'
        "  google.type.Date b = 3;\n}\n"
    )


def test_times_of_day_are_messages_of_google():
    kind = spark.StructType([spark.StructField("f", spark.TimeType())])
    found = schema_text(proto_file(connect_schema(kind, optional=False)))
    assert 'import "google/type/timeofday.proto";\n' in found
    assert "  google.type.TimeOfDay f = 1;\n" in found


def test_fields_that_may_be_null_are_optional_or_wrappers_on_request():
    columns = "a INT, b INT NOT NULL, c ARRAY<INT>, d STRUCT<x: STRING>, e MAP<STRING, INT>"
    optional, wrapped = field(columns, optional=True), text(columns, wrappers=True)
    for line in (
        "  optional int32 a = 1;",
        "  int32 b = 2;",
        "  repeated int32 c = 3;",
        "  optional ConnectDefault2 d = 4;",
    ):
        assert f"{line}\n" in optional
    assert "    optional string x = 1;\n" in optional
    assert "    int32 value = 2;\n" in optional
    for line in ("Int32Value a = 1;", "Int32Value c = 3;", "StringValue x = 1;", "Int32Value value = 2;"):
        assert f"google.protobuf.{line}\n" in wrapped
    assert "  int32 b = 2;\n" in wrapped
    assert 'import "google/protobuf/wrappers.proto";' in wrapped


def test_package_and_message_are_of_the_name():
    named = connect_schema(parse_columns("f STRUCT<x: INT>"), optional=False) | {"name": "shop.eu.Order"}
    named["fields"][0]["name"] = "shop.eu.f"
    found = schema_text(proto_file(named))
    assert "\npackage shop.eu;\n" in found
    # A message type cannot have the same name as its field.
    assert "message Order {\n  fMessage f = 1;\n\n  message fMessage {\n" in found


@pytest.mark.parametrize("name", ["eu.google.Order", "google", "eu.confluent.Order", "google.Order"])
def test_googles_known_types_are_found_beside_types_of_any_name(name: str):
    named = connect_schema(parse_columns("d DATE, p DECIMAL(4, 2)"), optional=False) | {"name": name}
    found = schema_text(proto_file(named))
    assert ("  .google.type.Date d = 1;" in found) == (name in ("eu.google.Order", "google"))
    assert ("  .confluent.type.Decimal p = 2 " in found) == (name == "eu.confluent.Order")
    assert [part.type for part in parsed_file(found).root.fields] == ["google.type.Date", "confluent.type.Decimal"]


def test_structs_and_maps_without_a_name_are_numbered_in_the_order_of_visit():
    found = text("a STRUCT<b: MAP<STRING, STRUCT<x: INT>>>, c ARRAY<STRUCT<y: INT>>")
    for line in ("ConnectDefault2 a", "ConnectDefault3Entry b", "ConnectDefault4 value", "ConnectDefault5 c"):
        assert f"{line} = " in found


def test_names_may_be_of_the_topic():
    given = connect_schema(parse_columns("a STRUCT<x: INT>, my_sizes MAP<STRING, INT>"), optional=False)
    found = schema_text(proto_file(with_names(given, "shop.orders-1", "value", all_maps=True)))
    assert "package shop.orders_1;" in found
    assert "message Value {\n  aMessage a = 1;\n  repeated MySizesEntry my_sizes = 2;" in found


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ("a ARRAY<ARRAY<INT>>", "no form for a, an array in an array"),
        ("a STRUCT<b: ARRAY<MAP<STRING, INT>>>", r"no form for a\.b, a map in an array"),
        ("a MAP<STRING, ARRAY<ARRAY<INT>>>", r"no form for a\[value\], an array in an array"),
        ("`a b` INT", "does not allow the name 'a b' of a b: rename it, or set scrub.invalid.names=true"),
        ("`1a` INT", "does not allow the name '1a'"),
        ("`ä` INT", "does not allow the name 'ä'"),
        (
            "foo_bar INT, fooBar INT",
            "fields 'foo_bar' and 'fooBar', which Protobuf's compilers refuse .*: both are called 'fooBar'",
        ),
        ("s STRUCT<a_1: INT, x: INT, a1: INT>", "s has the fields 'a_1' and 'a1'"),
        ("a__b INT, a_b INT", "fields 'a__b' and 'a_b'"),
        ("a STRUCT<x: INT>, ConnectDefault2 INT", "have the name 'ConnectDefault2' twice"),
    ],
)
def test_types_without_a_form_in_protobuf_are_refused(columns: str, message: str):
    with pytest.raises(DataError, match=message):
        text(columns)


@pytest.mark.parametrize(
    ("root", "message"),
    [
        (None, "no form for values without a schema"),
        ({"type": "array", "items": {"type": "int32"}}, "no form for a whole value that is array"),
        (
            {"type": "map", "keys": {"type": "string"}, "values": {"type": "int32"}},
            "no form for a whole value that is map",
        ),
        (
            connect_schema(parse_columns("d DATE").fields[0].dataType, optional=False),
            r"no form for a whole value .*\.Date",
        ),
    ],
)
def test_a_root_without_a_message_is_refused(root: Any, message: str):
    with pytest.raises(DataError, match=message):
        proto_file(root)


def test_invalid_names_are_scrubbed_on_request():
    found = text("`a b` INT, `1c` INT, `_d` INT, `ä.e` INT", scrub=True)
    for line in ("int32 a_b = 1;", "int32 x1c = 2;", "int32 x_d = 3;", "int32 _C3_A4_e = 4;"):
        assert f"  {line}\n" in found
    with pytest.raises(DataError, match="'a_b' twice"):
        text("`a b` INT, `a_b` INT", scrub=True)


def test_a_whole_number_is_a_message_of_google():
    file = proto_file({"type": "int32"})
    assert (file.full_name, file.root_index) == ("google.protobuf.Int32Value", 4)
    assert "\nmessage Int32Value {\n  int32 value = 1;\n}\n" in schema_text(file)


def test_a_text_is_read_in_any_layout():
    written = (
        '/* from\n elsewhere */ syntax=\'proto3\';package a.b;import public "x.proto"; option java_package = "j";\n'
        'message R{reserved 7, 9 to 11; option deprecated=false; // note\n .a.b.R.I i=2[deprecated=true, (m)={p:[{k:"];"}]}];'
        "map<string,R.I> m=3; message I{optional int32 x=1;} repeated a.b.Other o = 4; string message = 5;};"
        "message Other { bool t = 1; }"
    )
    file = parsed_file(written)
    assert (file.package, file.full_name) == ("a.b", "a.b.R")
    inner, entries, others, plain = file.root.fields
    assert (inner.name, inner.number, inner.message and inner.message.name) == ("i", 2, "I")
    assert inner.message is not None
    assert [(part.name, part.label) for part in inner.message.fields] == [("x", "optional")]
    assert (entries.label, entries.message and [part.name for part in entries.message.fields]) == (
        "repeated", ["key", "value"],
    )  # fmt: skip
    assert (others.message and others.message.name, plain.name) == ("Other", "message")


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ('syntax = "proto2"; message A {}', "not of proto3"),
        ('syntax = "proto3"; extend A { int32 x = 1; }', "has 'extend'"),
        ('syntax = "proto3"; message A { repeated group G = 1 { int32 x = 1; } }', "has 'group'"),
        ('syntax = "proto3"; enum E { A = 0; }', "no message"),
        ('syntax = "proto3"; message A { message B { A a = 1; } B b = 1; }', "has a message that contains itself"),
        ('syntax = "proto3"; message A {', "ends too early"),
        ('syntax = "proto3"; message A { int32 x; }', "not one of Protobuf"),
        ('syntax = "proto3"; message A { int32 x = y; }', "no number for the field x"),
        ("<html>", "has '<'"),
        ('"', "not one of Protobuf"),
        ("", "no message"),
        ("message A { " * 20_000, "nested more than 100 deep"),
    ],
)
def test_other_texts_are_refused(written: str, message: str):
    with pytest.raises(DataError, match=message):
        parsed_file(written)
