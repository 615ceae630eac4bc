"""Columns of a plugin are found by their names."""

from __future__ import annotations

import pyarrow as pa
import pytest

from fencepost.api.ddl import parse_columns
from fencepost.api.declared_columns import in_declared_order
from fencepost.api.errors import DataError

_MOVED = pa.struct([("b", pa.int32()), pa.field("a", pa.int32(), nullable=False)])


@pytest.mark.parametrize(
    "items", [pa.list_(_MOVED), pa.large_list(_MOVED), pa.list_(_MOVED, 1)], ids=["list", "large", "fixed"]
)
def test_columns_and_fields_come_in_the_declared_order(items: pa.DataType):
    columns = parse_columns("value STRUCT<x: BIGINT, y: ARRAY<STRUCT<a: INT, b: INT>>>, key STRING")
    values = pa.array(
        [None, {"y": [{"b": 1, "a": 2}], "x": 1}, {"y": None, "x": 3}, None],
        pa.struct([("y", items), ("x", pa.int64())]),
    )
    rows = pa.RecordBatch.from_pydict({"other": [1, 2, 3, 4], "key": ["p", "q", "r", "s"], "value": values})
    expected: list[dict[str, object]] = [
        {"value": None, "key": "p"},
        {"value": {"x": 1, "y": [{"a": 2, "b": 1}]}, "key": "q"},
        {"value": {"x": 3, "y": None}, "key": "r"},
        {"value": None, "key": "s"},
    ]
    for start in range(4):
        found = in_declared_order(rows.slice(start), columns, "A reader")
        found.validate(full=True)
        assert [list(row.items()) for row in found.to_pylist()] == [list(row.items()) for row in expected[start:]]


def test_columns_and_fields_that_are_not_declared_are_named_once(caplog: pytest.LogCaptureFixture):
    rows = pa.RecordBatch.from_pydict({"value": [{"a": 1, "b": [{"c": 2, "d": 3}]}], "more": [1], "key": ["k"]})
    columns = parse_columns("value STRUCT<b: ARRAY<STRUCT<c: BIGINT>>>, key STRING")
    for _ in range(2):
        in_declared_order(rows, columns, "Reader of too much")
    told = [message for message in caplog.messages if message.startswith("Reader of too much")]
    assert len(told) == 1
    assert "does not declare, and they are not written: more, value.a, value.b[].d. Declare them" in told[0]


def test_fields_within_maps_come_in_the_declared_order():
    values = pa.array([[("k", {"b": 1, "a": 2})], None], pa.map_(pa.string(), _MOVED))
    columns = parse_columns("value MAP<STRING, STRUCT<a: INT, b: INT>>")
    found = in_declared_order(pa.RecordBatch.from_pydict({"value": values}), columns, "A reader")
    assert found["value"].type == pa.map_(pa.string(), pa.struct([("a", pa.int32()), ("b", pa.int32())]))
    assert found["value"].to_pylist() == [[("k", {"a": 2, "b": 1})], None]


def test_columns_that_are_as_declared_are_not_copied():
    rows = pa.RecordBatch.from_pydict(
        {"value": pa.array([None, {"a": 1}], pa.struct([pa.field("a", pa.int32(), nullable=False)]))}
    )
    found = in_declared_order(rows, parse_columns("value STRUCT<a: INT NOT NULL>"), "A reader")
    assert found["value"].type == rows["value"].type
    assert found["value"].buffers()[0].address == rows["value"].buffers()[0].address


@pytest.mark.parametrize(
    ("ddl", "missing"),
    [
        ("value STRUCT<x: INT>, key STRING", "key"),
        ("value STRUCT<x: INT, y: INT>", r"value\.y"),
        ("value STRUCT<x: INT, z: ARRAY<STRUCT<b: INT>>>", r"value\.z\[\]\.b"),
    ],
)
def test_a_missing_column_or_field_is_named(ddl: str, missing: str):
    rows = pa.RecordBatch.from_pydict({"value": [{"x": 1, "z": [{"a": 1}]}]})
    with pytest.raises(DataError, match=f"A reader has {missing} in its schema"):
        in_declared_order(rows, parse_columns(ddl), "A reader")


def test_a_column_that_is_there_twice_is_refused():
    rows = pa.RecordBatch.from_arrays([pa.array([1]), pa.array([2])], names=["value", "value"])
    with pytest.raises(DataError, match="gives it 2 times"):
        in_declared_order(rows, parse_columns("value BIGINT"), "A reader")
