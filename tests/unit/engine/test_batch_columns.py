"""Columns of a reader get the nullability of its declared schema, whichever nullability their Arrow types have."""

from __future__ import annotations

import pyarrow as pa
import pytest

from fencepost.api.ddl import parse_ddl
from fencepost.api.errors import DataError
from fencepost.engine.batch_columns import as_declared

_NUMBERS = pa.struct([("n", pa.int32())])
_REQUIRED = pa.struct([pa.field("n", pa.int32(), nullable=False)])


def declared(values: pa.Array, ddl: str) -> pa.Array:
    return as_declared(pa.RecordBatch.from_pydict({"value": values}), {"value": parse_ddl(ddl), "key": None})["value"]


@pytest.mark.parametrize(
    ("values", "kind", "ddl", "expected"),
    [
        ([{"n": 1}, None], _NUMBERS, "STRUCT<n: INT NOT NULL>", _REQUIRED),
        ([[{"n": 1}, None], None], pa.list_(_NUMBERS), "ARRAY<STRUCT<n: INT NOT NULL>>", pa.list_(_REQUIRED)),
        (
            [[("a", {"n": 1}), ("b", None)], None],
            pa.map_(pa.string(), _NUMBERS),
            "MAP<STRING, STRUCT<n: INT NOT NULL>>",
            pa.map_(pa.string(), _REQUIRED),
        ),
    ],
    ids=["struct", "array", "map"],
)
def test_nulls_around_required_fields_stay(values: list[object], kind: pa.DataType, ddl: str, expected: pa.DataType):
    given = pa.array([None, *values], kind)
    for part in (given, given.slice(1), given.slice(2)):
        found = declared(part, ddl)
        found.validate(full=True)
        assert (found.type, found.to_pylist()) == (expected, part.to_pylist())


@pytest.mark.parametrize(
    ("value", "kind", "ddl"),
    [
        ({"n": None}, _NUMBERS, "STRUCT<n: INT NOT NULL>"),
        ([{"n": None}], pa.list_(_NUMBERS), "ARRAY<STRUCT<n: INT NOT NULL>>"),
        ([("a", {"n": None})], pa.map_(pa.string(), _NUMBERS), "MAP<STRING, STRUCT<n: INT NOT NULL>>"),
    ],
    ids=["struct", "array", "map"],
)
def test_a_null_in_a_required_field_is_refused(value: object, kind: pa.DataType, ddl: str):
    given = pa.array([value, None], kind)
    with pytest.raises(
        DataError, match=r"The row \d+, counted from 0, has a null in value\.n, which its schema declares NOT NULL"
    ):
        declared(given, ddl)
    assert declared(given.slice(1), ddl).to_pylist() == [None], "the other row has none"


def test_other_types_than_declared_stay_for_spark_to_refuse():
    given = pa.array([{"n": 1}], _NUMBERS)
    for ddl in ("STRING", "STRUCT<n: INT NOT NULL, m: INT>", "ARRAY<INT>", "STRUCT<n: ARRAY<INT>>"):
        assert declared(given, ddl) is not None
        assert declared(given, ddl).type == given.type
