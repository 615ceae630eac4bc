"""The queue of one partition's records. It decides when a batch may be sent, and processes answers. No I/O.

A batch is QUEUED until it is sent, and IN_FLIGHT until it is answered. Then it is ACKED, or QUEUED again with the same
sequence number, by which the broker recognizes it. Two rules keep a partition's records in order and its transaction
complete:

- A transaction's first batch in a partition is sent alone. Under transaction version 2, it adds the partition to the
  transaction, which may need retries. Under both versions, a broker without state for a producer accepts any sequence
  number: if the first batch were lost, a batch after it would be accepted in its place. The writer keeps the first
  batch small, because all others wait for its answer.
- After a failure, nothing is sent until all batches in flight are answered. Then all unacknowledged batches are sent
  again, in order.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Final

from fencepost.kafka.deadline import Backoff, Deadline
from fencepost.kafka.errors import DeliveryTimeoutError
from fencepost.kafka.producer.transaction import TopicPartition
from fencepost.kafka.records.columns import Records
from fencepost.kafka.transport.connection import Buffer

_SEQUENCES: Final = 2**31
"""Sequence numbers are non-negative int32 values. After the highest number comes 0 (KIP-98)."""

_FIRST_JOINING_PAUSE_MS: Final = 2
"""The pause before the first batch of a partition in a transaction is sent again.

The first batch adds the partition to the transaction. The broker refuses this batch for a few milliseconds while other
partitions are added, or while the last transaction's markers are written.
"""


def sequence_after(sequence: int, count: int) -> int:
    """Return the sequence number `count` records after `sequence`."""
    return (sequence + count) % _SEQUENCES


@dataclass(frozen=True, slots=True)
class Ack:
    """An acknowledged batch. `size` is its encoded size in bytes.

    `base_offset` is the first record's offset; -1 if the broker did not return it. `timestamp` is in milliseconds.
    """

    topic: str
    partition: int
    base_sequence: int
    count: int
    base_offset: int
    size: int
    timestamp: int


class BatchState(Enum):
    """The state of a batch."""

    QUEUED = auto()
    IN_FLIGHT = auto()
    ACKED = auto()


@dataclass(slots=True, eq=False)
class Batch:
    """One record batch. `maybe_written` means that it was sent, but no answer arrived."""

    topic_partition: TopicPartition
    base_sequence: int
    records: Records
    parts: Sequence[Buffer]
    size: int
    timestamp: int
    state: BatchState = BatchState.QUEUED
    maybe_written: bool = False
    base_offset: int = -1

    @property
    def ack(self) -> Ack:
        """The acknowledgement that the writer returns."""
        topic, partition = self.topic_partition
        return Ack(topic, partition, self.base_sequence, len(self.records), self.base_offset, self.size, self.timestamp)


@dataclass(slots=True, eq=False)
class PartitionQueue:
    """The unacknowledged batches of one partition, and the buffered records for the next one.

    `added`: AddPartitionsToTxn was answered (transaction version 1). `joined`: the leader has a batch of this
    transaction.
    """

    topic_partition: TopicPartition
    next_sequence: int
    joined: bool
    backoff: Backoff
    added: bool = False
    gathered: list[Records] = field(default_factory=list)
    gathered_bytes: int = 0
    batches: deque[Batch] = field(default_factory=deque)
    last_problem: str = "none"
    failing_since: float | None = None
    """When the oldest batch failed first, on the monotonic clock; None if it has not failed."""
    _settling: bool = False
    _retry_at: float | None = None
    _deadline: Deadline | None = None

    @classmethod
    def starting(cls, topic_partition: TopicPartition, sequence: int | None, most_ms: float) -> PartitionQueue:
        """Return the queue of a partition.

        `sequence` is the partition's next sequence number, None if the partition is not in the transaction yet.
        """
        backoff = Backoff(_FIRST_JOINING_PAUSE_MS, most_ms)
        known = sequence is not None
        return cls(topic_partition, sequence or 0, joined=known, backoff=backoff, added=known)

    # -- buffering ----------------------------------------------------------------------------------------------

    def gather(self, records: Records, size: int) -> None:
        """Buffer records for the next batch."""
        self.gathered.append(records)
        self.gathered_bytes += size

    def take_gathered(self) -> Records:
        """Empty the buffer, and return its records. There must be at least one."""
        records = Records.concat(self.gathered)
        self.gathered, self.gathered_bytes = [], 0
        return records

    def append(self, batch: Batch) -> None:
        """Queue a batch with the next sequence number."""
        self.batches.append(batch)
        self.next_sequence = sequence_after(self.next_sequence, len(batch.records))

    @property
    def is_new(self) -> bool:
        """Whether the next batch is the partition's first one in the transaction."""
        return not self.joined and not self.batches

    # -- sending ------------------------------------------------------------------------------------------------

    @property
    def has_queued(self) -> bool:
        """Whether a batch waits to be sent."""
        return any(batch.state is BatchState.QUEUED for batch in self.batches)

    @property
    def in_doubt(self) -> bool:
        """Whether a batch was sent, but is not answered yet."""
        return any(batch.maybe_written or batch.state is BatchState.IN_FLIGHT for batch in self.batches)

    def sendable(self, now: float) -> Batch | None:
        """Return the batch that may be sent at `now` (monotonic seconds), if there is one."""
        in_flight = any(batch.state is BatchState.IN_FLIGHT for batch in self.batches)
        if (self._retry_at is not None and now < self._retry_at) or (in_flight and (self._settling or not self.joined)):
            return None
        return next((batch for batch in self.batches if batch.state is BatchState.QUEUED), None)

    @property
    def retry_at(self) -> float | None:
        """The moment, on the monotonic clock, before which nothing is sent; None if there was no failure."""
        return self._retry_at

    def sent(self, batch: Batch, delivery_timeout_ms: int) -> None:
        """Mark a batch as in flight."""
        batch.state = BatchState.IN_FLIGHT
        if self._deadline is None:
            self._deadline = Deadline.after(delivery_timeout_ms)

    # -- answers ------------------------------------------------------------------------------------------------

    def acknowledge(self, batch: Batch) -> list[Ack]:
        """Mark a batch as acknowledged.

        Return the acknowledgements of the oldest batches, up to the first unacknowledged one.
        """
        batch.state = BatchState.ACKED
        self.joined = True
        acks = []
        while self.batches and self.batches[0].state is BatchState.ACKED:
            acks.append(self.batches.popleft().ack)
        if acks:
            self._deadline = self.failing_since = None
            self.backoff.reset()
        self._settle()
        return acks

    def expects_gap(self, batch: Batch) -> bool:
        """Whether the broker may legitimately lack records before this batch, because an earlier batch failed."""
        return self._settling or batch is not self.batches[0]

    def fail(self, batch: Batch, problem: str, *, maybe_written: bool = False) -> None:
        """Queue a batch again after a retriable failure."""
        batch.state = BatchState.QUEUED
        batch.maybe_written |= maybe_written
        self._begin_settling(problem)

    def replace(self, batch: Batch, halves: Sequence[Batch]) -> None:
        """Queue two batches instead of one that the broker refused as too large."""
        index = self.batches.index(batch)
        self.batches.remove(batch)
        for offset, half in enumerate(halves):
            self.batches.insert(index + offset, half)
        self._begin_settling("MESSAGE_TOO_LARGE", pause=False)

    def check_time(self, delivery_timeout_ms: int) -> None:
        """Raise DeliveryTimeoutError if the oldest batch was not acknowledged within `delivery.timeout.ms`."""
        if self._deadline is None:
            self._deadline = Deadline.after(delivery_timeout_ms)
        if self._deadline.passed:
            topic, partition = self.topic_partition
            raise DeliveryTimeoutError(topic, partition, waited_ms=delivery_timeout_ms, last_problem=self.last_problem)

    def delivery_deadline(self, delivery_timeout_ms: int) -> Deadline:
        """The deadline for the acknowledgement of the oldest batch."""
        return self._deadline or Deadline.after(delivery_timeout_ms)

    def _begin_settling(self, problem: str, *, pause: bool = True) -> None:
        if self.failing_since is None:
            self.failing_since = time.monotonic()
        if not self._settling:
            self.last_problem = problem
            if pause:
                self._retry_at = time.monotonic() + self.backoff.next_s()
        self._settling = True
        self._settle()

    def _settle(self) -> None:
        if not any(batch.state is BatchState.IN_FLIGHT for batch in self.batches):
            self._settling = False
