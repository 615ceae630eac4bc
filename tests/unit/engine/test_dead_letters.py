from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from fencepost.engine.dead_letters import contents_of, plain_bytes


def _refuse_constant(name: str) -> Any:
    raise AssertionError(f"{name} is not JSON")


@pytest.mark.parametrize(
    ("number", "text"), [(float("nan"), "NaN"), (float("inf"), "Infinity"), (float("-inf"), "-Infinity")]
)
def test_numbers_that_json_does_not_have_are_texts_as_of_the_json_converter(number: float, text: str):
    value = {"plain": 1.5, "f": number, "many": [number, {"deep": (number, None)}]}
    found = json.loads(plain_bytes(value) or b"", parse_constant=_refuse_constant)
    assert found == {"plain": 1.5, "f": text, "many": [text, {"deep": [text, None]}]}


@pytest.mark.parametrize("at", [0, 2**62], ids=["a time of Python", "a time beyond Python's"])
def test_maps_of_rows_are_objects_like_maps_of_polled_records(at: int):
    tags = pa.array([[("a", {"n": 1}), ("b", None)]], pa.map_(pa.string(), pa.struct([("n", pa.int64())])))
    counts = pa.array([[[(1, 2)]]], pa.list_(pa.map_(pa.int32(), pa.int64())))
    rows = pa.RecordBatch.from_pydict({"tags": tags, "counts": counts, "at": pa.array([at], pa.timestamp("us"))})
    (row,) = contents_of(rows)
    assert isinstance(row, dict)
    polled = {"tags": {"a": {"n": 1}, "b": None}, "counts": [{1: 2}]}
    assert plain_bytes({name: row[name] for name in polled}) == plain_bytes(polled)


def test_a_map_whose_keys_no_dict_can_have_is_a_list_of_pairs():
    kind = pa.map_(pa.struct([("id", pa.int64())]), pa.string())
    rows = pa.RecordBatch.from_pydict({"value": pa.array([[({"id": 1}, "x")]], kind)})
    (row,) = contents_of(rows)
    assert isinstance(row, dict)
    assert plain_bytes(row["value"]) == b'[[{"id":1},"x"]]'
