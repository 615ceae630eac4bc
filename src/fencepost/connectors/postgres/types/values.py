"""Reads columns of PostgreSQL's texts in forms that Arrow cannot read.

Usual values are read column by column. Dates and times that Arrow cannot read are read value by value. These are
infinity, years before 1 and after 9999, and 24:00:00.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fencepost.api.errors import DataError
from fencepost.connectors.postgres.types.arrays import split_array

_DAY_US: Final = 86_400_000_000
_UNIX_DAYS: Final = 719_468
_DATE: Final = re.compile(r"(\d{4,})-(\d\d)-(\d\d)(?:[ T](\d\d):(\d\d):(\d\d)(?:\.(\d{1,6}))?)?(\+00)?( BC)?")
_INT32: Final = (-(1 << 31), (1 << 31) - 1)
_INT64: Final = (-(1 << 63), (1 << 63) - 1)
# The least and the greatest number of microseconds in 64 bits that is a whole number of milliseconds.
_WHOLE_MS: Final = (-((1 << 63) // 1000) * 1000, ((1 << 63) - 1) // 1000 * 1000)
# Intervals in PostgreSQL's style iso_8601, such as P1Y-2MT-0.5S.
_INTERVAL: Final = (
    r"^P(?:(?P<years>-?\d+)Y)?(?:(?P<months>-?\d+)M)?(?:(?P<days>-?\d+)D)?"
    r"(?:T(?:(?P<hours>-?\d+)H)?(?:(?P<minutes>-?\d+)M)?(?:(?P<seconds>-?\d+(?:\.\d+)?)S)?)?$"
)
# Debezium counts a month as a twelfth of 365.25 days.
_UNITS_US: Final = {
    "years": 12 * 2_629_800_000_000,
    "months": 2_629_800_000_000,
    "days": _DAY_US,
    "hours": 3_600_000_000,
    "minutes": 60_000_000,
}
# Numbers with at most this many digits always become different doubles, unless they are extremely large or small.
_DOUBLE_DIGITS: Final = 15
_DOUBLE_SIZE: Final = 290
_TIME_ZONE: Final = re.compile(r"([-+])(\d\d)(?::(\d\d))?(?::(\d\d))?$")


def dates(texts: pa.Array) -> pa.Array:
    """Return days since 1970-01-01 as int32. The infinities become the least and the greatest number."""
    try:
        return texts.cast(pa.date32()).view(pa.int32())
    except pa.ArrowInvalid:
        return _each(texts, pa.int32(), lambda text: _infinite(text, _INT32) or days(text))


def timestamps(texts: pa.Array) -> pa.Array:
    """Return microseconds since 1970-01-01 as int64. The infinities become the least and the greatest number."""
    try:
        return texts.cast(pa.timestamp("us")).view(pa.int64())
    except pa.ArrowInvalid:
        return _each(texts, pa.int64(), lambda text: _infinite(text, _INT64) or microseconds(text))


def timestamps_ms(texts: pa.Array) -> pa.Array:
    """Return milliseconds since 1970-01-01 as int64, rounded down.

    The infinities become the least and greatest number.
    """
    try:
        return texts.cast(pa.timestamp("ms")).view(pa.int64())
    except pa.ArrowInvalid:
        return _each(texts, pa.int64(), lambda text: _infinite(text, _INT64) or microseconds(text) // 1000)


def timestamps_to_ms(texts: pa.Array) -> pa.Array:
    """Return timestamps with the unit microsecond, rounded down to whole milliseconds.

    The infinities become the least and the greatest timestamp of whole milliseconds.
    """
    try:
        return pc.floor_temporal(texts.cast(pa.timestamp("us")), unit="millisecond")
    except pa.ArrowInvalid:
        rounded = _each(texts, pa.int64(), lambda text: _infinite(text, _WHOLE_MS) or microseconds(text) // 1000 * 1000)
        return rounded.view(pa.timestamp("us"))


def times_ms(texts: pa.Array) -> pa.Array:
    """Return milliseconds since midnight as int32, rounded down."""
    return pc.divide(times(texts), 1000).cast(pa.int32())


def times(texts: pa.Array) -> pa.Array:
    """Return microseconds since midnight as int64."""
    try:
        return pc.binary_join_element_wise("1970-01-01", texts, " ").cast(pa.timestamp("us")).view(pa.int64())
    except pa.ArrowInvalid:
        return _each(texts, pa.int64(), lambda text: microseconds(f"1970-01-01 {text}"))


def intervals_us(texts: pa.Array) -> pa.Array:
    """Return intervals in microseconds (int64).

    A month is 30.4375 days. Infinities become the least and greatest number.
    """
    parts = pc.extract_regex(texts, _INTERVAL)
    if parts.null_count > texts.null_count:
        return _each(texts, pa.int64(), lambda text: _infinite(text, _INT64) or _interval_us(text))
    numbers = dict(zip((field.name for field in parts.type), parts.flatten(), strict=True))
    seconds = _or_zero(numbers.pop("seconds")).cast(pa.decimal128(18, 6))
    # The low halves of the 128-bit decimals are the numbers of microseconds.
    total = (
        pa.array(np.frombuffer(seconds.buffers()[1], np.int64)[::2].copy()) if len(texts) else pa.array([], pa.int64())
    )
    for name, text in numbers.items():
        total = pc.add_checked(total, pc.multiply_checked(_or_zero(text).cast(pa.int64()), _UNITS_US[name]))
    return pc.if_else(texts.is_valid(), total, None)


def _or_zero(texts: pa.Array) -> pa.Array:
    """Return numbers, with zeros in place of missing numbers."""
    return pc.if_else(pc.equal(texts, ""), "0", texts).fill_null("0")


def _interval_us(text: str) -> int:
    match = re.match(_INTERVAL, text)
    if match is None:
        raise DataError(f"{text!r} is not an interval as PostgreSQL writes it in the style iso_8601")
    parts = match.groupdict(default="0")
    seconds = int(Decimal(parts.pop("seconds")).scaleb(6))
    return seconds + sum(int(number) * _UNITS_US[name] for name, number in parts.items())


def zoned(texts: pa.Array) -> pa.Array:
    """Return times in UTC as ISO 8601 texts, such as `2024-05-01T12:00:00.5Z`. The infinities stay as they are."""
    if pc.any(pc.ends_with(texts, "BC")).as_py():
        return _each(texts, pa.string(), _zoned_before_christ)
    return pc.replace_substring_regex(pc.replace_substring(texts, " ", "T", max_replacements=1), r"\+00$", "Z")


def zoned_times(texts: pa.Array) -> pa.Array:
    """Return times of day that have a zone, converted to UTC, as ISO 8601 texts such as `12:05:06.5Z`."""
    others = pc.match_substring_regex(texts, r"^\d.*[-+](0[1-9]|[1-9]|00:)[^-+]*$")
    if pc.any(others).as_py():
        return _each(texts, pa.string(), _time_in_utc)
    return pc.replace_substring_regex(texts, r"\+00$", "Z")


def zoned_keys(texts: pa.Array) -> pa.Array:
    """Return times of day as ISO 8601 texts with their own zones, such as `12:05:06.5+02:00`.

    For PostgreSQL two times are equal only if their zones are equal, too. So the time in UTC does not identify a row.
    """
    in_utc = pc.replace_substring_regex(texts, r"^(\d.*)\+00$", r"\1Z")
    return pc.replace_substring_regex(in_utc, r"^(\d.*[-+]\d\d)$", r"\1:00")


def iso(texts: pa.Array) -> pa.Array:
    """Return dates, times and timestamps as ISO 8601 texts in UTC: `2024-05-01Z`. The infinities stay as they are."""
    if pc.any(pc.ends_with(texts, "BC")).as_py():
        return _each(texts, pa.string(), _iso_before_christ)
    # Infinities are left as they are: they do not start with a digit.
    joined = pc.replace_substring_regex(texts, r"^(\d[^ ]*) ", r"\1T")
    return pc.replace_substring_regex(joined, r"^(\d.*)$", r"\1Z")


def beyond_doubles(texts: pa.Array) -> pa.Array:
    """Return which numbers may become the same double as another number: more than 15 digits, or an extreme size."""
    digits = pc.utf8_trim(pc.replace_substring_regex(texts, "[-.]", ""), "0")
    return pc.or_(pc.greater(pc.utf8_length(digits), _DOUBLE_DIGITS), pc.greater(pc.utf8_length(texts), _DOUBLE_SIZE))


def with_months(texts: pa.Array) -> pa.Array:
    """Return which intervals have months or years: a month has 30 days in PostgreSQL, but it becomes 30.4375 days."""
    return pc.match_substring_regex(texts, "^P[^T]*[YM]")


def within_milliseconds(texts: pa.Array) -> pa.Array:
    """Return which times are not a whole number of milliseconds."""
    return pc.match_substring_regex(texts, r"\.\d{3}\d*[1-9]")


def byteas(texts: pa.Array) -> pa.Array:
    """Return the bytes of values in PostgreSQL's hex format."""
    return _each(texts, pa.binary(), lambda text: bytes.fromhex(text[2:]))


def numerics(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return numbers of any scale: each as its scale and the bytes of its unscaled value. Raises DataError for NaN."""
    return _each(texts, kind, _unscaled)


def array_items(texts: pa.Array) -> tuple[list[str | None], list[int | None]]:
    """Return the items of PostgreSQL's arrays as one list, and the length of each array, None for a null array.

    Raises DataError for arrays of several dimensions.
    """
    items: list[str | None] = []
    lengths: list[int | None] = []
    for text in texts.to_pylist():
        if text is None:
            lengths.append(None)
            continue
        try:
            found = split_array(text)
        except ValueError as error:
            raise DataError(f"{text[:50]!r} cannot be read: {error}") from None
        items += found
        lengths.append(len(found))
    return items, lengths


def lists(items: pa.Array, lengths: Sequence[int | None]) -> pa.Array:
    """Return lists of the given lengths, filled with `items` in order."""
    ends = np.cumsum([length or 0 for length in lengths], dtype=np.int32)
    offsets = np.concatenate((np.zeros(1, np.int32), ends))
    nulls = [length is None for length in lengths]
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), items, mask=pa.array(nulls) if any(nulls) else None)


def _each(texts: pa.Array, kind: pa.DataType, read: Callable[[str], Any]) -> pa.Array:
    return pa.array([None if text is None else read(text) for text in texts.to_pylist()], kind)


def _infinite(text: str, limits: tuple[int, int]) -> int | None:
    return {"-infinity": limits[0], "infinity": limits[1]}.get(text)


def _parts(text: str) -> tuple[int, int, int, int]:
    """Return the year (0 is 1 BC), month and day in a text, and the microseconds since midnight of that day."""
    match = _DATE.fullmatch(text)
    if match is None:
        raise DataError(f"{text!r} is not a date or time as PostgreSQL writes it in the ISO style")
    year, month, day, hours, minutes, seconds, fraction, _, before = match.groups()
    clock = int(hours or 0) * 3600 + int(minutes or 0) * 60 + int(seconds or 0)
    return (
        1 - int(year) if before else int(year), int(month), int(day),
        clock * 1_000_000 + int((fraction or "").ljust(6, "0")),
    )  # fmt: skip


def days(text: str) -> int:
    """Return the days since 1970-01-01 of a date in the Gregorian calendar, also if it is before the calendar's start.

    Raises DataError for a text that is not a date, such as infinity.
    """
    year, month, day, _ = _parts(text)
    year -= month <= 2
    era, of_era = divmod(year, 400)
    of_year = (153 * (month + (-3 if month > 2 else 9)) + 2) // 5 + day - 1
    return era * 146_097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - _UNIX_DAYS


def microseconds(text: str) -> int:
    """Return the microseconds since 1970-01-01 of a timestamp. Raises DataError as `days` does."""
    return days(text) * _DAY_US + _parts(text)[3]


def _zoned_before_christ(text: str) -> str:
    return _signed_year(text).replace(" ", "T", 1).replace("+00", "Z")


def _iso_before_christ(text: str) -> str:
    return _signed_year(text).replace(" ", "T", 1) + "Z" if text[:1].isdigit() else text


def _signed_year(text: str) -> str:
    """Return a date before Christ with the year as in ISO 8601, where year 0 is 1 BC; other texts stay unchanged."""
    if not text.endswith(" BC"):
        return text
    year = _parts(text)[0]
    return f"{'-' if year < 0 else ''}{abs(year):04d}" + text.removesuffix(" BC")[text.index("-") :]


def _time_in_utc(text: str) -> str:
    found = _TIME_ZONE.search(text)
    if found is None:
        raise DataError(f"{text!r} is not a time of day with a time zone as PostgreSQL writes it")
    sign, hours, minutes, seconds = found.groups()
    shift = int(hours) * 3600 + int(minutes or 0) * 60 + int(seconds or 0)
    clock = text[: found.start()]
    if not shift:
        return f"{clock}Z"
    whole, dot, fraction = clock.partition(".")
    in_zone = sum(int(part) * unit for part, unit in zip(whole.split(":"), (3600, 60, 1), strict=True))
    utc = (in_zone + (shift if sign == "-" else -shift)) % 86_400
    return f"{utc // 3600:02d}:{utc // 60 % 60:02d}:{utc % 60:02d}{dot}{fraction}Z"


def _unscaled(text: str) -> dict[str, Any]:
    number = Decimal(text)
    if not number.is_finite():
        raise DataError(f"{text} is not a number with digits")
    sign, digits, exponent = number.as_tuple()
    # Python does not parse an int with more than 4,300 digits, but it does parse any decimal.
    unscaled = int(Decimal((sign, digits, 0)))
    size = (unscaled if unscaled >= 0 else -unscaled - 1).bit_length() // 8 + 1
    return {"scale": -int(exponent), "value": unscaled.to_bytes(size, "big", signed=True)}
