"""A few records are encoded as many are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.kafka.records import varints
from fencepost.kafka.records.columns import HEADERS, Records
from fencepost.kafka.records.layout import Columns, are_few, few_records

_BYTES = st.one_of(st.none(), st.binary(max_size=200))
_HEADERS = st.one_of(
    st.none(), st.lists(st.fixed_dictionaries({"key": st.text(max_size=70), "value": _BYTES}), max_size=3)
)


@given(st.integers(1, 4), st.integers(0, 2), st.data())
def test_a_few_records_have_the_bytes_of_the_columns_encoder(count: int, cut: int, data: st.DataObject) -> None:
    def column(elements: st.SearchStrategy[Any], kind: pa.DataType) -> pa.Array:
        rows = count + cut
        return pa.array(data.draw(st.lists(elements, min_size=rows, max_size=rows)), kind)

    deltas = data.draw(st.lists(st.integers(-(2**62), 2**62), min_size=1, max_size=1) | st.just([0, 3, -1, 70][:count]))
    kind = data.draw(st.sampled_from([pa.binary(), pa.large_binary()]))
    records = Records(
        value=column(_BYTES, kind),
        key=column(_BYTES, kind) if data.draw(st.booleans()) else None,
        headers=column(_HEADERS, HEADERS) if data.draw(st.booleans()) else None,
    ).slice(cut, count)
    columns = Columns.of(records).concatenated(varints.signed_varints(np.array(deltas, np.int64)))
    assert bytes(few_records(records, deltas)) == bytes(columns)


@pytest.mark.parametrize(("values", "few"), [([b"x"] * 4, True), ([b"x"] * 5, False), ([b"x" * 20_000], False)])
def test_only_small_records_are_few(values: list[bytes], few: bool) -> None:
    assert are_few(Records(pa.array(values, pa.binary()))) is few
