"""Unscaled values become decimals with all of their digits."""

from __future__ import annotations

import base64
import json
from decimal import Decimal, localcontext
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import DecimalType, StructField, StructType

from fencepost.api.decimals import scaled
from fencepost.cli.verify.csv_rows import _fields
from fencepost.converters import JsonConverter
from fencepost.converters.avro.converter import AvroConverter
from fencepost.converters.jsonschema.converter import JsonSchemaConverter
from fencepost.converters.protobuf.converter import ProtobufConverter
from fencepost.converters.record_decoding import decoder
from fencepost.converters.registry.base import RegistryConverter
from fencepost.converters.registry.reading import RegistryReader
from tests.support.fake_registry import fake_registry

LONG = Decimal("-12345678901234567890.123456789012345678")
SCHEMA = StructType([StructField("d", DecimalType(38, 18))])
VALUES = pa.array([{"d": LONG}], pa.struct([("d", pa.decimal128(38, 18))]))


def test_all_digits_are_kept_whatever_the_context_is():
    with localcontext(prec=3):
        assert scaled((-(10**37) - 1).to_bytes(17, "big", signed=True), 5).as_tuple() == (
            Decimal(f"-{10**37 + 1}E-5").as_tuple()
        )
    assert scaled(b"", 2) == 0
    assert scaled(b"\x7b", -2) == 12300


@pytest.mark.parametrize("scale", [2**31 - 1, -(2**31), 100_001])
def test_a_scale_of_billions_is_refused(scale: int):
    with pytest.raises(ValueError, match=f"scale {scale}"):
        scaled(b"\1", scale)


@pytest.mark.parametrize("converter", [AvroConverter, ProtobufConverter, JsonSchemaConverter])
def test_readers_of_a_registry_keep_all_digits(converter: type[RegistryConverter]):
    with fake_registry() as registry:
        properties = {"schema.registry.url": registry.address}
        made = converter()
        made.configure(properties, is_key=False)
        made.prepare("t", SCHEMA)
        (data,) = made.from_connect_data("t", SCHEMA, VALUES).to_pylist()
        reader = RegistryReader(properties)
        found: Any = reader.read(data, is_key=False)
        reader.close()
    assert found["d"].as_tuple() == LONG.as_tuple()


def test_an_envelope_is_read_with_all_digits():
    converter = JsonConverter()
    converter.configure({}, is_key=False)
    (data,) = converter.from_connect_data("t", SCHEMA, VALUES).to_pylist()
    assert str(decoder("JsonConverter")(data)["d"]) == str(LONG)
    assert _fields(data)["d"].as_tuple() == LONG.as_tuple()


def test_a_hostile_scale_of_an_envelope_leaves_the_value_as_it_is():
    text = base64.b64encode(b"\1").decode()
    schema = {"type": "bytes", "name": "org.apache.kafka.connect.data.Decimal", "parameters": {"scale": "-2000000000"}}
    assert decoder("JsonConverter")(json.dumps({"schema": schema, "payload": text}).encode()) == text
