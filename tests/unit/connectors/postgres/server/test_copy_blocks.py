from __future__ import annotations

import struct
from itertools import accumulate, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.connectors.jdbc.postgres.binary import marks
from fencepost.connectors.postgres.server.copy_blocks import RowFinder

pytestmark = pytest.mark.unit

# Lengths whose bytes look like the beginning of a message: a `d` and a 0 byte.
_SIZES = st.one_of(st.integers(1, 300), st.sampled_from([0x6400 - 4, 0x6401 - 4, 0x640000 - 4]))


def row(text: bytes) -> bytes:
    return struct.pack(">cI", b"d", len(text) + 4) + text


@given(st.lists(_SIZES, max_size=8), st.sampled_from([b"", b"c\0\0\0\4", b"S\0\0\0\6a\0"]), st.data())
def test_rows_are_found_wherever_a_block_ends(sizes: list[int], after: bytes, data: st.DataObject):
    rows = [row(b"d" * size) for size in sizes]
    stream = b"".join(rows) + after
    filled = data.draw(st.integers(0, len(stream)))
    whole, end = [], 0
    for message in rows:
        if end + len(message) > filled:
            break
        whole.append(end)
        end += len(message)
    starts, found = RowFinder().find(bytearray(stream), filled)
    assert (starts.tolist(), found) == (whole, end)


# Fields that look like the beginning of a row, and the bytes between rows.
_FIELDS = st.sampled_from([b"", b"d", b"d\0\0\0\x13\0\2\xff\xff\xff\xff", b"d\0\0\0\6\xff\xff", b"\xff" * 300])


@given(
    st.lists(_FIELDS, max_size=8),
    st.sampled_from([b"", b"d\0\0\0\6\xff\xff", b"d\0\0\0\6\xff\xffc\0\0\0\4"]),
    st.data(),
)
def test_binary_rows_are_found_up_to_the_trailer(fields: list[bytes], after: bytes, data: st.DataObject):
    rows = [row(struct.pack(">hii", 2, -1, len(field)) + field) for field in fields]
    stream = b"".join(rows) + after
    filled = data.draw(st.integers(0, len(stream)))
    ends = list(accumulate((len(message) for message in rows), initial=0))
    starts, end = RowFinder(marks(1)).find(bytearray(stream), filled)
    assert starts.tolist() == [start for start, stop in pairwise(ends) if stop <= filled]
    assert end == max(stop for stop in ends if stop <= filled)
