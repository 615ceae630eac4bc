"""Decodes the fetched part of a partition's log: its batches, and the records that are visible at read_committed.

Record batches: https://kafka.apache.org/documentation/#recordbatch. kafka-python parses records. Decompression and
checksums are this module's own, because in kafka-python each codec, and a fast checksum, needs another package.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple, Protocol

from crc32c import crc32c
from kafka.errors import CorruptRecordError
from kafka.record.default_records import DefaultRecordBatch
from kafka.record.memory_records import MemoryRecords
from kafka.record.util import decode_varint

from fencepost.api.errors import DataError
from fencepost.kafka.consumer.decompression import decompressed

_HEADER_BYTES: Final = DefaultRecordBatch.HEADER_STRUCT.size
_ATTRIBUTES_AT: Final = DefaultRecordBatch.ATTRIBUTES_OFFSET

RECORD_BYTES: Final = 200
"""The approximate number of bytes of memory that a decoded record takes in addition to its data."""

HEADER_BYTES: Final = 150
"""The approximate number of bytes of memory that a decoded header takes in addition to its data.

The encoded header may have only two bytes.
"""

_UNREADABLE: Final = (DataError, CorruptRecordError, UnicodeDecodeError, IndexError, struct.error)
"""The errors that decoding raises for malformed records, which no Kafka client would write."""

NO_PRODUCER: Final = (-1, -1)
"""The producer id and epoch of a record that was written without a producer identity."""


class ConsumedRecord(NamedTuple):
    """A record in a topic.

    `timestamp` is in milliseconds. `headers` are (name, value) pairs. `producer` is the writer's producer id and epoch.
    `transactional` says whether the record was written in a transaction.
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
    """An aborted transaction in a Fetch response: the producer's records from `first_offset` to its next marker."""

    producer_id: int
    first_offset: int


class SkippedBatch(NamedTuple):
    """The offsets of a batch that was not decoded.

    `problem` says why it cannot be decoded. It is empty if the batch's records take more memory than one fetch may
    take.
    """

    partition: int
    first_offset: int
    last_offset: int
    problem: str = ""


class FetchedRecords(NamedTuple):
    """The result of one fetch. `next_offset` is the offset at which to continue; None if no batch was read."""

    records: list[ConsumedRecord]
    next_offset: int | None
    markers: Sequence[TransactionMarker] = ()
    skipped: Sequence[SkippedBatch] = ()


class DecodingBudget:
    """The memory that the decoded records of one fetch may take, in bytes, for all its partitions together."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._left = most_bytes

    def content(self, batch: Any) -> tuple[Any, int] | None:
        """Return a batch without compression, and the memory of its records; None if these exceed the whole budget.

        Raises the errors that reading the batch's records would raise.
        """
        whole = _uncompressed(batch, self._most_bytes)
        if whole is None:
            return None
        needed = _memory(whole)
        return None if needed > self._most_bytes else (whole, needed)

    def spend(self, needed: int) -> bool:
        """Subtract the bytes of a batch from the remaining budget.

        Returns False if the batch does not fit: the next fetch reads it.
        """
        fits = needed <= self._left
        self._left = self._left - needed if fits else 0
        return fits


def read_fetched(
    topic: str,
    partition: int,
    data: bytes | None,
    aborted: Sequence[AbortedTransaction] | None,
    *,
    from_offset: int,
    budget: DecodingBudget | None = None,
) -> FetchedRecords:
    """Return the records of `data` from `from_offset` on, without records of `aborted` transactions, and all markers.

    `data` is the `records` field of a Fetch response: complete batches, possibly followed by a part of another batch.
    The first batch may begin before `from_offset`. `aborted` is the response's list, which exists only for
    read_committed. With a `budget`, the read ends before a batch that exceeds the remaining budget. A batch that
    exceeds the whole budget is skipped, and so is a batch whose records cannot be read. Raises DataError for a batch
    whose checksum is wrong, and without a budget also for a batch whose records cannot be read.
    """
    filtering = _AbortedProducers(aborted)
    records: list[ConsumedRecord] = []
    markers: list[TransactionMarker] = []
    skipped: list[SkippedBatch] = []
    next_offset = None
    for batch in MemoryRecords(data or b""):
        if isinstance(batch, DefaultRecordBatch):
            _check(batch, topic, partition)
            marker = transaction_marker(topic, partition, batch)
            if marker is not None and marker.offset >= from_offset:
                markers.append(marker)
            if filtering.hides(batch, marker):
                next_offset = batch.next_offset
                continue
        place = SkippedBatch(partition, max(from_offset, batch.base_offset), batch.next_offset - 1)
        try:
            found = _decoded(topic, batch, place, budget)
        except _UNREADABLE as error:
            if budget is None:
                raise _unreadable(topic, place, error) from error
            skipped.append(place._replace(problem=str(error)))
        else:
            if found is None:
                break
            if isinstance(found, SkippedBatch):
                skipped.append(found)
            else:
                records += found
        next_offset = batch.next_offset
    return FetchedRecords(records, next_offset, markers, skipped)


def _decoded(
    topic: str, batch: Any, place: SkippedBatch, budget: DecodingBudget | None
) -> list[ConsumedRecord] | SkippedBatch | None:
    """Return the records of a batch; `place` if the records exceed the whole budget.

    The result is None if the records exceed only the remaining budget.
    """
    if budget is None:
        return list(_records(topic, place.partition, _uncompressed(batch), place.first_offset))
    content = budget.content(batch)
    if content is None:
        return place
    whole, needed = content
    return list(_records(topic, place.partition, whole, place.first_offset)) if budget.spend(needed) else None


def _unreadable(topic: str, place: SkippedBatch, error: Exception) -> DataError:
    return DataError(
        f"The batch of the offsets {place.first_offset} to {place.last_offset} of {topic}-{place.partition} cannot be read: "
        f"{error}. Find its producer, and read on behind it, or delete the records up to there (kafka-delete-records)"
    )


def _records(topic: str, partition: int, batch: Any, from_offset: int) -> Iterator[ConsumedRecord]:
    producer, transactional = _writer(batch)
    for record in batch:
        if record.offset >= from_offset:
            yield ConsumedRecord(
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


def transaction_marker(topic: str, partition: int, batch: Any) -> TransactionMarker | None:
    """Return the transaction marker that a batch contains; None if the batch has data or is empty.

    The search reads the batch's records. kafka-python allows that only once.
    """
    # A control batch may be empty: compaction removes an old marker, but keeps the header of a producer's last batch.
    record = next(iter(batch), None) if batch.is_control_batch and batch.is_transactional else None
    if record is None:
        return None
    return TransactionMarker(
        topic, partition, batch.base_offset, batch.producer_id, batch.producer_epoch, bool(record.commit)
    )


def _writer(batch: Any) -> tuple[tuple[int, int], bool]:
    """Return the identity of the producer, and whether the batch is part of a transaction."""
    if isinstance(batch, DefaultRecordBatch):
        return (batch.producer_id, batch.producer_epoch), batch.is_transactional
    return NO_PRODUCER, False


class _AbortedProducers:
    """Follows the batches of the log in order, and determines which of them belong to an aborted transaction."""

    def __init__(self, aborted: Sequence[AbortedTransaction] | None) -> None:
        self._coming = deque(sorted(aborted or (), key=lambda transaction: transaction.first_offset))
        self._producers: set[int] = set()

    def hides(self, batch: Any, marker: TransactionMarker | None) -> bool:
        """Whether the batch is invisible to a consumer: it is a `marker`, another control batch, or aborted."""
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


def _uncompressed(batch: Any, most_bytes: int | None = None) -> Any | None:
    """Return the same batch without compression; None if its records have more than `most_bytes`."""
    if not isinstance(batch, DefaultRecordBatch):
        # In the formats before Kafka 0.11, kafka-python itself decompresses a batch, without a limit.
        return None if most_bytes is not None and batch.compression_type else batch
    if batch.compression_type == DefaultRecordBatch.CODEC_NONE:
        return batch
    buffer = batch._buffer  # noqa: SLF001 - no public way to the bytes
    content = decompressed(batch.compression_type, bytes(buffer[_HEADER_BYTES:]), most_bytes)
    if content is None:
        return None
    header = bytearray(buffer[:_HEADER_BYTES])
    header[_ATTRIBUTES_AT + 1] &= ~DefaultRecordBatch.CODEC_MASK & 0xFF
    return DefaultRecordBatch(header + content)


def _memory(batch: Any) -> int:
    """Return the approximate memory that the records of an uncompressed batch take."""
    buffer = batch._buffer  # noqa: SLF001 - no public way to the bytes
    if not isinstance(batch, DefaultRecordBatch):
        return len(buffer) + RECORD_BYTES
    count = int(batch.records_count)
    return len(buffer) + count * RECORD_BYTES + _header_count(buffer, count) * HEADER_BYTES


def _header_count(buffer: bytearray, records: int) -> int:
    """Return the number of headers that the records of an uncompressed batch announce. The headers are not read."""
    count, position = 0, _HEADER_BYTES
    for _ in range(records):
        length, start = decode_varint(buffer, position)
        _, at = decode_varint(buffer, start + 1)
        _, at = decode_varint(buffer, at)
        for _ in ("key", "value"):
            size, at = decode_varint(buffer, at)
            at += max(size, 0)
        count += max(decode_varint(buffer, at)[0], 0)
        position = start + length
    return count
