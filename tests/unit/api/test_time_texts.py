"""Texts of dates and times, of any year."""

from __future__ import annotations

import random
from datetime import UTC, date, datetime, timedelta

import pyarrow as pa
import pytest

from fencepost.api.time_texts import plain_value, time_texts


def days(*numbers: int | None) -> pa.Array:
    return pa.array(numbers, pa.int32()).view(pa.date32())


def test_dates_of_any_year_have_the_text_that_java_has() -> None:
    # As printed by Java's LocalDate.ofEpochDay(...).
    expected = {
        -(2**31): "-5877641-06-23", -719_529: "-0001-12-31", -719_528: "0000-01-01", -719_162: "0001-01-01",
        0: "1970-01-01", 2_932_896: "9999-12-31", 2_932_897: "+10000-01-01", 2**31 - 1: "+5881580-07-11",
    }  # fmt: skip
    assert time_texts(days(*expected, None)).to_pylist() == [*expected.values(), None]
    for number, text in expected.items():
        assert time_texts(days(number)).to_pylist() == [text]


@pytest.mark.parametrize(("unit", "digits"), [("s", 0), ("ms", 3), ("us", 6), ("ns", 9)])
@pytest.mark.parametrize("zone", [None, "UTC"])
def test_times_of_any_year_have_their_text(unit: str, digits: int, zone: str | None) -> None:
    per_second = 10**digits
    chosen = random.Random(7)
    moments = [chosen.randrange(-(2**63), 2**63) // chosen.choice([1, 10**3, 10**6, 10**9]) for _ in range(200)]
    moments = [moment for moment in moments if abs(moment) < 2**31 * 86_400 * per_second]
    texts = time_texts(pa.array([*moments, None], pa.int64()).view(pa.timestamp(unit, zone)))
    for moment, text in zip(moments, texts.to_pylist(), strict=False):
        seconds, fraction = divmod(moment, per_second)
        day, second = divmod(seconds, 86_400)
        # The same day and month in a year that Python's datetime has.
        cycles, rest = divmod(day, 146_097)
        near = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(days=rest, seconds=second)
        year = near.year + 400 * cycles
        sign = "-" if year < 0 else "+" if year > 9_999 else ""
        shown = f"{sign}{abs(year):04}-{near:%m-%d %H:%M:%S}" + (f".{fraction:0{digits}}" if digits else "")
        assert text == shown + ("Z" if zone else "")
    assert texts[-1].as_py() is None


def test_values_that_python_has_are_plain_and_others_are_texts() -> None:
    moment = pa.scalar(2**63 - 1, pa.int64())
    assert plain_value(pa.array([moment.as_py()]).view(pa.timestamp("us"))[0]) == "+294247-01-10 04:00:54.775807"
    assert plain_value(pa.array([date(2013, 2, 3)])[0]) == date(2013, 2, 3)
    kind = pa.struct([("x", pa.list_(pa.date32())), ("y", pa.map_(pa.string(), pa.date32()))])
    late = pa.scalar(2_932_897, pa.int32()).cast(pa.date32())
    nested = pa.array([{"x": [late, None], "y": [("k", late)]}], kind)
    assert plain_value(nested[0]) == {"x": ["+10000-01-01", None], "y": [("k", "+10000-01-01")]}
    broken = pa.array([b"a\xff"]).view(pa.string())
    assert plain_value(broken[0]) == b"a\xff"
