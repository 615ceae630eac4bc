"""Random Spark types with values, and the expected JSON of each value, computed one by one."""

from __future__ import annotations

import base64
import datetime as dt
import math
from collections.abc import Callable
from decimal import Context, Decimal
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st
from pyspark.sql import types as spark
from pyspark.sql.pandas.types import to_arrow_type

EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)

_texts = st.text(st.one_of(st.characters(codec="utf-8"), st.sampled_from('"\\\n\t\b\f\r\x00\x01\x1f')), max_size=12)
_names = st.text(st.characters(codec="utf-8", min_codepoint=1), min_size=1, max_size=6)
_moments = st.datetimes(dt.datetime(1900, 1, 1), dt.datetime(2100, 1, 1))  # noqa: DTZ001 - hypothesis wants naive bounds

SCALARS: dict[spark.DataType, st.SearchStrategy[Any]] = {
    spark.ByteType(): st.integers(-(2**7), 2**7 - 1),
    spark.ShortType(): st.integers(-(2**15), 2**15 - 1),
    spark.IntegerType(): st.integers(-(2**31), 2**31 - 1),
    spark.LongType(): st.integers(-(2**63), 2**63 - 1),
    spark.FloatType(): st.floats(width=32),
    spark.DoubleType(): st.one_of(st.floats(), st.integers(-1000, 1000).map(float)),
    spark.BooleanType(): st.booleans(),
    spark.StringType(): _texts,
    spark.BinaryType(): st.binary(max_size=12),
    spark.DateType(): st.dates(dt.date(1900, 1, 1), dt.date(2100, 1, 1)),
    spark.TimestampType(): _moments.map(lambda moment: moment.replace(tzinfo=dt.UTC)),
    spark.TimestampNTZType(): _moments,
    spark.DecimalType(7, 2): st.decimals(-99999, 99999, places=2),
    spark.DecimalType(38, 0): st.integers(-(10**38) + 1, 10**38 - 1).map(Decimal),
}


def types() -> st.SearchStrategy[spark.DataType]:
    """Spark types of any nesting."""
    scalars = st.sampled_from(list(SCALARS))
    keys = st.sampled_from([spark.StringType(), spark.IntegerType(), spark.DateType()])
    return st.recursive(
        scalars,
        lambda inner: st.one_of(
            inner.map(spark.ArrayType),
            st.builds(spark.MapType, keys, inner),
            st.dictionaries(_names, inner, max_size=4).map(
                lambda fields: spark.StructType([spark.StructField(name, kind) for name, kind in fields.items()])
            ),
        ),
        max_leaves=6,
    )


def values(kind: spark.DataType) -> st.SearchStrategy[Any]:
    """Values of a type, among them nulls, in the form that Arrow takes."""
    match kind:
        case spark.ArrayType():
            inner: st.SearchStrategy[Any] = st.lists(values(kind.elementType), max_size=4)
        case spark.MapType():
            entries = st.dictionaries(SCALARS[kind.keyType], values(kind.valueType), max_size=4)
            inner = entries.map(lambda entries: list(entries.items()))
        case spark.StructType():
            inner = st.fixed_dictionaries({field.name: values(field.dataType) for field in kind.fields})
        case _:
            inner = SCALARS[kind]
    return st.one_of(st.none(), inner)


@st.composite
def columns(draw: st.DrawFn) -> tuple[spark.DataType, list[Any], pa.Array]:
    """A type, its values, distinct or all the same, and their Arrow array, which may be a slice of a larger one."""
    kind = draw(types())
    equal = st.builds(lambda value, count: [value] * count, values(kind), st.integers(2, 8))
    rows = draw(st.one_of(st.lists(values(kind), max_size=8), equal))
    before = draw(st.integers(0, len(rows)))
    array = pa.array(rows, to_arrow_type(kind, timezone="UTC"))
    return kind, rows[before:], array.slice(before)


def expected_json(kind: spark.DataType, value: Any) -> Any:
    """The result of `json.loads` for a payload with this value."""
    if value is None:
        return None
    match kind:
        case spark.ArrayType():
            return [expected_json(kind.elementType, item) for item in value]
        case spark.MapType():
            entries = [(expected_json(kind.keyType, key), expected_json(kind.valueType, item)) for key, item in value]
            return dict(entries) if kind.keyType == spark.StringType() else [list(entry) for entry in entries]
        case spark.StructType():
            return {field.name: expected_json(field.dataType, value[field.name]) for field in kind.fields}
    return _SCALAR_JSON.get(type(kind), lambda _, value: value)(kind, value)


def _floating(kind: spark.DataType, value: float) -> float | str:
    if math.isfinite(value):
        # The shortest decimal number that identifies the float32.
        return float(str(np.float32(value))) if isinstance(kind, spark.FloatType) else value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _milliseconds(_: spark.DataType, value: dt.datetime) -> int:
    return (value.replace(tzinfo=dt.UTC) - EPOCH) // dt.timedelta(milliseconds=1)


def _decimal(kind: spark.DecimalType, value: Decimal) -> str:
    return base64.b64encode(java_bytes(int(value.scaleb(kind.scale, Context(prec=50))))).decode()


_SCALAR_JSON: dict[type[spark.DataType], Callable[[Any, Any], Any]] = {
    spark.FloatType: _floating,
    spark.DoubleType: _floating,
    spark.BinaryType: lambda _, value: base64.b64encode(value).decode(),
    spark.DateType: lambda _, value: (value - EPOCH.date()).days,
    spark.TimestampType: _milliseconds,
    spark.TimestampNTZType: _milliseconds,
    spark.DecimalType: _decimal,
}


def java_bytes(number: int) -> bytes:
    """The result of Java's BigInteger.toByteArray."""
    bits = (number if number >= 0 else ~number).bit_length()
    return number.to_bytes(bits // 8 + 1, "big", signed=True)
