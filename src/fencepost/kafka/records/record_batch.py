"""Columns of records into Kafka record batches, without Python per record unless they are few.

The layout, from "Record Batch" and "Record" at https://kafka.apache.org/documentation/#messageformat (magic 2):

    batch   base offset int64 | batch length int32 | partition leader epoch int32 | magic int8 | CRC-32C uint32 |
            attributes int16 | last offset delta int32 | base timestamp int64 | max timestamp int64 |
            producer id int64 | producer epoch int16 | base sequence int32 | record count int32 | records
    record  length varint | attributes int8 | timestamp delta varlong | offset delta varint |
            key length varint | key | value length varint | value | header count varint | headers
    header  name length varint | name | value length varint | value

The batch length counts from the partition leader epoch on and the CRC covers everything from the attributes on. A
length of -1 is a null. The attributes hold the codec in bits 0-2 and the transaction in bit 4; bit 3 stays 0, which
says that timestamps are the records' own (CREATE_TIME). Codecs compress the records and nothing else.

How (layout.py): runs of small fields become pieces of at most 12 bytes (varints.py); keys, values and headers are
pieces that point into the columns' own buffers. All pieces of a batch, in order, are one Arrow array of binary views,
and a single cast of it to plain binary lays the bytes out one after the other. If all records have one length, the
pieces need no views: they are copied to their places. Few records are encoded one by one (few_records.py).
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
"""Bytes of a batch beside its records."""

_LENGTH_COUNTS_FROM = 12
_MAGIC = 2
_NO_LEADER_EPOCH = -1
_TRANSACTIONAL = 0x10
_LONGEST_VARLONG = 10
_FIXED_BYTES_OF_RECORD = 10
"""The approximate size of a record beside its columns."""


class OversizeRecordError(KafkaError):
    """One record alone takes a batch of `size` bytes, more than `limit`. `index` is its row."""

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
    """One record batch, as buffers to be sent one after the other.

    Records without a timestamp get `now_ms`. A batch that its codec would make larger is left uncompressed, so that
    it never takes more bytes than `split_by_bytes` allowed. `records` must not be empty: IllegalStateError.
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
    """The maximum size of each record in bytes, at any position in any batch of these records.

    Exact except for the offset and timestamp deltas, which depend on where a batch begins.
    """
    if not len(records):
        return np.zeros(0, np.int64)
    offset_delta = varints.signed_varint_length(len(records) - 1)
    return _sizes(records, _timestamp_delta_bound(records.timestamp) + offset_delta)


def split_by_bytes(records: Records, limit: int) -> Iterator[Records]:
    """`records` in runs, each of which encodes into a record batch of at most `limit` bytes.

    Raises OversizeRecordError at the first record that takes more than `limit` bytes even alone.
    """
    room = limit - BATCH_OVERHEAD
    ends = np.cumsum(record_sizes(records))
    start, sent = 0, 0
    while start < len(records):
        end = int(np.searchsorted(ends, sent + room, side="right"))
        if end <= start:
            # The bound may be a few bytes above the size of the record alone, with deltas of zero.
            size = BATCH_OVERHEAD + int(_sizes(records.slice(start, 1), 2)[0])
            if size > limit:
                raise OversizeRecordError(start, size, limit)
            end = start + 1
        yield records.slice(start, end - start)
        start, sent = end, int(ends[end - 1])


def surely_fits(records: Records, limit: int) -> bool:
    """Return whether records take at most `limit` bytes as a batch, without checking each. False if unknown.

    A record has its length (at most 4 bytes), attributes (1), deltas of its offset (3) and, unless all have the same
    time, of its timestamp (10, else 1), the lengths of key and value (4 each; a missing key takes 1) and its header
    count (1, or 4 with headers, each of which has two lengths of at most 5). These widths hold for batches below 128 MiB and
    a million records. A column's own size counts at least 4 bytes a record for its offsets, which are not sent.
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
    """The approximate size of records in a batch in bytes, without checking each."""
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
        # Some records get the time of encoding, which may be at any distance from the others' times.
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
