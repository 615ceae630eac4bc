"""The record batch encoder's varint functions, compared with a varint computed byte by byte."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from fencepost.kafka.records import varints

_NUMBERS = st.integers(-(2**63), 2**63 - 1) | st.integers(-300, 300)


def _varint(number: int) -> bytes:
    unsigned = 2 * number if number >= 0 else -2 * number - 1
    encoded = bytearray()
    while unsigned > 0x7F:
        encoded.append(unsigned & 0x7F | 0x80)
        unsigned >>= 7
    return bytes([*encoded, unsigned])


def _joined(fields: list[varints.Field], count: int) -> list[bytes]:
    rows = [b""] * count
    for views in varints.inline_views(fields):
        words = np.empty((count, 2), np.uint64)
        words[:, 0], words[:, 1] = views.first, views.second
        column = pa.Array.from_buffers(pa.binary_view(), count, [None, pa.py_buffer(words)])
        column.validate(full=True)
        rows = [row + more for row, more in zip(rows, column.to_pylist(), strict=True)]
    return rows


@given(st.lists(_NUMBERS, min_size=1, max_size=50))
def test_numbers_of_any_size_become_their_varints(numbers: list[int]):
    fields = [*varints.signed_varints(np.array(numbers, np.int64))]

    assert _joined(fields, len(numbers)) == [_varint(number) for number in numbers]


@given(st.lists(_NUMBERS, min_size=1, max_size=50))
def test_the_lengths_of_varints_are_known_without_them(numbers: list[int]):
    lengths = varints.signed_varint_lengths(np.array(numbers, np.int64))

    assert np.broadcast_to(lengths, len(numbers)).tolist() == [len(_varint(number)) for number in numbers]
    assert [varints.signed_varint_length(number) for number in numbers] == [len(_varint(number)) for number in numbers]


@given(st.lists(st.lists(_NUMBERS, min_size=7, max_size=7), min_size=5, max_size=5), st.binary(max_size=8))
def test_consecutive_fields_follow_each_other(columns: list[list[int]], between: bytes):
    fields = [varints.constant(between)]
    for column in columns:
        fields += [*varints.signed_varints(np.array(column, np.int64)), varints.constant(between)]

    expected = [between + b"".join(_varint(number) + between for number in row) for row in zip(*columns, strict=True)]
    assert _joined(fields, 7) == expected


def test_offset_deltas_count_from_zero_through_all_lengths():
    for count in (1, 64, 65, 8192, 8193, 20_000):
        expected = [_varint(number) + b"\1" for number in range(count)]

        assert _joined([varints.offset_deltas(count, b"\1")], count) == expected
