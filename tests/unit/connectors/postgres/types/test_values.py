"""PostgreSQL's texts become values; tests/broker compares the meaning of each text with the server."""

from __future__ import annotations

import sys
from datetime import date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.api.errors import DataError
from fencepost.connectors.postgres.types import temporal, types, values
from fencepost.connectors.postgres.types.types import (
    INTERVAL,
    DecimalHandling,
    IntervalHandling,
    PostgresType,
    TypeInfo,
    resolved,
    value_type,
)
from fencepost.connectors.postgres.types.value_types import read_column


def read(kind: PostgresType, *texts: str | None, decimals: DecimalHandling = DecimalHandling.PRECISE) -> list[Any]:
    found = value_type(kind, decimals)
    array = read_column(found, pa.array(texts, pa.string()), "public.t.c")
    assert array.type == found.arrow
    return array.to_pylist()


def numeric(precision: int, scale: int) -> PostgresType:
    return PostgresType(types.NUMERIC, (precision << 16 | scale) + 4)


@pytest.mark.parametrize(
    ("oid", "text", "value"),
    [
        (types.BOOL, "t", True),
        (types.BOOL, "f", False),
        (types.INT2, "-32768", -32768),
        (types.INT4, "2147483647", 2147483647),
        (types.INT8, "-9223372036854775808", -(2**63)),
        (types.OID, "4294967295", 2**32 - 1),
        (types.FLOAT8, "1e-07", 1e-07),
        (types.FLOAT8, "-Infinity", float("-inf")),
        (temporal.DATE, "1970-01-02", 1),
        (temporal.DATE, "0001-01-01", (date(1, 1, 1) - date(1970, 1, 1)).days),
        (temporal.DATE, "0044-03-15 BC", -735_160),
        (temporal.DATE, "10000-01-01", 2_932_897),
        (temporal.DATE, "infinity", 2**31 - 1),
        (temporal.DATE, "-infinity", -(2**31)),
        (temporal.TIME, "00:00:00.000001", 1),
        (temporal.TIME, "24:00:00", 86_400_000_000),
        (temporal.TIMESTAMP, "1969-12-31 23:59:59.5", -500_000),
        (temporal.TIMESTAMP, "infinity", 2**63 - 1),
        (temporal.TIMESTAMP, "10000-01-01 00:00:00", 253_402_300_800_000_000),
        (temporal.TIMESTAMPTZ, "2024-05-01 12:30:00.25+00", "2024-05-01T12:30:00.25Z"),
        (temporal.TIMESTAMPTZ, "0044-03-15 00:00:00+00 BC", "-0043-03-15T00:00:00Z"),
        (temporal.TIMESTAMPTZ, "-infinity", "-infinity"),
        (types.BYTEA, "\\x00ff", b"\x00\xff"),
        (types.BYTEA, "\\x", b""),
        (869, "10.0.0.0/8", "10.0.0.0/8"),
    ],
)
def test_a_text_is_read_as_its_type_says(oid: int, text: str, value: object):
    assert read(PostgresType(oid), text, None) == [value, None]


@given(st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 31)))  # noqa: DTZ001 - as the server writes them
def test_unusual_moments_are_counted_as_usual_ones(moment: datetime):
    text = moment.isoformat(sep=" ")
    expected = (moment - datetime(1970, 1, 1)) // timedelta(microseconds=1)  # noqa: DTZ001
    assert values.timestamps(pa.array([text, "infinity"])).to_pylist()[0] == expected


def test_numerics_are_exact():
    assert read(numeric(12, 2), "12.50", "-0.01") == [Decimal("12.50"), Decimal("-0.01")]
    assert read(PostgresType(types.NUMERIC), "-1.28", "1e3") == [
        {"scale": 2, "value": b"\x80"},
        {"scale": -3, "value": b"\x01"},
    ]
    assert read(PostgresType(types.NUMERIC), "NaN", decimals=DecimalHandling.STRING) == ["NaN"]
    assert read(numeric(5, 1), "1.5", decimals=DecimalHandling.DOUBLE) == [1.5]


def test_numerics_may_have_more_digits_than_python_reads_as_an_int():
    digits = sys.get_int_max_str_digits() + 1
    (found,) = read(PostgresType(types.NUMERIC), f"-1{'0' * digits}.0")
    assert found["scale"] == 1
    assert int.from_bytes(found["value"], "big", signed=True) == -(10 ** (digits + 1))


@pytest.mark.parametrize("kind", [numeric(12, 2), PostgresType(types.NUMERIC)])
def test_nan_in_a_precise_numeric_is_refused_by_name(kind: PostgresType):
    with pytest.raises(DataError, match=r"column public\.t\.c .*decimal\.handling\.mode=string"):
        read(kind, "NaN")


@given(st.lists(st.none() | st.decimals(-(10**30), 10**30, allow_nan=False, places=3)))
def test_numbers_without_scale_keep_each_digit(numbers: list[Decimal | None]):
    texts = [None if number is None else str(number) for number in numbers]
    found = read(PostgresType(types.NUMERIC), *texts)
    exact = [
        None if value is None else Fraction(int.from_bytes(value["value"], "big", signed=True), 10 ** value["scale"])
        for value in found
    ]
    assert exact == [None if number is None else Fraction(number) for number in numbers]


ARRAY = PostgresType(1009, -1, PostgresType(25))


@pytest.mark.parametrize(
    ("text", "items"),
    [
        ("{}", []),
        ("{a,NULL,b c}", ["a", None, "b c"]),
        ('{"a,b","{x}","say \\"hi\\"","back\\\\slash",""}', ["a,b", "{x}", 'say "hi"', "back\\slash", ""]),
        ('{"NULL"}', ["NULL"]),
        ("[2:3]={1,2}", ["1", "2"]),
    ],
)
def test_arrays_are_lists(text: str, items: list[str | None]):
    assert read(ARRAY, text, None) == [items, None]


def test_items_are_read_by_their_own_type():
    assert read(PostgresType(1007, -1, PostgresType(types.INT4)), "{1,NULL}", "{}") == [[1, None], []]


def test_arrays_of_several_dimensions_are_refused_by_name():
    with pytest.raises(DataError, match=r"public\.t\.c .* several dimensions"):
        read(ARRAY, "{{1},{2}}")


def test_a_domain_is_read_like_its_base_type():
    known = {
        9001: TypeInfo(base=9002),
        9002: TypeInfo(base=types.NUMERIC, base_modifier=(5 << 16 | 1) + 4),
        9003: TypeInfo(element=9001),
        9004: TypeInfo(),
        types.NUMERIC: TypeInfo(),
    }
    assert resolved(9001, -1, known) == numeric(5, 1)
    assert resolved(9003, -1, known) == PostgresType(9003, -1, numeric(5, 1))
    assert resolved(9004, -1, known) == PostgresType(9004)


def test_an_unknown_type_is_not_treated_as_text():
    with pytest.raises(KeyError, match="9999"):
        resolved(9003, -1, {9003: TypeInfo(element=9001), 9001: TypeInfo(base=9999)})


def test_intervals_count_as_the_same_microseconds_alone_and_beside_infinity():
    texts = ["P1Y-2M3DT4H5M6.78S", "PT-0.000001S", "PT0S", None, "P-178000000Y"]
    kind = value_type(PostgresType(INTERVAL), DecimalHandling.PRECISE, intervals=IntervalHandling.NUMERIC)
    for tail in ([], ["infinity", "-infinity"]):
        found = kind.read(pa.array(texts[:4] + tail, pa.string())).to_pylist()
        assert found == [26_571_906_780_000, -1, 0, None, 2**63 - 1, -(2**63)][: len(found)]
        with pytest.raises((ValueError, OverflowError)):
            kind.read(pa.array(texts + tail, pa.string()))
    assert kind.read(pa.array([], pa.string())).to_pylist() == []
    with pytest.raises(DataError, match="'1 day' is not an interval"):
        kind.read(pa.array(["1 day"]))
