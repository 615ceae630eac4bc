"""Bytes of the built-in converters, decoded for `fencepost tail`."""

from __future__ import annotations

import json
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.types import (
    ArrayType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from fencepost.api.errors import ConfigError
from fencepost.api.plugin import Converter
from fencepost.converters import DoubleConverter, FloatConverter, JsonConverter, LongConverter, StringConverter
from fencepost.converters.avro.converter import AvroConverter
from fencepost.converters.decoded_json import to_json
from fencepost.converters.record_decoding import RecordDecoder, advice, decoder
from fencepost.converters.registry.reading import RegistryReader
from tests.support.fake_registry import fake_registry


def _converted(converter: Converter, schema: DataType | None, values: pa.Array, **configs: str) -> list[bytes]:
    converter.configure({name.replace("_", "."): value for name, value in configs.items()}, is_key=False)
    encoded: list[bytes] = converter.from_connect_data("t", schema, values).to_pylist()
    return encoded


def test_an_envelope_gives_its_payload_with_logical_types_as_text() -> None:
    inner = StructType([StructField("amount", DecimalType(10, 2)), StructField("day", DateType())])
    schema = StructType(
        [
            StructField("at", TimestampType()),
            StructField("lines", ArrayType(inner)),
            StructField("by_name", MapType(StringType(), DecimalType(10, 2))),
        ]
    )
    value = {
        "at": datetime.fromisoformat("2026-01-31T08:00:00.250+00:00"),
        "lines": [{"amount": Decimal("-12.30"), "day": date(2026, 1, 31)}],
        "by_name": [("a", Decimal("0.05"))],
    }
    arrow = pa.struct(
        [
            ("at", pa.timestamp("us", "UTC")),
            ("lines", pa.list_(pa.struct([("amount", pa.decimal128(10, 2)), ("day", pa.date32())]))),
            ("by_name", pa.map_(pa.string(), pa.decimal128(10, 2))),
        ]
    )

    (encoded,) = _converted(JsonConverter(), schema, pa.array([value], arrow))

    assert decoder("JsonConverter")(encoded) == {
        "at": "2026-01-31T08:00:00.250000+00:00",
        "lines": [{"amount": "-12.30", "day": "2026-01-31"}],
        "by_name": {"a": "0.05"},
    }


@pytest.mark.parametrize(
    ("converter", "schema", "value"),
    [
        (LongConverter(), LongType(), -(2**40)),
        (DoubleConverter(), DoubleType(), 0.1),
        (FloatConverter(), FloatType(), pa.scalar(0.5, pa.float32())),
        (StringConverter(), StringType(), "1 Grüße"),
    ],
)
def test_output_is_also_decoded_by_a_converters_java_name(converter: Converter, schema: DataType, value: Any) -> None:
    (encoded,) = _converted(converter, schema, pa.array([value]))
    value = pa.scalar(value).as_py()
    name = type(converter).__name__

    assert decoder(f"org.apache.kafka.connect.converters.{name}")(encoded) == value
    assert decoder(name)(encoded) == value


def test_auto_takes_json_then_text_then_bytes() -> None:
    auto = decoder("auto")

    assert auto(b'{"a": 1}') == {"a": 1}
    assert auto(b"a line") == "a line"
    assert auto(b"\xff\x00") == {"base64": "/wA="}
    assert auto((7).to_bytes(4, "big")) == {"base64": "AAAABw=="}


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"5", None),
        (b"text", None),
        (b"\0", "--key-converter BooleanConverter decodes"),
        (b"\0\1", "--key-converter ShortConverter decodes"),
        (b"\0\0\0\7", "--key-converter IntegerConverter or --key-converter FloatConverter decodes"),
        (b"\xff\xff\xff", "one of auto, JsonConverter"),
    ],
)
def test_the_converter_that_may_decode_bytes_is_named(data: bytes, told: str | None) -> None:
    given = advice(data, "key")

    assert given == told if told is None or given is None else told in given


def test_bytes_of_another_length_are_not_a_number() -> None:
    with pytest.raises(ValueError, match="3 bytes, not 8"):
        decoder("LongConverter")(b"abc")


def test_an_unknown_converter_is_refused_with_those_that_are_known() -> None:
    with pytest.raises(ConfigError, match=r"no decoder for the converter acme\.Avro: use one of auto, JsonConverter"):
        decoder("acme.Avro")


def test_decimals_keep_their_digits() -> None:
    value = decoder("auto")(b'{"amount": 12345678901234567890.12}')

    assert to_json(value) == '{"amount": 12345678901234567890.12}'


@given(st.recursive(st.none() | st.integers() | st.text(), lambda of: st.lists(of) | st.dictionaries(st.text(), of)))
def test_printed_json_is_one_printable_line_with_the_same_content(value: Any) -> None:
    printed = to_json(value)

    assert printed.isprintable()
    assert json.loads(printed) == value


@pytest.mark.parametrize(("text", "shown"), [("NaN", "NaN"), ("-Infinity", "-Infinity")])
def test_numbers_that_json_does_not_have_are_texts(text: str, shown: str) -> None:
    (as_double,) = _converted(DoubleConverter(), DoubleType(), pa.array([float(text)]))

    line = to_json({"number": decoder("DoubleConverter")(as_double), "json": decoder("auto")(text.encode())})

    assert json.loads(line, parse_constant=pytest.fail) == {"number": shown, "json": shown}


def test_avro_is_decoded_by_its_registry_and_other_bytes_as_they_are() -> None:
    schema = StructType(
        [StructField("at", TimestampType()), StructField("d", DecimalType(10, 2)), StructField("n", LongType())]
    )
    arrow = pa.struct([("at", pa.timestamp("us", "UTC")), ("d", pa.decimal128(10, 2)), ("n", pa.int64())])
    rows = pa.array(
        [{"at": datetime.fromisoformat("2026-01-31T08:00:00.250+00:00"), "d": Decimal("-1.20"), "n": 7}], arrow
    )
    with fake_registry(with_guids=True) as registry:
        for mode in ("PrefixSchemaIdSerializer", "HeaderSchemaIdSerializer"):
            converter = AvroConverter()
            given = {"schema.registry.url": registry.address, "value.schema.id.serializer": mode}
            converter.configure(given, is_key=False)
            converter.prepare("t", schema)
            (data,) = converter.from_connect_data("t", schema, rows).to_pylist()
            header = converter.record_header("t", schema)
            headers = {} if header is None else dict([header])
            reader = RegistryReader({"schema.registry.url": registry.address})
            decode = RecordDecoder("auto", reader, is_key=False)
            shown = to_json(decode(data, headers))
            assert shown == '{"at": "2026-01-31T08:00:00.250000+00:00", "d": -1.20, "n": 7}'
            assert decode(b"\0\0\0\0\x63x", {}) == {"base64": "AAAAAGN4"}
            assert decode(b'{"a": 1}', {}) == {"a": 1}
            with pytest.raises(ValueError, match="Schema not found"):
                RecordDecoder("AvroConverter", reader, is_key=False)(b"\0\0\0\0\x63x", {})
            with pytest.raises(ValueError, match="do not fit their schema"):
                RecordDecoder("AvroConverter", reader, is_key=False)(data + b"x", headers)
            reader.close()
            plain = RegistryReader({"schema.registry.url": registry.address}, for_people=False)
            assert plain.read(data, is_key=False, headers=headers)["at"] == 1_769_846_400_250
            plain.close()
            converter.registry.client.close()


def test_avro_needs_a_registry() -> None:
    with pytest.raises(ConfigError, match="--schema-registry-url"):
        RecordDecoder("AvroConverter", None, is_key=False)
