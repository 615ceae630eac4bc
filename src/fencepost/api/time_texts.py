"""Writes dates and times of any year as text, and converts Arrow scalars: Python supports only the years 1 to 9999."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

_DAYS_OF_400_YEARS: Final = 146_097
_EPOCH: Final = date(1970, 1, 1)
# The first day of year 0, and the day after year 9999, in days since 1970.
_PLAIN_DAYS: Final = (-719_528, 2_932_897)
_LENGTH_OF_DATE: Final = 10
_PER_DAY: Final = {"s": 86_400, "ms": 86_400_000, "us": 86_400_000_000, "ns": 86_400_000_000_000}


def time_texts(values: pa.Array) -> pa.Array:
    """Return the texts of a date32 array, or of timestamps in UTC or without a zone, as Arrow's cast writes them.

    Years before 0 and after 9999 have a sign, as in ISO 8601 and Java. For such years, Arrow's cast counts years modulo
    65,536, or writes that the value is out of range.
    """
    per_day = 1 if pt.is_date32(values.type) else _PER_DAY[values.type.unit]
    numbers = values.view(pa.int32() if pt.is_date32(values.type) else pa.int64()).cast(pa.int64())
    first, last = _PLAIN_DAYS[0] * per_day, min(_PLAIN_DAYS[1] * per_day - 1, 2**63 - 1)
    found = pc.min_max(numbers).as_py()
    if found["min"] is None or (max(first, -(2**63)) <= found["min"] and found["max"] <= last):
        return values.cast(pa.string())
    counts = numbers.fill_null(0).to_numpy()
    days = counts // per_day
    # The same times, moved by a multiple of 400 years to the years 1970 to 2369, which Arrow's cast supports.
    rest = pa.array(
        counts - days // _DAYS_OF_400_YEARS * _DAYS_OF_400_YEARS * per_day, mask=values.is_null().to_numpy(False)
    )
    near = rest.cast(pa.int32() if pt.is_date32(values.type) else pa.int64()).view(values.type).cast(pa.string())
    return pc.binary_join_element_wise(
        pa.array([_date_text(int(day)) for day in days]), pc.utf8_slice_codeunits(near, _LENGTH_OF_DATE), ""
    )


def _date_text(day: int) -> str:
    cycles, rest = divmod(day, _DAYS_OF_400_YEARS)
    near = _EPOCH + timedelta(days=rest)
    year = near.year + 400 * cycles
    sign = "-" if year < 0 else "+" if year > 9_999 else ""
    return f"{sign}{abs(year):04}-{near:%m-%d}"


def plain_value(value: pa.Scalar) -> Any:
    """Return a value as Arrow converts it to Python, at any depth.

    If Python cannot represent a value, the result is a text. For a text that is not UTF-8, the result is its bytes.
    """
    try:
        return value.as_py()
    except (ValueError, OverflowError):
        pass
    if isinstance(value, pa.DictionaryScalar):
        return plain_value(value.value)
    kind = value.type
    if pt.is_nested(kind):
        return _plain_nested(value)
    if pt.is_string(kind) or pt.is_large_string(kind) or pt.is_string_view(kind):
        return value.as_buffer().to_pybytes()
    if pt.is_date32(kind) or pt.is_timestamp(kind):
        number = pa.array([value.value], pa.int32() if pt.is_date32(kind) else pa.int64())
        return time_texts(number.view(kind))[0].as_py()
    return str(value)


def _plain_nested(value: pa.Scalar) -> Any:
    if pt.is_struct(value.type):
        return {name: plain_value(inner) for name, inner in value.items()}
    if pt.is_map(value.type):
        return [tuple(plain_value(inner) for inner in entry.values()) for entry in value.values]
    return [plain_value(item) for item in value.values]
