"""Nulls in non-null fields are refused, except below a null struct."""

from __future__ import annotations

import pyarrow as pa
import pytest

from fencepost.api.errors import DataError
from fencepost.api.required_fields import check_required, relabelled, with_schema

_REQUIRED = pa.struct([pa.field("id", pa.int64(), nullable=False)])
_STRUCTS = pa.StructArray.from_arrays([pa.array([1, None])], ["id"], mask=pa.array([False, True]))


def test_a_null_struct_with_a_required_field_keeps_its_type() -> None:
    table = pa.table({"x": relabelled(_STRUCTS, _REQUIRED), "n": pa.array([1, 2], pa.int32())})
    with pytest.raises(pa.ArrowInvalid):
        table.cast(table.schema)
    found = with_schema(table, pa.schema([("y", _REQUIRED), ("n", pa.int64())]))
    assert found.schema == pa.schema([("y", _REQUIRED), ("n", pa.int64())])
    assert found.to_pylist() == [{"y": {"id": 1}, "n": 1}, {"y": None, "n": 2}]


@pytest.mark.parametrize("items", [pa.list_, pa.large_list, lambda kind: pa.list_(kind, 2)])
def test_nulls_are_found_at_any_depth(items: object) -> None:
    assert callable(items)
    check_required(_STRUCTS, pa.field("x", _REQUIRED), "x")
    bad = pa.array([[{"id": 1}, {"id": None}], None], items(pa.struct([("id", pa.int64())])))
    with pytest.raises(DataError, match=r"null in x\.id, which its schema declares NOT NULL"):
        check_required(bad, pa.field("x", items(_REQUIRED)), "x")
    check_required(bad.slice(1), pa.field("x", items(_REQUIRED)), "x")
    with pytest.raises(DataError, match="null in x, which"):
        check_required(bad, pa.field("x", bad.type, nullable=False), "x")


def test_a_null_of_a_dictionary_is_a_null() -> None:
    texts = pa.DictionaryArray.from_arrays(pa.array([0, 1]), pa.array(["a", None]))
    assert texts.null_count == 0
    with pytest.raises(DataError, match="null in x, which"):
        check_required(texts, pa.field("x", texts.type, nullable=False), "x")
    check_required(texts.slice(0, 1), pa.field("x", texts.type, nullable=False), "x")


@pytest.mark.parametrize("rows", [1, 2, 7, 100])
def test_the_first_row_with_a_null_is_named(rows: int) -> None:
    for first in {0, rows // 2, rows - 1}:
        lists = [[{"id": 1}, {"id": 2}] if row < first else [{"id": 3}, {"id": None}] for row in range(rows)]
        array = pa.array([None, *lists], pa.list_(pa.struct([("id", pa.int64())])))
        for start in (0, 1):
            with pytest.raises(
                DataError, match=rf"row {first + 1 - start}, counted from 0, has a null in x\.id, which"
            ):
                check_required(array.slice(start), pa.field("x", pa.list_(_REQUIRED)), "x")
