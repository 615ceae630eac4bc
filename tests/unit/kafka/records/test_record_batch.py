"""Record batches, parsed by kafka-python."""

from __future__ import annotations

import gzip
import struct
from typing import Any

import cramjam
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.record.memory_records import MemoryRecords

from fencepost.api.errors import IllegalStateError
from fencepost.kafka.records.columns import Records, normalize
from fencepost.kafka.records.compression import Compression, compress
from fencepost.kafka.records.record_batch import (
    BATCH_OVERHEAD,
    OversizeRecordError,
    encode,
    record_sizes,
    split_by_bytes,
)
from tests.support.tables import Row, Table, tables

_NOW = 1_700_000_000_123
_CODECS = [codec for codec in Compression if codec is not Compression.NONE]


def _encoded(records: Records, compression: Compression = Compression.NONE) -> bytes:
    return b"".join(
        encode(
            records,
            producer_id=2**40,
            producer_epoch=7,
            base_sequence=2**31 - 1,
            transactional=True,
            compression=compression,
            now_ms=_NOW,
        )
    )


def _parsed(batch: bytes) -> Any:
    parsed = MemoryRecords(batch).next_batch()
    assert parsed.validate_crc()
    return parsed


def _rows(batch: bytes) -> list[Row]:
    parsed = list(_parsed(batch))
    assert [record.offset for record in parsed] == list(range(len(parsed)))
    return [Row(record.key, record.value, record.timestamp, tuple(record.headers)) for record in parsed]


def _expected(table: Table) -> list[Row]:
    return [
        Row(row.key, row.value, _NOW if row.timestamp is None else row.timestamp, row.headers) for row in table.rows
    ]


@given(tables())
def test_random_tables_are_read_back_unchanged(table: Table):
    assert _rows(_encoded(table.records)) == _expected(table)


def test_a_batch_goes_through_all_lengths_of_offset_deltas():
    values = [b"%d" % number for number in range(9_000)]

    assert [row.value for row in _rows(_encoded(Records(pa.array(values))))] == values


@st.composite
def _even_columns(draw: st.DrawFn, count: int) -> pa.Array:
    """A column of values of equal length, or of nulls, which may start in the middle of its buffers."""
    length = draw(st.none() | st.sampled_from([0, 1, 2, 3, 8, 63, 64, 70]))
    before = draw(st.integers(0, 3))
    data = np.random.default_rng(count).bytes((length or 0) * (before + count))
    values = [None if length is None else data[row * length :][:length] for row in range(before + count)]
    return pa.array(values, draw(st.sampled_from([pa.binary(), pa.large_binary()]))).slice(before)


@settings(max_examples=60, deadline=None)
@given(st.sampled_from([1, 2, 63, 64, 65, 300]), st.data())
def test_records_of_one_length_are_read_back_as_they_were(count: int, data: st.DataObject):
    value = data.draw(_even_columns(count))
    key = data.draw(st.none() | _even_columns(count))
    spread = data.draw(st.sampled_from([0, 1, 2**10, 2**60]))
    times = data.draw(st.none() | st.just([_NOW + spread * (row % 2) for row in range(count)]))

    rows = _rows(_encoded(Records(value, key, None if times is None else pa.array(times))))

    keys = [None] * count if key is None else key.to_pylist()
    assert rows == [Row(*row, ()) for row in zip(keys, value.to_pylist(), times or [_NOW] * count, strict=True)]


def test_records_of_one_length_go_through_all_lengths_of_offset_deltas():
    values = [b"%07d" % number for number in range(9_000)]

    assert [row.value for row in _rows(_encoded(Records(pa.array(values))))] == values


def test_more_than_a_million_records_of_one_length_have_offset_deltas_of_four_bytes():
    count = 2**20 + 2

    batch = _encoded(Records(pa.nulls(count, pa.binary())))

    # Length, attributes, timestamp delta, offset delta, no key, no value, no headers.
    last_of_three, *of_four = "10 0000 feff7f 010100", "12 0000 80808001 010100", "12 0000 82808001 010100"
    assert batch.endswith(bytes.fromhex("".join([last_of_three, *of_four])))


def test_the_batch_header_has_the_producer():
    parsed = _parsed(_encoded(normalize(pa.array([b"a", b"b", b"c"]))))

    assert (parsed.producer_id, parsed.producer_epoch, parsed.base_sequence) == (2**40, 7, 2**31 - 1)
    assert parsed.is_transactional
    assert not parsed.is_control_batch
    assert parsed.timestamp_type == 0
    assert parsed.last_offset_delta == 2


def test_base_and_maximal_timestamp_are_right_for_falling_timestamps_before_1970():
    batch = _encoded(normalize(pa.nulls(3), timestamp=pa.array([-5, 1_000, -(2**50)], pa.int64())))

    assert struct.unpack_from(">qq", batch, 27) == (-5, 1_000)
    assert [row.timestamp for row in _rows(batch)] == [-5, 1_000, -(2**50)]


def test_records_without_a_timestamp_get_the_time_of_encoding():
    batch = _encoded(normalize(pa.nulls(2), timestamp=pa.array([None, 1], pa.int64())))

    assert struct.unpack_from(">qq", batch, 27) == (_NOW, _NOW)
    assert [row.timestamp for row in _rows(batch)] == [_NOW, 1]


def test_values_beyond_two_gigabytes_of_their_column_are_found():
    data = np.zeros(2**31 + 20, np.uint8)
    data[-20:] = range(20)
    offsets = np.array([0, 2**31, 2**31 + 7, 2**31 + 20])
    column = pa.Array.from_buffers(pa.large_binary(), 3, [None, pa.py_buffer(offsets), pa.py_buffer(data)])

    rows = _rows(_encoded(Records(column.slice(1, 2))))

    assert [row.value for row in rows] == [bytes(range(7)), bytes(range(7, 20))]


def test_bytes_under_a_null_are_not_sent():
    validity = pa.py_buffer(b"\x05")
    offsets = pa.py_buffer(np.array([0, 20, 40, 60], np.int32))
    column = pa.Array.from_buffers(pa.binary(), 3, [validity, offsets, pa.py_buffer(bytes(range(60)))])

    assert [row.value for row in _rows(_encoded(Records(column)))] == [bytes(range(20)), None, bytes(range(40, 60))]


def test_the_name_of_a_header_may_hold_a_nul():
    headers = pa.array([[{"key": "a\0b", "value": b"\0"}]])

    assert _rows(_encoded(normalize(pa.nulls(1), headers=headers)))[0].headers == (("a\0b", b"\0"),)


def test_an_empty_batch_is_refused():
    with pytest.raises(IllegalStateError):
        _encoded(Records(pa.array([], pa.binary())))


@settings(max_examples=40)
@given(tables(), st.sampled_from(list(Compression)), st.data())
def test_runs_never_exceed_the_limit_and_lose_nothing(table: Table, compression: Compression, data: st.DataObject):
    largest = max(len(_encoded(table.records.slice(row, 1))) for row in range(len(table.rows)))
    limit = data.draw(st.integers(largest, 2 * len(_encoded(table.records))))

    batches = [_encoded(run, compression) for run in split_by_bytes(table.records, limit)]

    assert max(map(len, batches)) <= limit
    runs = list(split_by_bytes(table.records, limit))
    assert [row for run in runs for row in _rows(_encoded(run))] == _expected(table)


@given(tables())
def test_the_sizes_of_records_are_a_bound_that_only_deltas_loosen(table: Table):
    bound, size = int(record_sizes(table.records).sum()) + BATCH_OVERHEAD, len(_encoded(table.records))

    assert size <= bound
    if table.records.timestamp is None:
        assert bound <= size + len(table.rows)


def test_batches_are_filled_up_to_their_limit():
    records = Records(pa.array([b"x" * 100] * 20_000))

    sizes = [len(_encoded(run)) for run in split_by_bytes(records, 1_000_000)]

    assert all(size > 980_000 for size in sizes[:-1])


@settings(max_examples=40)
@given(tables(), st.data())
def test_one_record_too_large_is_named_with_its_size(table: Table, data: st.DataObject):
    row = data.draw(st.integers(0, len(table.rows) - 1))
    sizes = [len(_encoded(table.records.slice(index, 1))) for index in range(row + 1)]
    limit = max(sizes[:row], default=sizes[row] - 1)
    if limit >= sizes[row]:
        limit = sizes[row] - 1
    first = next(index for index, size in enumerate(sizes) if size > limit)

    with pytest.raises(OversizeRecordError) as raised:
        list(split_by_bytes(table.records, limit))

    assert (raised.value.index, raised.value.size, raised.value.limit) == (first, sizes[first], limit)


def test_no_records_make_no_batch():
    empty = Records(pa.array([], pa.binary()))

    assert list(split_by_bytes(empty, 1_000)) == []
    assert record_sizes(empty).tolist() == []


def _decompressed(data: bytes, compression: Compression) -> bytes:
    if compression is Compression.GZIP:
        return gzip.decompress(data)
    if compression is not Compression.SNAPPY:
        return bytes(getattr(cramjam, compression.value).decompress(data))
    assert data[:16] == b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01"
    blocks, position = [], 16
    while position < len(data):
        (length,) = struct.unpack_from(">i", data, position)
        blocks.append(bytes(cramjam.snappy.decompress_raw(data[position + 4 : position + 4 + length])))
        position += 4 + length
    assert all(len(block) <= 32 * 1024 for block in blocks)
    return b"".join(blocks)


@pytest.mark.parametrize("compression", _CODECS)
def test_a_compressed_batch_holds_the_same_records(compression: Compression):
    records = Records(pa.array([b'{"number": %d}' % number for number in range(5_000)]))

    plain, compressed = _encoded(records), _encoded(records, compression)

    assert len(compressed) < len(plain)
    assert _parsed(compressed).compression_type == compression.code
    assert _decompressed(compressed[BATCH_OVERHEAD:], compression) == plain[BATCH_OVERHEAD:]


@pytest.mark.parametrize("compression", _CODECS)
def test_records_that_a_codec_makes_larger_stay_uncompressed(compression: Compression):
    records = Records(pa.array([np.random.default_rng(0).bytes(1_000)]))

    assert _encoded(records, compression) == _encoded(records)


@pytest.mark.parametrize("compression", [codec for codec in _CODECS if codec.levels])
def test_a_codec_takes_all_its_levels(compression: Compression):
    assert compression.levels is not None
    data = b"".join(b'{"number": %d}' % number for number in range(2_000))
    for level in (compression.levels[0], 1, compression.levels[-1]):
        assert _decompressed(bytes(compress(memoryview(data), compression, level)), compression) == data


def test_the_blocks_of_an_lz4_frame_are_independent():
    frame = compress(memoryview(bytes(200_000)), Compression.LZ4)

    assert frame[4] & 0x20
