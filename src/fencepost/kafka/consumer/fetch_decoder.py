"""Decodes a fetched part of a partition's log: its batches, and the records visible at read_committed.

Record batches: https://kafka.apache.org/documentation/#recordbatch. kafka-python parses records; decompression and
checksums are ours, because its codecs each take a package of their own and its checksum is slow without another.
"""

from __future__ import annotations

import gzip
import struct
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple, Protocol

import cramjam
from crc32c import crc32c
from kafka.record.default_records import DefaultRecordBatch
from kafka.record.memory_records import MemoryRecords

from fencepost.api.errors import DataError

_HEADER_BYTES: Final = DefaultRecordBatch.HEADER_STRUCT.size
_ATTRIBUTES_AT: Final = DefaultRecordBatch.ATTRIBUTES_OFFSET
_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER_BYTES: Final = 16
_LENGTH: Final = struct.Struct(">i")

NO_PRODUCER: Final = (-1, -1)
"""The producer identity of a record that was written without one."""


class ConsumedRecord(NamedTuple):
    """A record in a topic.

    `timestamp` is in milliseconds; `headers` are (name, value) pairs; `producer` is the writer's producer id and epoch;
    `transactional` is whether it was written in a transaction.
    """

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]]
    producer: tuple[int, int] = NO_PRODUCER
    transactional: bool = False


class TransactionMarker(NamedTuple):
    """The end of one transaction in one partition."""

    topic: str
    partition: int
    offset: int
    producer_id: int
    producer_epoch: int
    committed: bool

    @property
    def transaction(self) -> tuple[int, int]:
        """Identifies the transaction across partitions and topics."""
        return self.producer_id, self.producer_epoch


class AbortedTransaction(Protocol):
    """A row of a Fetch response: from `first_offset` on, the producer's records are aborted up to its next marker."""

    producer_id: int
    first_offset: int


class FetchedRecords(NamedTuple):
    """The result of one fetch. `next_offset` is the offset to continue from; None if there was no complete batch."""

    records: list[ConsumedRecord]
    next_offset: int | None
    markers: Sequence[TransactionMarker] = ()


def read_fetched(
    topic: str, partition: int, data: bytes | None, aborted: Sequence[AbortedTransaction] | None, *, from_offset: int
) -> FetchedRecords:
    """Return the records of `data` from `from_offset` on, without records of `aborted` transactions, and all markers.

    `data` is the `records` of a Fetch response: complete batches, the first of which may begin before `from_offset`,
    and perhaps a part of one more. `aborted` is the response's list, which exists only for read_committed. Raises
    DataError for a batch whose checksum is wrong.
    """
    filtering = _AbortedProducers(aborted)
    records: list[ConsumedRecord] = []
    markers: list[TransactionMarker] = []
    next_offset = None
    for batch in MemoryRecords(data or b""):
        next_offset = batch.next_offset
        if isinstance(batch, DefaultRecordBatch):
            _check(batch, topic, partition)
            marker = transaction_marker(topic, partition, batch)
            if marker is not None and marker.offset >= from_offset:
                markers.append(marker)
            if filtering.hides(batch, marker):
                continue
        producer, transactional = _writer(batch)
        records.extend(
            ConsumedRecord(
                topic,
                partition,
                record.offset,
                record.timestamp,
                record.key,
                record.value,
                record.headers,
                producer,
                transactional,
            )
            for record in _uncompressed(batch)
            if record.offset >= from_offset
        )
    return FetchedRecords(records, next_offset, markers)


def transaction_marker(topic: str, partition: int, batch: Any) -> TransactionMarker | None:
    """Return the marker that a batch is, None if it has data. Reads the batch's records: they are read once."""
    if not (batch.is_control_batch and batch.is_transactional):
        return None
    committed = bool(next(iter(batch)).commit)
    return TransactionMarker(topic, partition, batch.base_offset, batch.producer_id, batch.producer_epoch, committed)


def _writer(batch: Any) -> tuple[tuple[int, int], bool]:
    """The identity of the producer, and whether the batch is part of a transaction."""
    if isinstance(batch, DefaultRecordBatch):
        return (batch.producer_id, batch.producer_epoch), batch.is_transactional
    return NO_PRODUCER, False


class _AbortedProducers:
    """Follows the log's batches in order and determines which of them belong to an aborted transaction."""

    def __init__(self, aborted: Sequence[AbortedTransaction] | None) -> None:
        self._coming = deque(sorted(aborted or (), key=lambda transaction: transaction.first_offset))
        self._producers: set[int] = set()

    def hides(self, batch: Any, marker: TransactionMarker | None) -> bool:
        """Whether the batch is invisible to a consumer: a `marker`, another control batch, or aborted."""
        while self._coming and self._coming[0].first_offset <= batch.last_offset:
            self._producers.add(self._coming.popleft().producer_id)
        if batch.is_control_batch:
            if marker is not None and not marker.committed:
                self._producers.discard(marker.producer_id)
            return True
        return bool(batch.is_transactional and batch.producer_id in self._producers)


def _check(batch: Any, topic: str, partition: int) -> None:
    if crc32c(memoryview(batch._buffer)[_ATTRIBUTES_AT:]) != batch.crc:  # noqa: SLF001 - no public way to the bytes
        raise DataError(
            f"The batch at offset {batch.base_offset} of {topic}-{partition} is corrupt: its checksum is wrong. Check "
            "the brokers' disks; a healthy replica may be had by restarting the leader of that partition"
        )


def _uncompressed(batch: Any) -> Iterator[Any]:
    """The batch's records; the batch of a codec is replaced by the same one without it."""
    codec = batch.compression_type if isinstance(batch, DefaultRecordBatch) else DefaultRecordBatch.CODEC_NONE
    if codec == DefaultRecordBatch.CODEC_NONE:
        return iter(batch)
    buffer = batch._buffer  # noqa: SLF001 - no public way to the bytes
    header = bytearray(buffer[:_HEADER_BYTES])
    header[_ATTRIBUTES_AT + 1] &= ~DefaultRecordBatch.CODEC_MASK & 0xFF
    return iter(DefaultRecordBatch(header + _decompress(codec, bytes(buffer[_HEADER_BYTES:]))))


def _decompress(codec: int, data: bytes) -> bytes:
    match codec:
        case DefaultRecordBatch.CODEC_GZIP:
            return gzip.decompress(data)
        case DefaultRecordBatch.CODEC_SNAPPY:
            return _decompress_snappy(data)
        case DefaultRecordBatch.CODEC_LZ4:
            return bytes(cramjam.lz4.decompress(data))
        case DefaultRecordBatch.CODEC_ZSTD:
            return bytes(cramjam.zstd.decompress(data))
    raise DataError(f"A record batch is compressed with codec {codec}, which is unknown: upgrade fencepost")


def _decompress_snappy(data: bytes) -> bytes:
    """Java's clients write xerial's framing (a header, then blocks with their lengths), others one raw block."""
    if not data.startswith(_XERIAL_MAGIC):
        return bytes(cramjam.snappy.decompress_raw(data))
    blocks = []
    position = _XERIAL_HEADER_BYTES
    while position < len(data):
        (length,) = _LENGTH.unpack_from(data, position)
        position += _LENGTH.size
        blocks.append(bytes(cramjam.snappy.decompress_raw(data[position : position + length])))
        position += length
    return b"".join(blocks)
