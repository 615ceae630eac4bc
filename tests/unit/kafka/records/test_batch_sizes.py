"""Estimates of a record batch's size before it is encoded."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from fencepost.kafka.records.columns import HEADERS, Records
from fencepost.kafka.records.compression import Compression
from fencepost.kafka.records.record_batch import encode, surely_fits

_TEXTS = st.one_of(st.none(), st.binary(max_size=300))


def size_of(records: Records) -> int:
    parts = encode(
        records,
        producer_id=1,
        producer_epoch=1,
        base_sequence=0,
        transactional=True,
        compression=Compression.NONE,
        now_ms=1_700_000_000_000,
    )
    return sum(len(part) for part in parts)


_HEADERS = st.none() | st.lists(st.fixed_dictionaries({"key": st.text(max_size=5), "value": _TEXTS}), max_size=3)


@st.composite
def slices(draw: st.DrawFn) -> Records:
    """Records with and without keys, timestamps and headers, as slices of longer columns."""
    kind = draw(st.sampled_from([pa.binary(), pa.large_binary()]))
    count = draw(st.integers(1, 40))
    start = draw(st.integers(0, count - 1))

    def column(elements: st.SearchStrategy[object], of: pa.DataType) -> pa.Array:
        return pa.array(draw(st.lists(elements, min_size=count, max_size=count)), of)

    times = st.one_of(st.none(), st.integers(-(2**62), 2**62))
    return Records(
        value=column(_TEXTS, kind),
        key=column(_TEXTS, kind) if draw(st.booleans()) else None,
        timestamp=column(times, pa.int64()) if draw(st.booleans()) else None,
        headers=column(_HEADERS, HEADERS) if draw(st.booleans()) else None,
    ).slice(start, count - start)


@given(slices(), st.integers(0, 20_000))
def test_records_predicted_to_fit_do_fit(records: Records, limit: int) -> None:
    if surely_fits(records, limit):
        assert size_of(records) <= limit


def test_equal_values_fill_a_batch_to_the_brim() -> None:
    records = Records(pa.array([b"x" * 100] * 9_000, pa.binary()))

    assert surely_fits(records, 1_048_576)
    assert size_of(records) > 0.9 * 1_048_576


def test_headers_are_predicted_with_their_lengths() -> None:
    headers = pa.array([[{"key": "name", "value": b"x" * 100}] * 3], HEADERS)
    records = Records(pa.array([b"v"], pa.binary()), headers=headers)
    assert surely_fits(records, 500)
    assert not surely_fits(records, size_of(records) - 1)
