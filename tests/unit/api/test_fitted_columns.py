"""Rows of a reader get the types of its schema, or are refused."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from fencepost.api.ddl import parse_columns
from fencepost.api.errors import DataError
from fencepost.api.fitted_columns import fitted

_REQUIRED = pa.struct([pa.field("x", pa.int64(), nullable=False)])


@pytest.mark.parametrize(
    ("given", "ddl", "kind"),
    [
        (pa.array(["a", None], pa.large_string()), "STRING", pa.string()),
        (pa.array(["a", None]).dictionary_encode(), "STRING", pa.string()),
        (pa.array([1, None], pa.int64()), "INT", pa.int32()),
        (pa.array([1.0, None]), "BIGINT", pa.int64()), (pa.array([2**53, None]), "DOUBLE", pa.float64()), (pa.array([2**24]), "FLOAT", pa.float32()),
        (pa.nulls(2), "BIGINT", pa.int64()),
        (pa.array([0, None], pa.timestamp("ms", "Asia/Tokyo")), "TIMESTAMP", pa.timestamp("us", "UTC")),
        (pa.array([{"x": 1}, None], _REQUIRED), "STRUCT<x: BIGINT NOT NULL>", pa.struct([("x", pa.int64())])),
        (pa.array([[{"x": 1}, None], None], pa.large_list(_REQUIRED)), "ARRAY<STRUCT<x: BIGINT NOT NULL>>", pa.list_(pa.struct([("x", pa.int64())]))),
    ],
)  # fmt: skip
def test_values_stay_and_types_are_the_declared_ones(given: pa.Array, ddl: str, kind: pa.DataType):
    found = fitted(pa.RecordBatch.from_pydict({"value": given}), parse_columns(f"value {ddl}"), "A reader")["value"]
    found.validate(full=True)
    assert (found.type, found.to_pylist()) == (kind, given.to_pylist())


@pytest.mark.parametrize(
    ("given", "ddl"),
    [
        (pa.array(["1"]), "BIGINT"), (pa.array([1]), "STRING"), (pa.array([1.5]), "BIGINT"), (pa.array([2**53 + 1]), "DOUBLE"), (pa.array([True]), "BIGINT"),
        (pa.array(["a"]), "BINARY"), (pa.array([0.1]), "FLOAT"), (pa.array([2**40]), "INT"), (pa.array(["a", None]), "STRING NOT NULL"),
        (pa.array([{"x": None}], pa.struct([("x", pa.int64())])), "STRUCT<x: BIGINT NOT NULL>"),
        (pa.array([[{"x": None}]], pa.large_list(pa.struct([("x", pa.int64())]))), "ARRAY<STRUCT<x: BIGINT NOT NULL>>"),
        (pa.array([1], pa.timestamp("ns", "UTC")), "TIMESTAMP"), (pa.array([1]), "TIMESTAMP"), (pa.array([1]), "TIMESTAMP_NTZ"),
        (pa.array([{"at": 1}]), "STRUCT<at: TIMESTAMP>"),
    ],
)  # fmt: skip
def test_values_that_would_change_are_refused(given: Any, ddl: str):
    with pytest.raises(DataError, match="schema"):
        fitted(pa.RecordBatch.from_pydict({"value": given}), parse_columns(f"value {ddl}"), "A reader")
