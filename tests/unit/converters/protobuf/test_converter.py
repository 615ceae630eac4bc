"""Protobuf with a schema id in front of it, read by confluent-kafka's deserializer and google.protobuf."""

from __future__ import annotations

import pickle
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext
from pyspark.sql import types as spark
from pyspark.sql.pandas.types import to_arrow_type

from fencepost import ConfigError, DataError
from fencepost.api.ddl import parse_columns
from fencepost.converters.protobuf.converter import ProtobufConverter
from fencepost.converters.protobuf.parser import parsed_file
from fencepost.converters.registry.errors import RegistryError
from tests.support.fake_registry import FakeRegistry
from tests.support.protobuf_messages import message_class
from tests.unit.converters.protobuf.test_encoding import FULL, ROW

pytestmark = pytest.mark.unit

PREFIX = b"\0\0\0\0\1"
LATEST = {"auto__register__schemas": "false", "use__latest__version": "true"}
NAME = parse_columns("id INT, name STRING")


def converter(registry: FakeRegistry, *, is_key: bool | None = False, **settings: str) -> ProtobufConverter:
    made = ProtobufConverter()
    given = {name.replace("__", "."): value for name, value in settings.items()}
    made.configure({"schema.registry.url": registry.address, **given}, is_key=is_key)
    return made


def written(made: ProtobufConverter, schema: spark.DataType, *rows: Any) -> list[bytes | None]:
    made.prepare("t", schema)
    # The converter is pickled, as for an executor.
    copy: ProtobufConverter = pickle.loads(pickle.dumps(made))  # noqa: S301 - pickled here
    found: list[bytes | None] = copy.from_connect_data(
        "t", schema, pa.array(rows, to_arrow_type(schema, timezone="UTC"))
    ).to_pylist()
    return found


def read(text: str, record: bytes | None) -> Any:
    """Read a record with confluent-kafka's deserializer, which gets the message class and no registry."""
    deserialize = ProtobufDeserializer(message_class(parsed_file(text)), {"use.deprecated.format": False})
    return deserialize(record, SerializationContext("t", MessageField.VALUE))


def test_rows_of_all_types_are_read_back_by_the_registered_schema(registry: FakeRegistry):
    full, null = written(converter(registry, optional__for__nullables="true"), ROW, FULL, None)
    assert null is None
    assert full is not None
    assert full.startswith(PREFIX + b"\0")
    assert registry.schemas[1]["schemaType"] == "PROTOBUF"
    found = read(registry.text(1), full)
    assert (found.b, found.s, found.i, found.l, found.t, found.text, found.raw) == (
        -1, 300, 2**31 - 1, -(2**63), True, "ä€", b"\0\1",
    )  # fmt: skip
    assert (found.day.year, found.day.month, found.day.day) == (2026, 11, 24)
    assert (found.price.value, found.price.precision, found.price.scale) == (b"\x80", 3, 2)
    assert found.at.ToMilliseconds() == 1795523400123
    assert [(entry.key, entry.value) for entry in found.sizes] == [("k", 1), ("", 0), ("n", 0)]
    assert [part.z for part in found.inner.y] == ["deep", ""]
    assert not found.inner.y[1].HasField("z")
    assert [list(entry.value) for entry in found.lists] == [[1, 2], [], []]


@pytest.mark.parametrize(
    ("kind", "value", "prefix"),
    [
        (spark.IntegerType(), -7, "0208"),
        (spark.StringType(), "key", "020e"),
        (spark.LongType(), 2**40, "0204"),
        (spark.DoubleType(), 1.5, "00"),
        (spark.BooleanType(), False, "020c"),
        (spark.BinaryType(), b"\0", "0210"),
    ],
)
def test_keys_that_are_not_structs_are_wrapper_messages(
    registry: FakeRegistry, kind: spark.DataType, value: Any, prefix: str
):
    (record,) = written(converter(registry, is_key=True), kind, value)
    assert record is not None
    assert record.startswith(PREFIX + bytes.fromhex(prefix))
    assert list(registry.subjects) == ["t-key"]
    at = 0 if prefix == "00" else bytes.fromhex(prefix)[1] // 2
    file = replace(parsed_file(registry.text(1)), root_index=at)
    deserialize = ProtobufDeserializer(message_class(file), {"use.deprecated.format": False})
    assert deserialize(record, SerializationContext("t", MessageField.KEY)).value == value


def test_headers_of_different_types_have_a_subject_each(registry: FakeRegistry):
    made = converter(registry, is_key=None)
    for kind in (spark.IntegerType(), spark.StringType()):
        written(made, kind, None, 1 if kind == spark.IntegerType() else "x")
    assert list(registry.subjects) == ["t-header-google.protobuf.Int32Value", "t-header-google.protobuf.StringValue"]


def test_the_newest_schema_is_written_by_names_and_never_by_position(registry: FakeRegistry):
    text = 'syntax = "proto3"; message Other {int32 x = 1;} message ConnectDefault1 { string name = 7; bool new = 1; int64 id = 536870911; }'
    registry.add("t-value", text, "PROTOBUF")
    (record,) = written(converter(registry, **LATEST), NAME, {"id": -1, "name": "x"})
    assert record is not None
    assert record.startswith(PREFIX + b"\2\2")
    second = 'syntax = "proto3"; message ConnectDefault1 { string name = 7; bool new = 1; int64 id = 536870911; }'
    found = message_class(parsed_file(second)).FromString(record[len(PREFIX) + 2 :])
    assert (found.name, found.id, found.new) == ("x", -1, False)
    assert record[len(PREFIX) + 2 :] == found.SerializeToString()


NUMBERS = {"fencepost__protobuf__field__numbers": "names"}


def numbers(registry: FakeRegistry, schema_id: int) -> dict[str, int]:
    return {part.name: part.number for part in parsed_file(registry.text(schema_id)).root.fields}


def test_names_keep_the_numbers_of_any_version_of_their_subject(registry: FakeRegistry):
    for columns in (
        "a INT, b INT, c INT",
        "c INT, a INT",
        "d INT, a INT, c INT",
        "e INT, b INT, a INT",
        "c INT, a INT",
    ):
        # Each converter belongs to a new task.
        converter(registry, **NUMBERS).prepare("t", parse_columns(columns))
    found = [numbers(registry, schema_id) for schema_id in registry.subjects["t-value"]]
    assert found == [
        {"a": 1, "b": 2, "c": 3}, {"c": 3, "a": 1}, {"d": 4, "a": 1, "c": 3}, {"e": 5, "b": 2, "a": 1},
    ]  # fmt: skip


def test_values_are_written_with_the_numbers_of_their_names(registry: FakeRegistry):
    converter(registry, **NUMBERS).prepare("t", parse_columns("gone INT, id INT, name STRING"))
    (data,) = written(converter(registry, **NUMBERS), NAME, {"id": 1, "name": "x"})
    assert data == b"\0\0\0\0\2\0\x10\1\x1a\1x"


def test_field_numbers_of_inner_messages_follow_their_names(registry: FakeRegistry):
    for columns in ("s STRUCT<a: INT, b: INT>, m MAP<STRING, INT>", "m MAP<STRING, INT>, s STRUCT<b: INT, c: INT>"):
        made = converter(registry, fencepost__schema__names="topic", **NUMBERS)
        made.prepare("t", parse_columns(columns))
    file = parsed_file(registry.text(2))
    assert numbers(registry, 2) == {"m": 2, "s": 1}
    inner = {part.name: part.message for part in file.root.fields}
    assert inner["s"] is not None
    assert inner["m"] is not None
    assert {part.name: part.number for part in inner["s"].fields} == {"b": 2, "c": 3}
    assert {part.name: part.number for part in inner["m"].fields} == {"key": 1, "value": 2}


def test_numbers_that_are_reserved_are_not_given_again(registry: FakeRegistry):
    text = 'syntax = "proto3"; message ConnectDefault1 { reserved 2, 5 to 18999, "gone"; int32 id = 1; }'
    registry.add("t-value", text, "PROTOBUF")
    converter(registry, **NUMBERS).prepare("t", NAME)
    assert numbers(registry, 2) == {"id": 1, "name": 20_000}


def test_protobuf_field_numbers_follow_positions_by_default_as_in_java(registry: FakeRegistry):
    for columns in ("a INT, b INT", "b INT"):
        converter(registry).prepare("t", parse_columns(columns))
    assert numbers(registry, 2) == {"b": 1}
    assert registry.asked("GET", "/versions") == []


def test_numbers_cannot_follow_a_schema_of_another_language(registry: FakeRegistry):
    registry.add("t-value", '"string"')
    with pytest.raises(RegistryError, match="numbers of fields cannot follow the schemas of subject t-value"):
        converter(registry, **NUMBERS).prepare("t", NAME)


def test_a_schema_that_lacks_a_field_is_refused_unless_that_may_be_dropped(registry: FakeRegistry):
    registry.add("t-value", 'syntax = "proto3"; message ConnectDefault1 { string name = 1; }', "PROTOBUF")
    with pytest.raises(RegistryError, match="The schema lacks id, which the records have"):
        converter(registry, **LATEST).prepare("t", NAME)
    lenient = converter(registry, **LATEST, latest__compatibility__strict="false")
    assert written(lenient, NAME, {"id": 1, "name": "x"}) == [PREFIX + b"\0\x0a\1x"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "message ConnectDefault1 { int32 id = 1; repeated string name = 2; }",
            "name is string, and the schema has repeated",
        ),
        (
            "message ConnectDefault1 { string id = 1; string name = 2; }",
            "id is int32, and the schema has string for it",
        ),
        (
            "message ConnectDefault1 { sint32 id = 1; string name = 2; }",
            "id is int32, and the schema has sint32 for it",
        ),
        (
            "message ConnectDefault1 { M id = 1; string name = 2; message M {} }",
            "id is int32, and the schema has M for it",
        ),
        (
            "package p; message ConnectDefault1 { int32 id = 1; string name = 2; }",
            "no message ConnectDefault1, .* it has p",
        ),
        (
            "message ConnectDefault1 { oneof o { int32 id = 1; } string name = 2; }",
            "id is in the oneof o of the schema",
        ),
        (
            "message ConnectDefault1 { int32 id = 1; E name = 2; enum E { A = 0; } }",
            "name is string, and the schema has E for it",
        ),
    ],
)
def test_another_schema_is_refused_and_says_why(registry: FakeRegistry, text: str, message: str):
    registry.add("t-value", f'syntax = "proto3"; {text}', "PROTOBUF")
    with pytest.raises(RegistryError, match=message):
        converter(registry, **LATEST).prepare("t", NAME)


def test_a_schema_in_the_registrys_layout_is_the_same(registry: FakeRegistry):
    made = converter(registry, use__schema__id="1", auto__register__schemas="false")
    text = 'syntax="proto3";message ConnectDefault1{int32 id=1;string name=2;}'
    registry.add("t-value", text, "PROTOBUF")
    assert written(made, NAME, {"id": 1, "name": "x"}) == [PREFIX + b"\0\x08\1\x12\1x"]
    assert written(converter(registry), NAME, {"id": 1, "name": ""})[0] is not None


def test_types_without_a_schema_in_protobuf_are_not_registered(registry: FakeRegistry):
    with pytest.raises(RegistryError, match="no form for values without a schema"):
        converter(registry).prepare("t", None)
    with pytest.raises(RegistryError, match="no form for a, an array in an array"):
        converter(registry).prepare("t", parse_columns("a ARRAY<ARRAY<INT>>"))
    assert not registry.subjects


def test_a_null_in_an_array_names_topic_and_place(registry: FakeRegistry):
    with pytest.raises(DataError, match=r"cannot write a record of the topic t\. The array tags has a null"):
        written(converter(registry), parse_columns("tags ARRAY<INT>"), {"tags": [None]})


def test_names_may_be_of_the_topic(registry: FakeRegistry):
    written(converter(registry, fencepost__schema__names="topic"), NAME, {"id": 1, "name": "x"})
    assert "package t;\n\nmessage Value {" in registry.text(1)


def test_registering_known_types_is_refused_as_not_supported(registry: FakeRegistry):
    with pytest.raises(ConfigError, match=r"skip.known.types=false is not supported"):
        converter(registry, skip__known__types="false")
