"""PostgreSQL's types: maps PostgreSQL columns to Spark types, and reads the texts of their values.

The server writes every value as text (COPY, CSV), with the session settings in `connection`. pyarrow parses usual
values. If that fails, `slow_column` reads a column value by value: it can also read years beyond 9999 and BC, and its
errors name values that cannot be represented.

Types without a Spark type become strings: the text that PostgreSQL itself writes for the value, which is exact.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import types as t

from fencepost.api.errors import DataError
from fencepost.connectors.jdbc.properties import NumericMapping
from fencepost.connectors.postgres.types.arrays import split_array
from fencepost.connectors.postgres.types.modifiers import precision_and_scale
from fencepost.connectors.postgres.types.values import days, microseconds
from fencepost.connectors.rows.row_types import arrow_type

MAX_PRECISION: Final = 38

_SIMPLE: Final[dict[str, t.DataType]] = {
    "bool": t.BooleanType(),
    "int2": t.ShortType(),
    "int4": t.IntegerType(),
    "int8": t.LongType(),
    "oid": t.LongType(),
    "xid": t.LongType(),
    "xid8": t.LongType(),
    "float4": t.FloatType(),
    "float8": t.DoubleType(),
    "bytea": t.BinaryType(),
    "date": t.DateType(),
    "timestamp": t.TimestampType(),
    "timestamptz": t.TimestampType(),
}
_CONTEXT: Final = Context(prec=MAX_PRECISION)
_INTEGERS: Final = ((2, t.ByteType()), (4, t.ShortType()), (9, t.IntegerType()), (18, t.LongType()))


@dataclass(frozen=True, slots=True)
class PgType:
    """A type of PostgreSQL, with domains resolved. `name` is the name in pg_type, `text` the form that users write.

    `modifier` is the type modifier, -1 if there is none; `element` is the item type of an array. `is_enum` says that
    the type's values are labels.
    """

    name: str
    text: str
    modifier: int = -1
    built_in: bool = True
    element: PgType | None = None
    is_enum: bool = False


def spark_type(kind: PgType, mapping: NumericMapping) -> t.DataType:
    """Return the Spark type for a type of PostgreSQL."""
    if kind.element is not None:
        return t.ArrayType(spark_type(kind.element, mapping))
    if not kind.built_in:
        return t.StringType()
    if kind.name == "numeric":
        return _numeric(kind.modifier, mapping)
    return _SIMPLE.get(kind.name, t.StringType())


def _numeric(modifier: int, mapping: NumericMapping) -> t.DataType:
    found = precision_and_scale(modifier)
    if found is None:
        # Without a precision, each value may have a scale of its own.
        return t.DoubleType() if mapping is NumericMapping.BEST_FIT else t.StringType()
    precision, scale = found
    digits, scale = max(precision - min(scale, 0), scale), max(scale, 0)
    if mapping is not NumericMapping.NONE and scale == 0:
        for most, integer in _INTEGERS:
            if digits <= most:
                return integer
    if mapping is NumericMapping.BEST_FIT and scale:
        return t.DoubleType()
    return t.DecimalType(digits, scale) if digits <= MAX_PRECISION else t.StringType()


def parsed_by_arrow(kind: t.DataType) -> pa.DataType | None:
    """Return the Arrow type with which pyarrow parses the usual texts of a type, None if pyarrow cannot parse them."""
    return None if isinstance(kind, t.BinaryType | t.ArrayType) else arrow_type(kind)


def quick_column(kind: t.DataType, array: pa.Array) -> pa.Array:
    """Convert a column to its Arrow type, from the values that pyarrow parsed.

    Raises ValueError or DataError for unusual values.
    """
    if isinstance(kind, t.BinaryType | t.ArrayType):
        return pa.array([_value(kind, text) for text in array.to_pylist()], arrow_type(kind))
    return array


def slow_column(kind: t.DataType, texts: Sequence[str | None], where: str) -> pa.Array:
    """Return the Arrow array of a column's texts. Raises DataError for a value that cannot be represented.

    `where` names the column: `The column "at" (date) of the table public.t`.
    """
    values = []
    for text in texts:
        try:
            values.append(_value(kind, text))
        except (DataError, ValueError, ArithmeticError) as error:
            shown = text if text is None or len(text) <= 80 else f"{text[:80]}..."
            raise DataError(
                f"{where} has the value {shown!r}, which cannot be represented as {kind.simpleString()}: {error}. "
                "Correct it, or leave the table out"
            ) from None
    return pa.array(values, arrow_type(kind))


def _value(kind: t.DataType, text: str | None) -> Any:
    """Return the value of a text, in the form that pyarrow needs for the type.

    Raises ValueError or ArithmeticError, with the reason.
    """
    return None if text is None else _PARSERS.get(type(kind), _whole)(kind, text)


def _whole(_: t.DataType, text: str) -> int:
    number = Decimal(text)
    if not number.is_finite():
        raise ValueError("it is not a number")
    if not -(1 << 63) <= number < 1 << 63:
        raise ValueError("it does not fit into 64 bits")
    return int(number)


def _decimal(kind: Any, text: str) -> Decimal:
    number = Decimal(text)
    if not number.is_finite():
        raise ValueError("a decimal has no such value; numeric.mapping=best_fit reads the column as a double")
    return number.quantize(Decimal(1).scaleb(-kind.scale), context=_CONTEXT)


def _microseconds(text: str) -> int:
    found = microseconds(text)
    if not -(1 << 63) <= found < 1 << 63:
        raise ValueError("it is later than the year 294246")
    return found


_PARSERS: Final[dict[type[t.DataType], Callable[[Any, str], Any]]] = {
    t.ArrayType: lambda kind, text: [_value(kind.elementType, item) for item in split_array(text)],
    t.BinaryType: lambda _, text: bytes.fromhex(text.removeprefix("\\x")),
    t.BooleanType: lambda _, text: text == "t",
    t.DateType: lambda _, text: days(text),
    t.TimestampType: lambda _, text: _microseconds(text),
    t.DecimalType: _decimal,
    t.FloatType: lambda _, text: float(text),
    t.DoubleType: lambda _, text: float(text),
    t.StringType: lambda _, text: text,
}
