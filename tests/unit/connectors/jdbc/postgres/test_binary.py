"""Rows in COPY's binary format are decoded to the values that psycopg wrote."""

from __future__ import annotations

import struct
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import accumulate
from typing import Any
from uuid import UUID

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from psycopg.types.datetime import DatetimeBinaryDumper
from psycopg.types.numeric import DecimalBinaryDumper, Int8BinaryDumper
from psycopg.types.uuid import UUIDBinaryDumper
from pyspark.sql import types as t

from fencepost.connectors.jdbc.pg_types import PgType
from fencepost.connectors.jdbc.postgres.binary import decoded, forms_of
from fencepost.connectors.jdbc.tables import JdbcColumn
from fencepost.connectors.postgres.server.copy_blocks import Messages

pytestmark = pytest.mark.unit


def _dumped(value: Any) -> bytes:
    dumpers = {
        Decimal: DecimalBinaryDumper,
        int: Int8BinaryDumper,
        UUID: UUIDBinaryDumper,
        datetime: DatetimeBinaryDumper,
    }
    if isinstance(value, str):
        return value.encode()
    found = dumpers[type(value)](type(value)).dump(value)
    assert found is not None
    return bytes(found)


def _message(row: tuple[Any, ...]) -> bytes:
    fields = b"\xff\xff\xff\xff"
    for value in row:
        content = None if value is None else _dumped(value)
        fields += struct.pack(">i", -1) if content is None else struct.pack(">i", len(content)) + content
    return struct.pack(">cIh", b"d", len(fields) + 6, len(row) + 1) + fields


def _column(name: str, becomes: t.DataType) -> JdbcColumn:
    return JdbcColumn("c", PgType(name, name), becomes)


def _decoded(columns: tuple[JdbcColumn, ...], rows: list[tuple[Any, ...]], after: int) -> list[tuple[Any, ...]]:
    """Decode rows in a block that has this many more bytes after them."""
    messages = [_message(row) for row in rows]
    ends = list(accumulate(len(message) for message in messages))
    block = bytearray(b"".join(messages) + b"\xff" * after)
    forms = forms_of(columns)
    assert forms is not None
    found = decoded(Messages(block, np.array([0, *ends[:-1]], np.int64), ends[-1]), columns, forms, "the table")
    for array in found:
        array.validate(full=True)
    return list(zip(*(array.to_pylist() for array in found), strict=True))


@st.composite
def _scaled(draw: st.DrawFn) -> tuple[int, int, list[Decimal | None]]:
    """The precision and scale of a numeric column, and values of it."""
    precision = draw(st.integers(1, 18))
    scale = draw(st.integers(0, precision))
    number = st.one_of(
        st.integers(-(10**precision) + 1, 10**precision - 1),
        st.builds(lambda power, sign: sign * 10**power, st.integers(0, precision - 1), st.sampled_from([1, -1, 0])),
    )
    values = st.one_of(st.none(), number.map(lambda unscaled: Decimal(unscaled).scaleb(-scale)))
    return precision, scale, draw(st.lists(values, min_size=1, max_size=20))


@given(_scaled(), st.integers(0, 30))
@example((18, 18, [Decimal("0.999999999999999999")]), 0)
@example((18, 1, [Decimal("-99999999999999999.9")]), 0)
@example((12, 2, [Decimal("0.05"), None, Decimal("9999999999.99"), Decimal(0)]), 0)
def test_numerics_are_exact(column: tuple[int, int, list[Decimal | None]], after: int):
    precision, scale, values = column
    rows = _decoded((_column("numeric", t.DecimalType(precision, scale)),), [(value,) for value in values], after)
    assert [value for (value,) in rows] == values


_ROWS = st.tuples(
    st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1)),
    st.one_of(st.none(), st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=40)),
    st.one_of(st.none(), st.uuids()),
    st.one_of(
        st.none(),
        st.integers(-(2**40), 2**40).map(lambda us: datetime(2026, 1, 1, tzinfo=UTC) + timedelta(microseconds=us)),
    ),
)


@given(st.lists(_ROWS, min_size=1, max_size=20), st.integers(0, 30))
def test_fields_are_found_between_any_other_fields(rows: list[tuple[Any, ...]], after: int):
    columns = (
        _column("int8", t.LongType()),
        _column("text", t.StringType()),
        _column("uuid", t.StringType()),
        _column("timestamptz", t.TimestampType()),
    )
    expected = [(number, text, None if key is None else str(key), moment) for number, text, key, moment in rows]
    assert _decoded(columns, rows, after) == expected
