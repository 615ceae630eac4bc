"""Values of frames: types of Arrow, and values of pandas and polars."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from fencepost import DataError
from fencepost.api.required_fields import relabelled
from tests.unit.connectors.functions.test_frames import NOON, values

UNIQUE = uuid.UUID(int=7)


MAP = pa.map_(pa.string(), pa.int64())


VIEWS = pa.dictionary(pa.int32(), pa.string_view())


@pytest.mark.parametrize(
    ("array", "expected"),
    [
        (pa.array(["a", None], pa.dictionary(pa.int8(), pa.string())), ["a", None]),
        (pa.DictionaryArray.from_arrays(pa.array([1, 0]), pa.array(["a", None])), [None, "a"]),
        (pa.array(["a"], pa.large_string()), ["a"]),
        (pa.array(["a longer text than twelve bytes"], pa.string_view()), ["a longer text than twelve bytes"]),
        (pa.array([b"\xff"], pa.binary_view()), [b"\xff"]),
        (pa.array([{"l": ["a"]}], pa.struct([("l", pa.list_(pa.string_view()))])), [{"l": ["a"]}]),
        (pa.array([b"\xff"], pa.large_binary()), [b"\xff"]),
        (pa.array([b"ab"], pa.binary(2)), [b"ab"]),
        (pa.array([[1], None], pa.large_list(pa.uint8())), [[1], None]),
        (pa.array([[1, 2], None], pa.list_(pa.int64(), 2)), [[1, 2], None]),
        (pa.array([["a"]], pa.list_(pa.dictionary(pa.int8(), pa.string()))), [["a"]]),
        (pa.array(["a", None, "b"]).dictionary_encode().cast(VIEWS), ["a", None, "b"]),
        (pa.array([{"x": {"y": 1}}, None]), [{"x": {"y": 1}}, None]),
        (pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int64())), [[("k", 1)]]),
        (pa.array([[("k", 1), ("j", 1)], None, [], [("k", 1)]], MAP).slice(1), [None, [], [("k", 1)]]),
        (pa.array([255], pa.uint8()), [255]),
        (pa.array([2**64 - 1], pa.uint64()), [Decimal(2**64 - 1)]),
        (pa.array([1.5], pa.float16()), [1.5]),
        (pa.array([Decimal("1.50")], pa.decimal128(38, 2)), [Decimal("1.50")]),
        (pa.array([Decimal("1.50")], pa.decimal256(20, 2)), [Decimal("1.50")]),
        (pa.array([NOON], pa.timestamp("s")), [NOON]),
        (pa.array([NOON], pa.timestamp("ms")), [NOON]),
        (pa.array([NOON], pa.timestamp("ns")), [NOON]),
        (pa.array([[NOON]], pa.list_(pa.timestamp("ns"))), [[NOON]]),
        (pa.array([NOON], pa.timestamp("us", tz="Europe/Paris")), [NOON.replace(tzinfo=dt.UTC)]),
        (pa.array([dt.date(2026, 11, 24)], pa.date64()), [dt.date(2026, 11, 24)]),
        (pa.array([None, None]), [None, None]),
        (pa.array([UNIQUE.bytes], pa.uuid()), [UNIQUE.bytes]),
        (pa.ExtensionArray.from_storage(pa.json_(), pa.array(['{"a": 1}'])), ['{"a": 1}']),
        (pa.array([True, None]), [True, None]),
    ],
    ids=lambda item: str(item.type) if isinstance(item, pa.Array) else "",
)
def test_types_of_arrow_keep_their_values(array: pa.Array, expected: Sequence[Any]) -> None:
    assert [value["x"] for value in values(pa.table({"x": array}))] == expected


@pytest.mark.parametrize(
    ("array", "place"),
    [
        (pa.array([dt.time(1)]), r"x of the frame .* is of the type time64\[us\]"),
        (pa.array([dt.timedelta(1)]), r"x of the frame .* is of the type duration\[us\]"),
        (pa.array([[dt.time(1)]]), r"x\[\] of the frame .* is of the type time64\[us\]"),
        (pa.array([{"t": dt.time(1)}]), r"x.t of the frame .* is of the type time64\[us\]"),
        (pa.array([[1]], pa.list_view(pa.int64())), "x of the frame .* is of the type list_view"),
        (pa.RunEndEncodedArray.from_arrays(pa.array([1]), pa.array(["a"])), "x of the frame .* type run_end_encoded"),
        (pa.array([Decimal(1)], pa.decimal256(50, 0)), r"x of the frame .* is of the type decimal256\(50, 0\)"),
        (pa.array([Decimal(100)], pa.decimal128(3, -2)), r"x of the frame .* is of the type decimal128\(3, -2\)"),
        (pa.ExtensionArray.from_storage(pa.bool8(), pa.array([1], pa.int8())), "extension type arrow.bool8"),
        (
            pa.StructArray.from_arrays([pa.array([UNIQUE.bytes], pa.uuid())], names=["u"]),
            r"x.u of the frame .* extension type arrow.uuid",
        ),
        (pa.UnionArray.from_sparse(pa.array([0], pa.int8()), [pa.array([1])]), "x of the frame .* type sparse_union"),
    ],
    ids=lambda item: str(item.type) if isinstance(item, pa.Array) else "",
)
def test_types_without_a_form_are_refused_by_their_columns(array: pa.Array, place: str) -> None:
    with pytest.raises(DataError, match=place) as raised:
        values(pa.table({"x": array}))
    assert "such as a text or a number" in str(raised.value)


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (pa.array([0, 1001], pa.timestamp("ns")), r"The row 1 of the frame .*: column x: Casting .* would lose data"),
        (pa.array([[0], [1001]], pa.list_(pa.timestamp("ns"))), r"The row 1 of the frame .* would lose data"),
        (pa.array([0, 10**13], pa.timestamp("s")), "The row 1 of the frame .* out of bounds timestamp"),
        (pa.array([0, 5], pa.int64()).view(pa.date64()), "The row 1 of the frame .* would lose data"),
        (pa.array([b"a", b"\xff"]).view(pa.string()), "The row 1 of the frame .* UTF8"),
        (pa.array([b"a", b"\xff"]).view(pa.string()).cast(pa.string_view()), "The row 1 of the frame .* UTF8"),
        (pa.array([{"t": 0}, {"t": 1001}], pa.struct([("t", pa.timestamp("ns"))])), "The row 1 .* would lose data"),
        (pa.array([b"a", b"\xff"]).view(pa.string()).dictionary_encode(), "The row 1 of the frame .* UTF8"),
        (pa.array([[("a", 1)], [("a", 1), ("b", 2), ("a", 3)]], MAP), "The row 1 .*: column x: a map has a key twice"),
        (pa.array([[[("a", 1)], None], [[("a", 1), ("a", 1)]]], pa.list_(MAP)), "The row 1 .* a map has a key twice"),
        (pa.array([{"m": None}, {"m": [("a", 1), ("a", 2)]}], pa.struct([("m", MAP)])), "The row 1 .* a key twice"),
    ],
)
def test_a_value_that_would_change_refuses_its_row(array: pa.Array, message: str) -> None:
    with pytest.raises(DataError, match=message):
        values(pa.table({"x": array}))


@pytest.mark.parametrize("array", [pa.array([1, None]), pa.array([[1, None]])], ids=["column", "items"])
def test_a_null_where_the_schema_has_none_is_refused(array: pa.Array) -> None:
    kind = pa.list_(pa.field("item", pa.int64(), nullable=False)) if pa.types.is_list(array.type) else array.type
    if pa.types.is_list(array.type):
        array = pa.ListArray.from_arrays(array.offsets, array.values, type=kind)
    table = pa.table([array], schema=pa.schema([pa.field("x", kind, nullable=pa.types.is_list(kind))]))
    with pytest.raises(DataError, match=r"There is a null in the frame .* Make the field nullable"):
        values(table)


@pytest.mark.parametrize("text", [pa.string(), pa.string_view()])
def test_a_null_struct_may_have_required_fields(text: pa.DataType) -> None:
    kind = pa.struct([pa.field("id", pa.int64(), nullable=False), pa.field("name", text)])
    fields = [pa.array([1, None]), pa.array(["a", None], text)]
    column = relabelled(pa.StructArray.from_arrays(fields, kind.names, mask=pa.array([False, True])), kind)
    assert values(pa.table({"x": column})) == [{"x": {"id": 1, "name": "a"}}, {"x": None}]
    items = relabelled(pa.ListArray.from_arrays([0, 2], column), pa.list_(kind))
    assert values(pa.table({"x": items})) == [{"x": [{"id": 1, "name": "a"}, None]}]


def test_a_name_twice_is_refused() -> None:
    arrow = pa.table([pa.array([1]), pa.array([2])], names=["a", "a"])
    for frame in (arrow, pd.DataFrame([[1, 2]], columns=["a", "a"])):
        with pytest.raises(DataError, match="The column a is twice in the frame that the source function"):
            values(frame)


FINE = pd.Timestamp("2026-11-24 12:00:00.123456789")


MISSING = [np.nan, pd.NaT, pd.NA, None]


def test_missing_values_of_pandas_are_null() -> None:
    frame = pd.DataFrame(
        {
            "number": [1.5, np.nan],
            "time": [pd.Timestamp(NOON), pd.NaT],
            "nullable": pd.array([1, pd.NA], dtype="Int64"),
            "arrow": pd.array(["a", None], dtype="string[pyarrow]"),
            "kind": pd.Categorical(["a", None]),
        }
    )
    first, second = values(frame)
    assert first == {"number": 1.5, "time": NOON, "nullable": 1, "arrow": "a", "kind": "a"}
    assert second == dict.fromkeys(first)
    objects = values(pd.DataFrame({"x": pd.Series(["a", *MISSING], dtype=object)}))
    assert [value["x"] for value in objects] == ["a", None, None, None, None]


def test_nan_of_arrow_and_polars_stays_nan() -> None:
    for frame in (pa.table({"x": [np.nan, None]}), pl.DataFrame({"x": [np.nan, None]})):
        nan, null = [value["x"] for value in values(frame)]
        assert np.isnan(nan)
        assert null is None


@pytest.mark.parametrize(
    ("column", "found"),
    [
        ([1, "a"], "x of the frame .* has values of several types: int, str"),
        (["a", b"b"], "x of the frame .*: bytes, str"),
        ([1, 2.5], "x of the frame .*: float, int"),
        ([True, 1], "x of the frame .*: bool, int"),
        ([dt.date(2026, 1, 1), NOON], "x of the frame .*: date, datetime without a time zone"),
        ([NOON, NOON.replace(tzinfo=dt.UTC)], "x of the frame .*: datetime with a time zone, datetime without"),
        ([{"a": 1}, {"a": "b"}], r"x.a of the frame .*: int, str"),
        ([[1], [2.5]], r"x\[\] of the frame .*: float, int"),
        ([{"a": 1}, [1]], r"x of the frame .*: dict, list"),
    ],
)
def test_objects_of_several_types_are_refused(column: Sequence[Any], found: str) -> None:
    with pytest.raises(DataError, match=f"The column {found}"):
        values(pd.DataFrame({"x": pd.Series(list(column), dtype=object)}))


@pytest.mark.parametrize("value", [FINE, {"t": FINE}, [FINE]], ids=["value", "field", "item"])
def test_nanoseconds_of_objects_are_refused(value: Any) -> None:
    with pytest.raises(DataError, match=r"The column x.* with nanoseconds.*: give value.floor\('us'\)"):
        values(pd.DataFrame({"x": pd.Series([value], dtype=object)}))


def test_categories_of_polars_are_texts() -> None:
    kinds = pl.Series(["a", None, "b"], dtype=pl.Categorical)
    frame = pl.DataFrame({"x": kinds, "l": pl.Series([["b"], None, []], dtype=pl.List(pl.Categorical))})
    assert values(frame) == [{"x": "a", "l": ["b"]}, {"x": None, "l": None}, {"x": "b", "l": []}]


@pytest.mark.parametrize("names", [["x"], ["i", "i"]])
def test_a_level_of_the_index_with_the_name_of_another_column_is_refused(names: list[str]) -> None:
    index = pd.MultiIndex.from_arrays([[1]] * len(names), names=names)
    with pytest.raises(DataError, match=f"The column {names[0]} is twice in the frame .* as a level of the index"):
        values(pd.DataFrame({"x": [1]}, index=index))


def test_objects_of_one_type_are_values() -> None:
    frame = pd.DataFrame(
        {"d": [Decimal("1.5"), Decimal("2.25")], "s": [{"a": 1}, {"a": None}], "l": [[1, None], []], "t": ["x", "y"]}
    )
    assert values(frame) == [
        {"d": Decimal("1.50"), "s": {"a": 1}, "l": [1, None], "t": "x"},
        {"d": Decimal("2.25"), "s": {"a": None}, "l": [], "t": "y"},
    ]


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (lambda: pd.DataFrame([[1, 2]]), "A column of the frame .* has the name 0, which is an int"),
        (lambda: pd.DataFrame({("a", "b"): [1]}), r"has the name \('a', 'b'\), which is a tuple"),
        (lambda: pd.DataFrame({"x": [object()]}), "Arrow has no form for a column of the frame .*: .* column x"),
        (lambda: pd.DataFrame({"x": [2**70]}), "Arrow has no form for a column of the frame"),
        (lambda: pd.DataFrame({"x": [1j]}), "Arrow has no form for a column of the frame .*: .* column x"),
        (lambda: pd.DataFrame({"x": pd.period_range("2026", periods=2)}), "extension type pandas.period"),
        (
            lambda: pl.DataFrame({"x": pl.Series([object()], dtype=pl.Object)}),
            "x of the frame .* is of the type Object",
        ),
        (lambda: pa.array([1]), "Arrow takes no table from the frame .*, which is an Int64Array"),
    ],
)
def test_values_without_a_form_in_arrow_are_refused(frame: Callable[[], Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        values(frame())


def test_an_index_with_a_name_is_a_column_and_one_without_is_not() -> None:
    frame = pd.DataFrame({"x": [1, 2, 3]})
    assert values(frame[frame["x"] > 1]) == [{"x": 2}, {"x": 3}]
    assert values(frame.rename_axis("id")) == [{"id": 0, "x": 1}, {"id": 1, "x": 2}, {"id": 2, "x": 3}]
    twice = pd.MultiIndex.from_tuples([(1, "a")], names=["id", None])
    assert values(pd.DataFrame({"x": [1]}, index=twice)) == [{"id": 1, "x": 1}]
