"""Encodes columns of records as Kafka record batches, without Python code per record unless there are few records.

The layout, from "Record Batch" and "Record" at https://kafka.apache.org/documentation/#messageformat (magic 2):

    batch   base offset int64 | batch length int32 | partition leader epoch int32 | magic int8 | CRC-32C uint32 |
            attributes int16 | last offset delta int32 | base timestamp int64 | max timestamp int64 |
            producer id int64 | producer epoch int16 | base sequence int32 | record count int32 | records
    record  length varint | attributes int8 | timestamp delta varlong | offset delta varint |
            key length varint | key | value length varint | value | header count varint | headers
    header  name length varint | name | value length varint | value

The batch length counts the bytes from the partition leader epoch on, and the CRC covers the bytes from the attributes
on. A length of -1 is a null. The attributes hold the codec in bits 0-2, and in bit 4 whether the batch belongs to a
transaction. Bit 3 stays 0, which means that timestamps are the records' own (CREATE_TIME). Only the records are
compressed.

The bytes are made in layout.py. Runs of small fields become pieces of at most 12 bytes (varints.py). Keys, values and
headers are pieces that point into the columns' own buffers. All pieces of a batch, in order, are one Arrow array of
binary views; a single cast of this array to plain binary lays the bytes out one after the other. If all records have
the same length, no views are needed: the pieces are copied to their places. Few records are encoded one by one
(few_records.py).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

import crc32c
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fencepost.api.errors import IllegalStateError
from fencepost.kafka.errors import KafkaError
from fencepost.kafka.records import few_records, varints
from fencepost.kafka.records.columns import Records
from fencepost.kafka.records.compression import Compression, compress
from fencepost.kafka.records.layout import Columns

_UNCHECKED = struct.Struct(">qiibI")
_CHECKED = struct.Struct(">hiqqqhii")
BATCH_OVERHEAD = _UNCHECKED.size + _CHECKED.size
"""The number of bytes of a batch besides its records."""

_LENGTH_COUNTS_FROM = 12
_MAGIC = 2
_NO_LEADER_EPOCH = -1
_TRANSACTIONAL = 0x10
_LONGEST_VARLONG = 10
_FIXED_BYTES_OF_RECORD = 10
"""The approximate size of a record besides its columns."""


class OversizeRecordError(KafkaError):
    """A single record takes a batch of `size` bytes, which is more than `limit`. `index` is the record's row."""

    def __init__(self, index: int, size: int, limit: int) -> None:
        super().__init__(
            f"Record {index} of the batch takes {size} bytes, more than the {limit} bytes that may be sent"
        )
        self.index = index
        self.size = size
        self.limit = limit


def encode(
    records: Records,
    *,
    producer_id: int,
    producer_epoch: int,
    base_sequence: int,
    transactional: bool,
    compression: Compression,
    now_ms: int,
    compression_level: int | None = None,
) -> list[memoryview]:
    """Return one record batch, as buffers that are sent one after the other.

    Records without a timestamp get `now_ms`. If a codec would make the batch larger, the batch is not compressed, so
    that it never takes more bytes than `split_by_bytes` allowed. Raises IllegalStateError if `records` is empty.
    """
    if not len(records):
        raise IllegalStateError("A record batch has at least one record")
    timestamps = _timestamps(records, now_ms)
    deltas = timestamps - timestamps[0]
    if few_records.are_few(records):
        body = few_records.concatenated(records, deltas.tolist())
    else:
        body = Columns.of(records).concatenated(varints.signed_varints(deltas))
    attributes = _TRANSACTIONAL if transactional else 0
    if compression is not Compression.NONE:
        compressed = compress(body, compression, compression_level)
        if len(compressed) < len(body):
            attributes |= compression.code
            body = compressed
    count = len(records)
    checked = _CHECKED.pack(
        attributes,
        count - 1,
        int(timestamps[0]),
        int(timestamps.max()),
        producer_id,
        producer_epoch,
        base_sequence,
        count,
    )
    checksum = crc32c.crc32c(body, crc32c.crc32c(checked))
    length = BATCH_OVERHEAD - _LENGTH_COUNTS_FROM + len(body)
    return [memoryview(_UNCHECKED.pack(0, length, _NO_LEADER_EPOCH, _MAGIC, checksum) + checked), body]


def record_sizes(records: Records) -> NDArray[np.int64]:
    """Return the maximum size of each record in bytes, at any position in any batch of these records.

    The sizes are exact except for the offset and timestamp deltas, which depend on where a batch begins.
    """
    if not len(records):
        return np.zeros(0, np.int64)
    offset_delta = varints.signed_varint_length(len(records) - 1)
    return _sizes(records, _timestamp_delta_bound(records.timestamp) + offset_delta)


def split_by_bytes(records: Records, limit: int) -> Iterator[Records]:
    """Yield `records` in runs. Each run takes at most `limit` bytes as a record batch.

    Raises OversizeRecordError at the first record that takes more than `limit` bytes even in its own batch.
    """
    room = limit - BATCH_OVERHEAD
    ends = np.cumsum(record_sizes(records))
    start, sent = 0, 0
    while start < len(records):
        end = int(np.searchsorted(ends, sent + room, side="right"))
        if end <= start:
            # The estimate may be a few bytes above the size of the record in its own batch, where both deltas are zero.
            size = BATCH_OVERHEAD + int(_sizes(records.slice(start, 1), 2)[0])
            if size > limit:
                raise OversizeRecordError(start, size, limit)
            end = start + 1
        yield records.slice(start, end - start)
        start, sent = end, int(ends[end - 1])


def surely_fits(records: Records, limit: int) -> bool:
    """Return whether records surely take at most `limit` bytes as a batch. Single records are not checked.

    The result is False if this is unknown. A record has its length (at most 4 bytes), attributes (1), the deltas of its
    offset (3) and of its timestamp (10, or 1 if all times are equal), the lengths of key and value (4 each; 1 for a
    missing key) and its header count (1, or 4 with headers; each header has two lengths of at most 5). These widths
    hold for batches below 128 MiB and a million records. `nbytes` of a column includes its offsets, at least 4 bytes
    per record, which are subtracted because they are not sent.
    """
    if limit >= 1 << 27 or len(records) >= 1 << 20:
        return False
    fixed = 4 + 1 + 3 + (1 if records.timestamp is None else 10) + 4 + 1
    columns = records.value.nbytes - 4 * len(records)
    if records.key is None:
        fixed += 1
    else:
        fixed += 4
        columns += records.key.nbytes - 4 * len(records)
    if records.headers is not None:
        fixed += 3
        columns += records.headers.nbytes + 10 * len(records.headers.flatten())
    return bool(BATCH_OVERHEAD + columns + fixed * len(records) <= limit)


def estimated_bytes(records: Records) -> int:
    """Return the approximate size in bytes of records in a batch. Single records are not checked."""
    columns = (records.value, records.key, records.headers)
    total = sum(column.nbytes for column in columns if column is not None)
    return int(total) + _FIXED_BYTES_OF_RECORD * len(records)


def _sizes(records: Records, delta_bytes: int) -> NDArray[np.int64]:
    columns = Columns.of(records)
    body = columns.body_lengths(delta_bytes)
    sizes = body + varints.signed_varint_lengths(body)
    return np.broadcast_to(sizes, len(records))


def _timestamp_delta_bound(timestamp: pa.Array | None) -> int:
    if timestamp is None or timestamp.null_count == len(timestamp):
        return 1
    if timestamp.null_count:
        # Some records get the time of encoding, which may be far from the other records' times.
        return _LONGEST_VARLONG
    numbers = timestamp.to_numpy()
    spread = int(numbers.max()) - int(numbers.min())
    return min(_LONGEST_VARLONG, varints.signed_varint_length(spread))


def _timestamps(records: Records, now_ms: int) -> NDArray[np.int64]:
    column = records.timestamp
    if column is None:
        return np.array([now_ms], np.int64)
    numbers: NDArray[np.int64] = column.fill_null(now_ms).to_numpy()
    return numbers
