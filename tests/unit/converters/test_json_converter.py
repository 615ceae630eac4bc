from __future__ import annotations

import base64
import datetime as dt
import json
import pickle
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pyspark.sql import types as spark

from fencepost import ConfigError, DataError
from fencepost.converters import JsonConverter, render
from tests.unit.converters.generated import columns, expected_json

pytestmark = pytest.mark.unit

_STRUCT = spark.StructType([
    spark.StructField("id", spark.IntegerType(), nullable=False),
    spark.StructField("name", spark.StringType()),
])  # fmt: skip
_ARROW_STRUCT = pa.struct([("id", pa.int32()), ("name", pa.string())])


def json_converter(**settings: str) -> JsonConverter:
    converter = JsonConverter()
    converter.configure({name.replace("_", "."): value for name, value in settings.items()})
    return converter


def convert(schema: spark.DataType | None, values: pa.Array, **settings: str) -> list[bytes | None]:
    result: list[bytes | None] = json_converter(**settings).from_connect_data("topic", schema, values).to_pylist()
    return result


def payloads(schema: spark.DataType | None, values: pa.Array, **settings: str) -> list[bytes | None]:
    return convert(schema, values, schemas_enable="false", **settings)


@given(columns())
def test_any_generated_column_is_read_back_with_its_values(
    column: tuple[spark.DataType, list[Any], pa.Array],
):
    kind, rows, array = column
    written = payloads(kind, array)
    assert [json.loads(text or b"tombstone") for text in written] == [expected_json(kind, row) for row in rows]


@given(columns())
def test_the_payload_in_an_envelope_is_the_same_as_without_one(column: tuple[spark.DataType, list[Any], pa.Array]):
    kind, rows, array = column
    for written, row in zip(convert(kind, array), rows, strict=True):
        envelope = json.loads(written or b"tombstone")
        assert set(envelope) == {"schema", "payload"}
        assert envelope["payload"] == expected_json(kind, row)
        assert envelope["schema"]["optional"] is (row is None)


@given(st.lists(st.one_of(st.none(), st.floats()), max_size=20))
@example([-0.0, 1.0])
@example([0.5, 1.0, 1e9, 1e10, 1e16, 5e-324])
def test_every_finite_double_reads_back_as_the_same_double_and_not_as_an_integer(numbers: list[float | None]):
    written = payloads(spark.DoubleType(), pa.array(numbers, pa.float64()))
    for text, number in zip(written, numbers, strict=True):
        read = json.loads(text or b"")
        if isinstance(read, float):
            assert number is not None
            assert np.float64(read).tobytes() == np.float64(number).tobytes()
        else:
            assert not isinstance(read, int)


@pytest.mark.parametrize(
    ("kind", "value", "schema", "payload"),
    [
        (spark.ByteType(), pa.array([7], pa.int8()), '{"type":"int8","optional":false}', "7"),
        (spark.ShortType(), pa.array([-7], pa.int16()), '{"type":"int16","optional":false}', "-7"),
        (spark.IntegerType(), pa.array([7], pa.int32()), '{"type":"int32","optional":false}', "7"),
        (spark.LongType(), pa.array([7]), '{"type":"int64","optional":false}', "7"),
        (spark.FloatType(), pa.array([0.5], pa.float32()), '{"type":"float","optional":false}', "0.5"),
        (spark.DoubleType(), pa.array([7.0]), '{"type":"double","optional":false}', "7.0"),
        (spark.BooleanType(), pa.array([True]), '{"type":"boolean","optional":false}', "true"),
        (spark.StringType(), pa.array(["é"]), '{"type":"string","optional":false}', '"é"'),
        (spark.VarcharType(9), pa.array(["x"]), '{"type":"string","optional":false}', '"x"'),
        (spark.BinaryType(), pa.array([b"\xff\x00"]), '{"type":"bytes","optional":false}', '"/wA="'),
        (
            spark.DateType(),
            pa.array([dt.date(1970, 1, 11)]),
            '{"type":"int32","optional":false,"name":"org.apache.kafka.connect.data.Date","version":1}',
            "10",
        ),
        (
            spark.TimeType(6),
            pa.array([dt.time(0, 0, 1, 2000)], pa.time64("us")),
            '{"type":"int32","optional":false,"name":"org.apache.kafka.connect.data.Time","version":1}',
            "1002",
        ),
        (
            spark.TimestampType(),
            pa.array([-1], pa.timestamp("us", "UTC")),
            '{"type":"int64","optional":false,"name":"org.apache.kafka.connect.data.Timestamp","version":1}',
            "-1",
        ),
        (
            spark.DecimalType(5, 2),
            pa.array([Decimal("1.28")], pa.decimal128(5, 2)),
            (
                '{"type":"bytes","optional":false,"name":"org.apache.kafka.connect.data.Decimal","version":1,'
                '"parameters":{"scale":"2"}}'
            ),
            '"AIA="',
        ),
        (
            spark.ArrayType(spark.IntegerType(), containsNull=False),
            pa.array([[1, 2]], pa.list_(pa.int32())),
            '{"type":"array","items":{"type":"int32","optional":false},"optional":false}',
            "[1,2]",
        ),
        (
            spark.MapType(spark.StringType(), spark.IntegerType()),
            pa.array([[("a", 1), ("b", None)]], pa.map_(pa.string(), pa.int32())),
            (
                '{"type":"map","keys":{"type":"string","optional":false},"values":{"type":"int32","optional":true},'
                '"optional":false}'
            ),
            '{"a":1,"b":null}',
        ),
        (
            spark.MapType(spark.IntegerType(), spark.StringType()),
            pa.array([[(1, "a")]], pa.map_(pa.int32(), pa.string())),
            (
                '{"type":"map","keys":{"type":"int32","optional":false},"values":{"type":"string","optional":true},'
                '"optional":false}'
            ),
            '[[1,"a"]]',
        ),
        (
            _STRUCT,
            pa.array([{"id": 1, "name": None}], _ARROW_STRUCT),
            (
                '{"type":"struct","fields":[{"type":"int32","optional":false,"field":"id"},'
                '{"type":"string","optional":true,"field":"name"}],"optional":false}'
            ),
            '{"id":1,"name":null}',
        ),
    ],
)
def test_each_type_has_the_schema_and_the_payload_that_connect_gives_it(
    kind: spark.DataType, value: pa.Array, schema: str, payload: str
):
    assert convert(kind, value) == [f'{{"schema":{schema},"payload":{payload}}}'.encode()]
    assert payloads(kind, value) == [payload.encode()]


def test_a_null_without_a_schema_is_a_tombstone_and_a_null_with_one_is_data():
    assert payloads(None, pa.array([None, "x"])) == [None, b'"x"']
    assert convert(None, pa.nulls(1)) == [None]
    assert convert(spark.NullType(), pa.nulls(1)) == [None]
    assert payloads(spark.StringType(), pa.array([None, "x"])) == [b"null", b'"x"']
    assert convert(spark.StringType(), pa.array([None, "x"])) == [
        b'{"schema":{"type":"string","optional":true},"payload":null}',
        b'{"schema":{"type":"string","optional":false},"payload":"x"}',
    ]


def test_schemaless_json_passes_unchanged():
    values = pa.array(['{"a": [1, 2.50]}', None, '"x"'], pa.json_())
    assert payloads(None, values) == [b'{"a": [1, 2.50]}', None, b'"x"']
    assert convert(None, values) == [
        b'{"schema":null,"payload":{"a": [1, 2.50]}}', None, b'{"schema":null,"payload":"x"}',
    ]  # fmt: skip


@given(
    st.lists(
        st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1), st.integers(0, 62).map(lambda bits: -(1 << bits))),
        max_size=9,
    ),
    st.integers(0, 3),
    st.booleans(),
)
@example(numbers=[0, -1, 127, 128, -128, -129, 2**63 - 1, -(2**63)], skipped=0, wide=False)
@example(numbers=[None, 2**62], skipped=1, wide=True)
def test_decimals_are_their_shortest_bytes_in_base64(numbers: list[int | None], skipped: int, wide: bool):
    beyond = [2**64, -(2**64)] if wide else []
    given = [*numbers, *beyond]
    values = pa.array([None if number is None else Decimal(number) for number in given], pa.decimal128(38, 0))[skipped:]

    expected = []
    for number in given[skipped:]:
        size = 1 if number is None else (number if number >= 0 else ~number).bit_length() // 8 + 1
        text = b"" if number is None else base64.b64encode(number.to_bytes(size, "big", signed=True))
        expected.append(b"null" if number is None else b'"' + text + b'"')
    assert payloads(spark.DecimalType(38, 0), values) == expected


@pytest.mark.parametrize("name", ["NUMERIC", "numeric"])
def test_decimals_are_numbers_with_all_their_digits_if_configured(name: str):
    values = pa.array([Decimal("1.20"), Decimal("-0.01"), None], pa.decimal128(5, 2))
    assert payloads(spark.DecimalType(5, 2), values, decimal_format=name) == [b"1.20", b"-0.01", b"null"]


def test_control_characters_are_escaped_and_other_characters_are_not():
    values = pa.array(['\x00\x1f\x7f\u2028/"\\', "\b\t\n\f\r", "plain", "\x0b\n\x1b"])
    assert payloads(spark.StringType(), values) == [
        b'"\\u0000\\u001F\x7f\xe2\x80\xa8/\\"\\\\"', b'"\\b\\t\\n\\f\\r"', b'"plain"', b'"\\u000B\\n\\u001B"',
    ]  # fmt: skip


@pytest.mark.parametrize("fine", ["plain", 'with "quotes"'])
def test_text_that_is_not_utf_8_is_refused_and_not_written_as_a_broken_document(fine: str):
    values = pa.array([fine.encode(), b"\xff\xfe", None]).view(pa.string())
    assert payloads(spark.StringType(), values.take(pa.array([0, 2]))) == [json.dumps(fine).encode(), b"null"]
    with pytest.raises(DataError, match=r"not UTF-8.*BINARY"):
        payloads(spark.StringType(), values)
    with pytest.raises(DataError, match=r"not UTF-8.*BINARY"):
        payloads(None, pa.StructArray.from_arrays([values], ["a"]))


def test_encoded_arrow_types_are_written_like_plain_ones():
    plain = pa.array(["a", None, "b"])
    expected = payloads(None, plain)
    for encoded in (
        plain.dictionary_encode(), plain.cast(pa.large_string()), plain.cast(pa.string_view()),
        pa.array(["x", "a", None, "b", "y"]).slice(1, 3),
    ):  # fmt: skip
        assert payloads(None, encoded) == expected
    lists = pa.array([[1], None, []], pa.list_(pa.int64()))
    assert payloads(None, lists.cast(pa.large_list(pa.int64()))) == payloads(None, lists) == [b"[1]", None, b"[]"]
    assert payloads(None, pa.array([[1, 2]], pa.list_(pa.int64(), 2))) == [b"[1,2]"]


def test_a_batch_too_large_for_one_go_is_converted_in_slices(monkeypatch: pytest.MonkeyPatch):
    values = pa.array([f"line {number}" for number in range(1000)])
    expected = convert(spark.StringType(), values)
    monkeypatch.setattr(render, "_BYTES_IN_ONE_GO", 5000)
    assert convert(spark.StringType(), values) == expected


def test_a_batch_whose_text_outgrows_32_bit_offsets_is_halved_until_it_fits():
    def convert_three_at_most(values: pa.Array) -> pa.Array:
        if len(values) > 3:
            raise pa.ArrowCapacityError("too much")
        return values.cast(pa.binary())

    values = pa.array([str(number) for number in range(10)])
    assert render.in_slices(values, 0, convert_three_at_most).to_pylist() == values.cast(pa.binary()).to_pylist()


@pytest.mark.parametrize(
    ("kind", "values", "place"),
    [
        (spark.DayTimeIntervalType(), pa.array([1], pa.duration("us")), "interval day to second of the record"),
        (
            spark.StructType([spark.StructField("a", spark.ArrayType(spark.YearMonthIntervalType()))]),
            pa.array([{"a": [1]}], pa.struct([("a", pa.list_(pa.int32()))])),
            r"interval year to month of a\[\]",
        ),
        (None, pa.array([{"took": 1}], pa.struct([("took", pa.duration("us"))])), "took"),
    ],
)
def test_a_type_that_connect_lacks_is_named_with_its_place_and_advice(
    kind: spark.DataType | None, values: pa.Array, place: str
):
    with pytest.raises(DataError, match=rf"{place}.*(cast it|Cast it)"):
        payloads(kind, values)


@pytest.mark.parametrize(
    ("kind", "values", "place"),
    [
        (_STRUCT, pa.array([{"id": None}], _ARROW_STRUCT), "id"),
        (spark.ArrayType(_STRUCT), pa.array([[{"id": None}]], pa.list_(_ARROW_STRUCT)), r"\[\]\.id"),
        (spark.ArrayType(spark.LongType(), containsNull=False), pa.array([[None]], pa.list_(pa.int64())), r"\[\]"),
        (
            spark.MapType(spark.StringType(), spark.LongType(), valueContainsNull=False),
            pa.array([[("a", None)]], pa.map_(pa.string(), pa.int64())),
            r"\[value\]",
        ),
    ],
)
def test_a_null_where_the_schema_allows_none_is_an_error_that_names_the_field(
    kind: spark.DataType, values: pa.Array, place: str
):
    with pytest.raises(DataError, match=f"The field {place} is null"):
        convert(kind, values)


def test_a_required_field_of_a_null_struct_is_not_an_error():
    values = pa.array([None, {"id": 1, "name": "x"}], _ARROW_STRUCT)
    assert payloads(_STRUCT, values) == [b"null", b'{"id":1,"name":"x"}']


def test_a_configured_converter_survives_pickling():
    converter = pickle.loads(pickle.dumps(json_converter(decimal_format="NUMERIC", schemas_enable="false")))  # noqa: S301 - our own
    values = pa.array([Decimal("1.5")], pa.decimal128(2, 1))
    assert converter.from_connect_data("topic", spark.DecimalType(2, 1), values).to_pylist() == [b"1.5"]


def test_an_unknown_decimal_format_is_refused_by_name():
    with pytest.raises(ConfigError, match=r"decimal\.format.*base64, numeric"):
        json_converter(decimal_format="HEX")


def test_json_serves_as_a_header_converter_as_well():
    converter = json_converter(schemas_enable="false")
    assert converter.from_connect_header("topic", spark.StringType(), pa.array(["x"])).to_pylist() == [b'"x"']
