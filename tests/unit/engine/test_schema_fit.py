"""Values of polled records are refused if Arrow would drop or change them silently."""

from __future__ import annotations

import datetime as dt
import decimal

import numpy as np
import pytest

from fencepost.api.errors import DataError
from fencepost.engine.conversion import ROW
from fencepost.engine.errors import RecordRefusedError
from tests.support.engine import SKIP
from tests.unit.engine.test_grouping import grouped, record


@pytest.mark.parametrize(
    ("schema", "value"),
    [("INT", 1.5), ("id INT", {"id": 1.5}), ("ARRAY<BIGINT>", [1, 2.5]), ("MAP<STRING, SMALLINT>", {"a": 0.5}),
     ("a STRUCT<b: INT>", {"a": {"b": 0.5}}), ("a INT, b INT", (1, 2.5)), ("INT", decimal.Decimal("1.5")),
     ("BIGINT", np.float32(1.5))],
)  # fmt: skip
def test_fractions_are_not_truncated_silently(schema: str, value: object):
    with pytest.raises(DataError, match="round it"):
        grouped([record(value, value_schema=schema)])


@pytest.mark.parametrize("attribute", ["timestamp", "partition"])
def test_fractions_of_timestamps_and_partitions_are_not_truncated_silently(attribute: str):
    with pytest.raises(DataError, match=rf"The {attribute} of a record for topic t is 1\.5"):
        grouped([record(1, **{attribute: 1.5})])


def test_numbers_that_are_too_large_for_a_float_do_not_become_infinite():
    with pytest.raises(DataError, match=r"is 1e\+39 where its schema has float: make it a DOUBLE"):
        grouped([record({"x": [1e39]}, value_schema="x ARRAY<FLOAT>")])
    (group,) = grouped([record(value, value_schema="FLOAT") for value in (3.4028235e38, float("inf"), float("nan"))])
    assert group.columns["value"].to_pylist()[:2] == [3.4028234663852886e38, float("inf")]


def test_a_date_does_not_lose_a_time_of_day_silently():
    with pytest.raises(DataError, match="give a date or None, make it an INT for a number, or a TIMESTAMP for a time"):
        grouped([record(dt.datetime(2024, 1, 2, 3, tzinfo=dt.UTC), value_schema="DATE")])
    (group,) = grouped([record(day, value_schema="DATE") for day in (dt.date(2024, 1, 2), dt.datetime(2024, 1, 2))])  # noqa: DTZ001 - a day
    assert group.columns["value"].to_pylist() == [dt.date(2024, 1, 2)] * 2


@pytest.mark.parametrize("schema", ["TIMESTAMP", "TIMESTAMP_NTZ", "DATE", "ARRAY<TIMESTAMP>"])
@pytest.mark.parametrize("number", [1_577_836_800_000, 1_577_836_800, True, np.int64(5), 1.5])
def test_a_number_is_no_time_because_its_unit_is_not_known(schema: str, number: object):
    value = [number] if schema.startswith("ARRAY") else number
    with pytest.raises(DataError, match="give a date"):
        grouped([record(value, value_schema=schema)])


@pytest.mark.parametrize(
    ("schema", "value", "unknown"),
    [
        ("id BIGINT", {"id": 1, "extra": 2}, "extra"),
        ("id BIGINT, place STRUCT<x: INT>", {"id": 1, "place": {"x": 1, "y": 2}}, "y"),
        ("places ARRAY<STRUCT<x: INT>>", {"places": [{"x": 1}, None, {"z": 2}]}, "z"),
        ("places MAP<STRING, STRUCT<x: INT>>", {"places": {"a": {"x": 1}, "b": {"w": 2}}}, "w"),
    ],
)
def test_a_field_that_the_schema_does_not_have_is_refused(schema: str, value: object, unknown: str):
    message = f"value of a record for topic t has the field '{unknown}', which its value_schema does not have: "
    with pytest.raises(RecordRefusedError, match=message):
        grouped([record(value, value_schema=schema)])
    with pytest.raises(RecordRefusedError, match=message.replace("value", "key")):
        grouped([record(1, key=value, key_schema=schema)])
    kept = grouped([record(value, value_schema=schema), record(None, value_schema=schema)], SKIP)
    assert [group.columns[ROW].to_pylist() for group in kept] == [[1]]


def test_fields_may_be_missing_and_in_any_order():
    (group,) = grouped([record({"b": "x", "a": 1}, value_schema="a INT, b STRING, c STRING")])
    assert group.columns["value"].to_pylist() == [{"a": 1, "b": "x", "c": None}]
