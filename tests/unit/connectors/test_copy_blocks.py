from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.connectors.copy_blocks import find_rows

pytestmark = pytest.mark.unit

# Lengths whose bytes look like the beginning of a message: `d` and a 0.
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
    starts, found = find_rows(bytearray(stream), filled)
    assert (starts.tolist(), found) == (whole, end)
