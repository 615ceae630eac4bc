from __future__ import annotations

import datetime as dt
import pickle
import re
import struct
import subprocess
import sys
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import types as spark

from fencepost import ConfigError, Converter, DataError
from fencepost.converters import (
    BooleanConverter,
    ByteArrayConverter,
    DoubleConverter,
    FloatConverter,
    IntegerConverter,
    LongConverter,
    ShortConverter,
    SimpleHeaderConverter,
    StringConverter,
)

pytestmark = pytest.mark.unit

_NESTED = pa.struct([
    ("a", pa.int32()), ("b", pa.string()), ("c", pa.list_(pa.int64())), ("d", pa.map_(pa.string(), pa.float64())),
])  # fmt: skip
_NESTED_ROWS = [{"a": 1, "b": 'x"\\', "c": [1, None], "d": [("k", 1.5), ("l", 2.0)]}, {"c": []}, None, {}]


def strings(values: pa.Array, **settings: str) -> list[bytes | None]:
    converter = StringConverter()
    converter.configure({name.replace("_", "."): value for name, value in settings.items()})
    result: list[bytes | None] = converter.from_connect_data("topic", None, values).to_pylist()
    return result


def headers(values: pa.Array) -> list[bytes | None]:
    result: list[bytes | None] = SimpleHeaderConverter().from_connect_header("topic", None, values).to_pylist()
    return result


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.string_view()])
def test_string_converter_writes_text_unchanged(kind: Any):
    values = pa.array(["a", None, 'é"\n', ""], kind)
    assert strings(values) == [b"a", None, 'é"\n'.encode(), b""]
    assert strings(values.slice(2)) == ['é"\n'.encode(), b""]


def test_string_converter_writes_another_encoding_if_configured():
    assert strings(pa.array(["é", None]), converter_encoding="ISO-8859-1") == [b"\xe9", None]
    for name in ("UTF-99", "hex"):
        with pytest.raises(ConfigError, match=r"converter\.encoding.*UTF-8"):
            strings(pa.array(["é"]), converter_encoding=name)


@pytest.mark.parametrize(("name", "written"), [("UTF-16", b"\xfe\xff\0\xe9"), ("UTF-32", b"\0\0\0\xe9")])
def test_encodings_without_a_byte_order_use_javas(name: str, written: bytes):
    assert strings(pa.array(["é", "", None]), converter_encoding=name) == [written, b"", None]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (pa.array([1, -5, None]), [b"1", b"-5", None]),
        (pa.array([True, False]), [b"true", b"false"]),
        (pa.array([Decimal("1.20")], pa.decimal128(5, 2)), [b"1.20"]),
        (pa.array([dt.date(2013, 1, 31)]), [b"2013-01-31"]),
        (pa.array([2_932_897, -(2**31)], pa.int32()).view(pa.date32()), [b"+10000-01-01", b"-5877641-06-23"]),
        (pa.array([2**63 - 1]).view(pa.timestamp("us", "UTC")), [b"+294247-01-10T04:00:54.775Z"]),
        (pa.array([dt.datetime(2013, 1, 31, 5, 6, 7, 89_999, dt.UTC)], pa.timestamp("us", "UTC")), [b"2013-01-31T05:06:07.089Z"]),
        (pa.array([dt.time(5, 6, 7, 89_999)]), [b"05:06:07.089Z"]),
        (pa.array(['{"a": 1}'], pa.json_()), [b'{"a": 1}']),
    ],
)  # fmt: skip
def test_scalars_have_the_text_of_java_in_strings_and_headers(values: pa.Array, expected: list[bytes | None]):
    assert strings(values) == expected
    assert headers(values) == expected


def test_doubles_have_the_text_of_java():
    values = pa.array([1.0, 0.1, 1e7, 9999999.0, 1.5e-5, 0.001, 123456789.125, -0.0, 1e300, None])
    expected = ["1.0", "0.1", "1.0E7", "9999999.0", "1.5E-5", "0.001", "1.23456789125E8", "-0.0", "1.0E300"]
    assert strings(values) == [*(text.encode() for text in expected), None]
    infinities = pa.array([float("nan"), float("inf"), float("-inf")], pa.float32())
    assert strings(infinities) == [b"NaN", b"Infinity", b"-Infinity"]


@given(st.lists(st.one_of(st.none(), st.floats(allow_nan=False, allow_infinity=False)), max_size=20))
def test_the_text_of_every_double_reads_back_and_has_the_shape_of_java(numbers: list[float | None]):
    for text, number in zip(strings(pa.array(numbers, pa.float64())), numbers, strict=True):
        if number is None:
            assert text is None
            continue
        assert text is not None
        assert float(text) == number
        assert re.fullmatch(rb"-?\d+\.\d+(E-?\d+)?", text)
        assert (b"E" in text) is (number != 0 and not 1e-3 <= abs(number) < 1e7)


def test_structures_have_the_text_of_java_in_strings():
    assert strings(pa.array(_NESTED_ROWS, _NESTED)) == [
        b'Struct{a=1,b=x"\\,c=[1, null],d={k=1.5, l=2.0}}', b"Struct{c=[]}", None, b"Struct{}",
    ]  # fmt: skip


def test_structures_have_the_text_of_connects_values_in_headers():
    assert headers(pa.array(_NESTED_ROWS, _NESTED)) == [
        b'{"a":1,"b":"x\\"\\\\","c":[1,null],"d":{"k":1.5,"l":2.0}}',
        b'{"a":null,"b":null,"c":[],"d":null}',
        None,
        b'{"a":null,"b":null,"c":null,"d":null}',
    ]


def test_headers_have_bare_text_and_bare_base64_outside_structures():
    assert headers(pa.array(['x"', None])) == [b'x"', None]
    assert headers(pa.array([b"\xff\x00", None, b"abc", b"a"])) == [b"/wA=", None, b"YWJj", b"YQ=="]


def test_string_converter_sends_bytes_to_the_byte_array_converter():
    with pytest.raises(DataError, match=r"StringConverter.*topic.*binary.*ByteArrayConverter"):
        strings(pa.array([b"x"]))


@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary(), pa.binary_view()])
def test_bytes_pass_through_the_byte_array_converter(kind: Any):
    values = pa.array([b"\xff", None, b""], kind)
    for array in (values, values.dictionary_encode() if kind == pa.binary() else values):
        converted = ByteArrayConverter().from_connect_data("topic", spark.BinaryType(), array)
        assert converted.to_pylist() == [b"\xff", None, b""]
    assert ByteArrayConverter().from_connect_data("topic", None, pa.nulls(2)).to_pylist() == [None, None]


def test_byte_array_converter_refuses_other_types_and_names_the_converter_to_use():
    with pytest.raises(DataError, match=r"topic.*string.*StringConverter for text, JsonConverter"):
        ByteArrayConverter().from_connect_data("topic", spark.StringType(), pa.array(["x"]))


_NUMBERS: list[tuple[Converter, Any, str, st.SearchStrategy[Any]]] = [
    (ShortConverter(), pa.int16(), ">h", st.integers(-(2**15), 2**15 - 1)),
    (IntegerConverter(), pa.int32(), ">i", st.integers(-(2**31), 2**31 - 1)),
    (LongConverter(), pa.int64(), ">q", st.integers(-(2**63), 2**63 - 1)),
    (FloatConverter(), pa.float32(), ">f", st.floats(width=32, allow_nan=False)),
    (DoubleConverter(), pa.float64(), ">d", st.floats(allow_nan=False)),
    (BooleanConverter(), pa.bool_(), ">?", st.booleans()),
]


@pytest.mark.parametrize(("converter", "kind", "layout", "numbers"), _NUMBERS)
def test_number_converters_write_the_big_endian_bytes_of_kafkas_serializers(
    converter: Converter, kind: Any, layout: str, numbers: st.SearchStrategy[Any]
):
    @given(st.lists(st.one_of(st.none(), numbers), max_size=20))
    def check(rows: list[Any]) -> None:
        converted = converter.from_connect_data("topic", None, pa.array(rows, kind)).to_pylist()
        assert converted == [None if row is None else struct.pack(layout, row) for row in rows]

    check()


def test_number_converters_refuse_other_types_and_take_nulls_without_a_type():
    with pytest.raises(DataError, match=r"IntegerConverter takes INT only.*topic.*bigint.*cast it"):
        IntegerConverter().from_connect_data("topic", spark.LongType(), pa.array([1]))
    assert LongConverter().from_connect_data("topic", None, pa.nulls(1)).to_pylist() == [None]


@pytest.mark.parametrize(
    "converter", [StringConverter(), ByteArrayConverter(), LongConverter(), SimpleHeaderConverter()]
)
def test_converters_survive_pickling(converter: Any):
    assert type(pickle.loads(pickle.dumps(converter))) is type(converter)  # noqa: S301 - our own


def test_converters_are_imported_without_pandas():
    """Importing pandas takes longer than importing all that a worker needs for its first connector."""
    program = "import sys, fencepost.converters; sys.exit('pandas' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
