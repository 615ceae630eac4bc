"""Refuses values of polled records that Arrow would silently drop or change to fit their schemas. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import datetime, time
from decimal import Decimal
from functools import lru_cache
from itertools import chain
from typing import Any, Final

import numpy as np
from pyspark.sql import types as t

from fencepost.api.errors import DataError


def check_fields(values: Iterable[Any], schema: t.DataType, name: str, topic: str) -> None:
    """Refuse fields that the schema does not have: Arrow would drop them silently."""
    if isinstance(schema, t.StructType):
        known = frozenset(schema.names)
        values = list(values)
        for value in values:
            if isinstance(value, dict) and not value.keys() <= known:
                unknown = next(field for field in value if field not in known)
                raise DataError(
                    f"The {name} of a record for topic {topic} has the field {unknown!r}, which its {name}_schema does "
                    f"not have: {schema.simpleString()}. Add it to the schema, or leave it out of the record"
                )
        for position, field in enumerate(schema.fields):
            if _has_struct(field.dataType):
                check_fields([_member(v, field.name, position) for v in values], field.dataType, name, topic)
    elif isinstance(schema, t.ArrayType) and _has_struct(schema):
        members = chain.from_iterable(v for v in values if isinstance(v, list | tuple))
        check_fields(members, schema.elementType, name, topic)
    elif isinstance(schema, t.MapType) and _has_struct(schema):
        members = chain.from_iterable(v.values() for v in values if isinstance(v, dict))
        check_fields(members, schema.valueType, name, topic)


@lru_cache(maxsize=512)
def _has_struct(schema: t.DataType) -> bool:
    if isinstance(schema, t.ArrayType):
        return _has_struct(schema.elementType)
    return _has_struct(schema.valueType) if isinstance(schema, t.MapType) else isinstance(schema, t.StructType)


def check_kept(values: Iterable[Any], schema: t.DataType, where: str) -> None:
    """Refuse values that Arrow would silently change. `_LOST` has the types."""
    if type(schema) in _LOST:
        lost, advice = _LOST[type(schema)]
        for value in values:
            if lost(value):
                raise DataError(f"The {where} is {value!r} where its schema has {schema.simpleString()}: {advice}")
    elif isinstance(schema, t.StructType):
        for position, field in enumerate(schema.fields):
            if _has_lossy(field.dataType):
                check_kept([_member(v, field.name, position) for v in values], field.dataType, where)
    elif isinstance(schema, t.ArrayType) and _has_lossy(schema.elementType):
        members = chain.from_iterable(v for v in values if isinstance(v, list | tuple | np.ndarray))
        check_kept(members, schema.elementType, where)
    elif isinstance(schema, t.MapType) and _has_lossy(schema.valueType):
        check_kept(chain.from_iterable(map(_members_of_map, values)), schema.valueType, where)


def _members_of_map(value: Any) -> Iterable[Any]:
    """Return the values of a map; none if Arrow will refuse it."""
    # Arrow takes a list of pairs, too.
    with suppress(TypeError, ValueError):
        return () if value is None else dict(value).values()
    return ()


def _is_fraction(value: Any) -> bool:
    return isinstance(value, float | Decimal | np.floating)


def _is_beyond_float(value: Any) -> bool:
    # Numbers from here on round to infinity: the middle between the largest FLOAT and 2 to the power of 128.
    return isinstance(value, float | np.floating) and 2.0**128 - 2.0**103 <= abs(float(value)) < math.inf


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.integer | np.floating)


def _is_no_date(value: Any) -> bool:
    return _is_number(value) or (isinstance(value, datetime) and value.time() != time())


_WHOLE: Final = (_is_fraction, "round it")
_MOMENT: Final = (_is_number, "give a datetime, as the unit of a number is not known, or None, or make it a BIGINT")
_LOST: Final[dict[type[t.DataType], tuple[Callable[[Any], bool], str]]] = {
    t.ByteType: _WHOLE,
    t.ShortType: _WHOLE,
    t.IntegerType: _WHOLE,
    t.LongType: _WHOLE,
    t.FloatType: (_is_beyond_float, "make it a DOUBLE"),
    t.DateType: (_is_no_date, "give a date or None, make it an INT for a number, or a TIMESTAMP for a time"),
    t.TimestampType: _MOMENT,
    t.TimestampNTZType: _MOMENT,
}
"""Types to which Arrow converts wrongly: it cuts off fractions and times of day, and makes large numbers infinite.

It takes a number for days or microseconds, where others mean seconds or milliseconds.
"""


def _member(value: Any, name: str, position: int) -> Any:
    if isinstance(value, dict):
        return value.get(name)
    return value[position] if isinstance(value, tuple) and position < len(value) else None


@lru_cache(maxsize=512)
def _has_lossy(schema: t.DataType) -> bool:
    if isinstance(schema, t.StructType):
        return any(_has_lossy(field.dataType) for field in schema.fields)
    if isinstance(schema, t.ArrayType):
        return _has_lossy(schema.elementType)
    return _has_lossy(schema.valueType) if isinstance(schema, t.MapType) else type(schema) in _LOST
