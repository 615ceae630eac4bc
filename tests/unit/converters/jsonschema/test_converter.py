"""JSON with a schema id in front of it, read by confluent-kafka's deserializer."""

from __future__ import annotations

import datetime as dt
import json
import pickle
import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import jsonschema
import pyarrow as pa
import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.json_schema import JSONDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext
from pyspark.sql import types as spark
from pyspark.sql.pandas.types import to_arrow_type

from fencepost import ConfigError, DataError
from fencepost.api.ddl import parse_columns
from fencepost.converters.json_converter import JsonConverter
from fencepost.converters.jsonschema.converter import JsonSchemaConverter
from fencepost.converters.registry.errors import RegistryError
from tests.support.fake_registry import FakeRegistry

pytestmark = pytest.mark.unit

PREFIX = b"\0\0\0\0\1"
ALL = parse_columns(
    "b TINYINT, s SMALLINT, i INT, l BIGINT NOT NULL, f FLOAT, d DOUBLE, t BOOLEAN, text STRING, raw BINARY, day DATE, "
    "at TIMESTAMP, price DECIMAL(20, 2), tags ARRAY<STRING>, sizes MAP<STRING, INT>, codes MAP<INT, STRING>, "
    "inner STRUCT<x: INT NOT NULL, y: ARRAY<STRUCT<z: STRING>>>"
)
ROW = {
    "b": -1, "s": 300, "i": 2**31 - 1, "l": -(2**63), "f": 1.5, "d": 0.1, "t": True, "text": 'ä€"\n', "raw": b"\0\1",
    "day": dt.date(2026, 11, 24), "at": dt.datetime(2026, 11, 24, 12, 30, 0, 123000, dt.UTC), "price": Decimal("-1.28"),
    "tags": ["a", None], "sizes": {"k": 1}, "codes": {7: "seven"}, "inner": {"x": 1, "y": [{"z": "deep"}, {"z": None}]},
}  # fmt: skip
AS_JSON = ROW | {
    "raw": "AAE=", "day": 20781, "at": 1795523400123, "price": "gA==", "codes": [{"key": 7, "value": "seven"}],
}  # fmt: skip
NAME = spark.StructType([spark.StructField("name", spark.StringType())])


def converter(registry: FakeRegistry, *, is_key: bool | None = False, **settings: str) -> JsonSchemaConverter:
    made = JsonSchemaConverter()
    given = {name.replace("__", "."): value for name, value in settings.items()}
    made.configure({"schema.registry.url": registry.address, **given}, is_key=is_key)
    return made


def column(schema: spark.DataType, *rows: Any) -> pa.Array:
    kind = to_arrow_type(schema, timezone="UTC")
    return pa.array([{**row, **_entries(row)} if isinstance(row, dict) else row for row in rows], kind)


def _entries(row: dict[str, Any]) -> dict[str, Any]:
    return {name: list(row[name].items()) for name in ("sizes", "codes") if row.get(name) is not None}


def written(made: JsonSchemaConverter, schema: spark.DataType | None, values: pa.Array) -> list[bytes | None]:
    made.prepare("t", schema)
    # The converter is pickled, as for an executor.
    copy: JsonSchemaConverter = pickle.loads(pickle.dumps(made))  # noqa: S301 - pickled here
    found: list[bytes | None] = copy.from_connect_data("t", schema, values).to_pylist()
    return found


def test_rows_of_all_types_are_read_back_and_fit_their_schema(registry: FakeRegistry):
    nothing = dict.fromkeys(ROW) | {"l": 0}
    full, empty = written(converter(registry), ALL, column(ALL, ROW, nothing))
    assert full is not None
    assert empty is not None
    schema = json.loads(registry.text(1))
    for record in (full, empty):
        assert record.startswith(PREFIX)
        jsonschema.Draft7Validator(schema).validate(json.loads(record[5:]))
    with SchemaRegistryClient({"url": registry.address}) as client:
        read = JSONDeserializer(None, schema_registry_client=client)
        context = SerializationContext("t", MessageField.VALUE)
        assert read(full, context) == AS_JSON
        assert read(empty, context) == nothing
    assert registry.schemas[1]["schemaType"] == "JSON"


def test_the_payload_is_the_one_of_json_converter(registry: FakeRegistry):
    schema = spark.StructType([field for field in ALL.fields if field.name != "codes"])
    values = column(schema, {name: value for name, value in ROW.items() if name != "codes"})
    plain = JsonConverter()
    plain.configure({"schemas.enable": "false"}, is_key=False)
    (found,) = written(converter(registry), schema, values)
    assert found == PREFIX + plain.from_connect_data("t", schema, values)[0].as_py()


def test_decimals_may_be_numbers(registry: FakeRegistry):
    schema = parse_columns("price DECIMAL(20, 2)")
    (found,) = written(
        converter(registry, decimal__format="NUMERIC"), schema, column(schema, {"price": Decimal("-1.28")})
    )
    assert found == PREFIX + b'{"price":-1.28}'
    assert '"number"' in registry.text(1)


def test_a_null_with_a_schema_is_the_null_of_json_and_one_without_a_null_record(registry: FakeRegistry):
    assert written(converter(registry), NAME, column(NAME, None, {"name": "x"})) == [
        PREFIX + b"null",
        PREFIX + b'{"name":"x"}',
    ]
    assert written(converter(registry), NAME, column(NAME, None)) == [PREFIX + b"null"]
    asked = len(registry.requests)
    assert converter(registry).from_connect_data("t", None, pa.nulls(2)).to_pylist() == [None, None]
    assert len(registry.requests) == asked


def test_values_without_a_schema_have_the_schema_that_all_fit(registry: FakeRegistry):
    values = pa.array(['{"a":[1]}', "2"], pa.json_())
    assert written(converter(registry), None, values) == [PREFIX + b'{"a":[1]}', PREFIX + b"2"]
    assert registry.text(1) == "{}"


def test_a_null_that_the_schema_does_not_allow_is_refused(registry: FakeRegistry):
    schema = parse_columns("id BIGINT NOT NULL")
    values = pa.array([{"id": None}], pa.struct([("id", pa.int64())]))
    with pytest.raises(DataError, match="The field id is null"):
        written(converter(registry), schema, values)


def test_names_may_be_of_the_topic(registry: FakeRegistry):
    written(converter(registry, fencepost__schema__names="topic"), NAME, column(NAME, {"name": "x"}))
    assert json.loads(registry.text(1))["title"] == "t.Value"


def test_the_newest_schema_of_the_registry_is_checked(registry: FakeRegistry):
    registry.add("t-value", '{"type":"object","properties":{"name":{"type":"string"}}}', "JSON")
    chosen = {"auto__register__schemas": "false", "use__latest__version": "true"}
    assert written(converter(registry, **chosen), NAME, column(NAME, {"name": "x"})) == [PREFIX + b'{"name":"x"}']
    wide = parse_columns("name STRING, note STRING")
    with pytest.raises(RegistryError, match="it has no property for note"):
        converter(registry, **chosen).prepare("t", wide)
    lenient = converter(registry, **chosen, latest__compatibility__strict="false")
    assert written(lenient, wide, column(wide, {"name": "x", "note": "y"})) == [PREFIX + b'{"name":"x","note":"y"}']


def test_a_schema_of_another_language_is_refused(registry: FakeRegistry):
    registry.add("t-value", '"string"', "AVRO")
    chosen = {"auto__register__schemas": "false", "use__latest__version": "true"}
    with pytest.raises(RegistryError, match="of type AVRO, and JsonSchemaConverter writes JSON"):
        converter(registry, **chosen).prepare("t", NAME)


def test_validation_of_values_is_refused_as_not_supported(registry: FakeRegistry):
    with pytest.raises(ConfigError, match=r"json.fail.invalid.schema=true is not supported"):
        converter(registry, json__fail__invalid__schema="true")


def test_ids_of_any_bytes_are_written(registry: FakeRegistry):
    made = converter(registry)
    for number in range(300):
        registry.add(f"other-{number}", f'{{"title":"{number}"}}', "JSON")
    (found,) = written(made, NAME, column(NAME, {"name": "x"}))
    assert found is not None
    assert found[:5] == b"\0" + (301).to_bytes(4, "big")
    assert found[5:] == b'{"name":"x"}'


FLOATS = parse_columns(
    "d DOUBLE, inner STRUCT<f: FLOAT>, many ARRAY<DOUBLE>, by MAP<STRING, DOUBLE>, codes MAP<INT, STRUCT<x: FLOAT>>"
)


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize(
    ("place", "make"),
    [
        ("d", lambda x: {"d": x}),
        ("inner.f", lambda x: {"inner": {"f": x}}),
        ("many[]", lambda x: {"many": [1.0, x]}),
        ("by[value]", lambda x: {"by": {"k": x}}),
        ("codes[value].x", lambda x: {"codes": {1: {"x": x}}}),
    ],
)
def test_numbers_that_json_does_not_have_are_refused_with_their_place(
    registry: FakeRegistry, place: str, make: Callable[[float], dict[str, Any]], number: float
):
    made = converter(registry)
    made.prepare("t", FLOATS)
    kind = to_arrow_type(FLOATS)
    good = pa.array([make(1.5), None], kind)
    assert len(made.from_connect_data("t", FLOATS, good)) == 2
    with pytest.raises(DataError, match=re.escape(f"{place} is NaN or infinite")):
        made.from_connect_data("t", FLOATS, pa.array([make(1.5), make(number)], kind))


def test_numbers_below_a_null_do_not_count(registry: FakeRegistry):
    made = converter(registry)
    schema = parse_columns("inner STRUCT<f: DOUBLE>")
    made.prepare("t", schema)
    hidden = pa.StructArray.from_arrays([pa.array([float("nan")])], ["f"], mask=pa.array([True]))
    values = pa.StructArray.from_arrays([hidden], ["inner"])
    assert made.from_connect_data("t", schema, values).to_pylist() == [PREFIX + b'{"inner":null}']
    assert made.from_connect_data("t", schema, pa.array([{"inner": {"f": None}}], values.type)).to_pylist() == [
        PREFIX + b'{"inner":{"f":null}}'
    ]
