"""PostgreSQL's types, and the Spark types and Arrow arrays to which their values are converted.

| PostgreSQL | Spark | value |
|---|---|---|
| boolean | BOOLEAN | |
| smallint, integer, bigint, oid | SMALLINT, INT, BIGINT, BIGINT | |
| real, double precision | FLOAT, DOUBLE | NaN and infinity too |
| numeric(p, s), p up to 38 | DECIMAL(p, s) | `decimal.handling.mode=precise` |
| other numeric | STRUCT<scale INT, value BINARY> | the unscaled value, big-endian two's complement |
| dates and times | | see temporal.py |
| interval | STRING or BIGINT | ISO 8601, or microseconds with `interval.handling.mode=numeric` |
| bytea | BINARY | |
| arrays | ARRAY | of one dimension |
| all others | STRING | as PostgreSQL writes them |

Domains are treated as their base type. In the server's session, dates are written in ISO style, and the time zone is
UTC.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from fencepost.connectors.postgres.types import values
from fencepost.connectors.postgres.types.modifiers import precision_and_scale
from fencepost.connectors.postgres.types.temporal import TimePrecision, temporal_key, temporal_type
from fencepost.connectors.postgres.types.value_types import ValueType, casting, unrounded

BOOL, BYTEA, INT8, INT2, INT4, OID = 16, 17, 20, 21, 23, 26
INTERVAL, FLOAT4, FLOAT8, NUMERIC, JSON, JSONB, XML, UUID = 1186, 700, 701, 1700, 114, 3802, 142, 2950

_MAX_PRECISION: Final = 38
_VARIABLE: Final = pa.struct([("scale", pa.int32()), ("value", pa.binary())])


class IntervalHandling(StrEnum):
    """The values of `interval.handling.mode`."""

    NUMERIC = "numeric"
    STRING = "string"


class DecimalHandling(StrEnum):
    """The values of `decimal.handling.mode`."""

    PRECISE = "precise"
    STRING = "string"
    DOUBLE = "double"


@dataclass(frozen=True, slots=True)
class TypeInfo:
    """A row of pg_type. `base` is a domain's base type, `element` is an array's item type; 0 for other types."""

    base: int = 0
    base_modifier: int = -1
    element: int = 0


@dataclass(frozen=True, slots=True)
class PostgresType:
    """A column's type, with domains resolved: the base type, or an array of `element`."""

    oid: int
    modifier: int = -1
    element: PostgresType | None = None


def resolved(oid: int, modifier: int, known: Mapping[int, TypeInfo]) -> PostgresType:
    """Return the type of a column's values. Raises KeyError, with the OID, for an unknown type."""
    info = known[oid]
    if info.base:
        return resolved(info.base, info.base_modifier if modifier < 0 else modifier, known)
    if info.element:
        return PostgresType(oid, modifier, resolved(info.element, modifier, known))
    return PostgresType(oid, modifier)


def value_type(
    kind: PostgresType,
    decimals: DecimalHandling,
    times: TimePrecision = TimePrecision.ADAPTIVE,
    intervals: IntervalHandling = IntervalHandling.STRING,
) -> ValueType:
    """Return how values of a type are represented in rows."""
    if kind.element is not None:
        return _array_of(value_type(kind.element, decimals, times, intervals))
    if kind.oid == NUMERIC:
        return _numeric(kind.modifier, decimals)
    if kind.oid == INTERVAL:
        return _INTERVALS[intervals]
    return temporal_type(kind.oid, kind.modifier, times) or _TYPES.get(kind.oid, _TEXT)


def key_type(
    kind: PostgresType, decimals: DecimalHandling, times: TimePrecision, intervals: IntervalHandling
) -> ValueType | None:
    """Return how values of a type are represented in keys, None if they are represented as in rows.

    None also promises that different values have different representations in rows.
    """
    if kind.element is not None:
        element = key_type(kind.element, decimals, times, intervals)
        return None if element is None else _array_of(element)
    if kind.oid == NUMERIC and decimals is DecimalHandling.DOUBLE:
        return unrounded(_TYPES[FLOAT8], values.beyond_doubles, "has more digits than a double keeps")
    if kind.oid == INTERVAL and intervals is IntervalHandling.NUMERIC:
        return unrounded(
            _INTERVALS[intervals], values.with_months, "has months, which become as many microseconds as some days"
        )
    return temporal_key(kind.oid, times)


def _array_of(element: ValueType) -> ValueType:
    marker = (lambda placeholder: [placeholder]) if element.ddl == "STRING" else None
    return ValueType(f"ARRAY<{element.ddl}>", pa.list_(element.arrow), lambda texts: _arrays(texts, element), marker)


def _numeric(modifier: int, decimals: DecimalHandling) -> ValueType:
    if decimals is DecimalHandling.STRING:
        return _TEXT
    if decimals is DecimalHandling.DOUBLE:
        return _TYPES[FLOAT8]
    precision, scale = precision_and_scale(modifier) or (0, 0)
    if not 0 <= scale <= precision <= _MAX_PRECISION or not precision:
        return ValueType(
            "STRUCT<scale: INT NOT NULL, value: BINARY NOT NULL>",
            _VARIABLE,
            lambda texts: values.numerics(texts, _VARIABLE),
            semantic="io.debezium.data.VariableScaleDecimal",
        )
    kind = pa.decimal128(precision, scale)
    return ValueType(f"DECIMAL({precision},{scale})", kind, lambda texts: texts.cast(kind))


def _arrays(texts: pa.Array, element: ValueType) -> pa.Array:
    items, lengths = values.array_items(texts)
    return values.lists(element.read(pa.array(items, pa.string())), lengths)


_TEXT: Final = ValueType("STRING", pa.string(), lambda texts: texts, lambda placeholder: placeholder)
_INTERVALS: Final = {
    IntervalHandling.STRING: replace(_TEXT, semantic="io.debezium.time.Interval"),
    IntervalHandling.NUMERIC: ValueType(
        "BIGINT", pa.int64(), values.intervals_us, semantic="io.debezium.time.MicroDuration"
    ),
}
_TYPES: Final[dict[int, ValueType]] = {
    BOOL: ValueType("BOOLEAN", pa.bool_(), lambda texts: pc.equal(texts, "t")),
    INT2: casting("SMALLINT", pa.int16()),
    INT4: casting("INT", pa.int32()),
    INT8: casting("BIGINT", pa.int64()),
    OID: casting("BIGINT", pa.int64()),
    FLOAT4: casting("FLOAT", pa.float32()),
    FLOAT8: casting("DOUBLE", pa.float64()),
    BYTEA: ValueType("BINARY", pa.binary(), values.byteas, str.encode),
    JSON: replace(_TEXT, semantic="io.debezium.data.Json"),
    JSONB: replace(_TEXT, semantic="io.debezium.data.Json"),
    XML: replace(_TEXT, semantic="io.debezium.data.Xml"),
    UUID: replace(_TEXT, semantic="io.debezium.data.Uuid"),
}
