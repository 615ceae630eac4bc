"""The size of a row as an expression of Spark's SQL, which executors compute without a Python worker. Pure: no I/O."""

from __future__ import annotations

from typing import Final

from pyspark.sql import types as t

from fencepost.api.spark_names import backticked

_FIXED: Final = (
    t.NumericType,
    t.BooleanType,
    t.DatetimeType,
    t.AnsiIntervalType,
    t.CalendarIntervalType,
    t.NullType,
)
_FIXED_BYTES: Final = 16
"""The size of a DECIMAL, the longest type with a fixed size."""

_PLACE_BYTES: Final = 8
"""The size of a value besides its content: its length, and whether it is null."""


def row_size(schema: t.StructType) -> str | None:
    """Return an expression for the approximate number of bytes of a row, a BIGINT.

    The result is None if a column's size is unknown.
    """
    return _sum_of_fields(schema, "", 0)


def _sum_of_fields(schema: t.StructType, prefix: str, depth: int) -> str | None:
    sizes = [_size(field.dataType, f"{prefix}{backticked(field.name)}", depth) for field in schema.fields]
    known = [size for size in sizes if size is not None]
    return None if len(known) < len(sizes) else " + ".join([f"{_PLACE_BYTES * (len(known) + 1)}L", *known])


def _size(kind: t.DataType, value: str, depth: int) -> str | None:
    """Return an expression for the size of a value, 0 for null. The result is None if the size is unknown.

    `depth` counts the enclosing arrays, each of which has its own variable.
    """
    size = f"{_FIXED_BYTES}L" if isinstance(kind, _FIXED) else None
    match kind:
        case t.StringType() | t.CharType() | t.VarcharType() | t.BinaryType():
            size = f"coalesce(octet_length({value}), 0L)"
        case t.VariantType():
            size = f"coalesce(octet_length(to_json({value})), 0L)"
        case t.UserDefinedType():
            size = f"coalesce(octet_length(CAST({value} AS STRING)), 0L)"
        case t.StructType():
            size = _sum_of_fields(kind, f"{value}.", depth)
        case t.ArrayType():
            item = _size(kind.elementType, f"item{depth}", depth + 1)
            added = f"(total, item{depth}) -> total + {_PLACE_BYTES}L + {item}"
            size = None if item is None else f"coalesce(aggregate({value}, 0L, {added}), 0L)"
        case t.MapType():
            keys = _size(t.ArrayType(kind.keyType), f"map_keys({value})", depth)
            values = _size(t.ArrayType(kind.valueType), f"map_values({value})", depth)
            size = None if keys is None or values is None else f"{keys} + {values}"
    return size
