"""A few records, which are encoded one by one, have the same bytes as columns of records."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.kafka.records import few_records, varints
from fencepost.kafka.records.columns import HEADERS, Records
from fencepost.kafka.records.layout import Columns

_BYTES = st.none() | st.binary(max_size=200)
_HEADERS = st.none() | st.lists(st.fixed_dictionaries({"key": st.text(max_size=5), "value": _BYTES}), max_size=3)


@st.composite
def columns(draw: st.DrawFn) -> Records:
    count = draw(st.integers(1, few_records.FEW))
    skipped = draw(st.integers(0, 3))

    def column(values: st.SearchStrategy[object], kind: pa.DataType) -> pa.Array:
        length = skipped + count
        return pa.array(draw(st.lists(values, min_size=length, max_size=length)), kind).slice(skipped)

    kind = draw(st.sampled_from([pa.binary(), pa.large_binary()]))
    key = draw(st.sampled_from([None, pa.binary(), pa.large_binary()]))
    return Records(
        column(_BYTES, kind),
        None if key is None else column(_BYTES, key),
        headers=column(_HEADERS, HEADERS) if draw(st.booleans()) else None,
    )


@given(columns(), st.data())
def test_few_records_have_the_bytes_that_columns_give_them(records: Records, data: st.DataObject):
    times = st.lists(st.integers(-(2**40), 2**40), min_size=len(records), max_size=len(records))
    deltas = data.draw(st.just([0]) | times)
    expected = Columns.of(records).concatenated(varints.signed_varints(np.array(deltas, np.int64)))
    assert bytes(few_records.concatenated(records, deltas)) == bytes(expected)


@pytest.mark.parametrize(("count", "size", "few"), [(64, 10, True), (65, 10, False), (2, 100_000, False)])
def test_records_are_few_as_long_as_neither_they_nor_their_bytes_are_many(count: int, size: int, few: bool):
    records = Records(pa.array([bytes(size)] * count, pa.binary()))
    assert few_records.are_few(records) is few
