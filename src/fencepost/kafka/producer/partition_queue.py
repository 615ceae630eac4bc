"""The queue of one partition's records: decides which batch may be sent when, and processes answers. No I/O.

A batch is QUEUED until it is sent, IN_FLIGHT until it is answered, then ACKED or QUEUED again with the same sequence
number, which the broker uses to recognize it. Two rules keep a partition's records in order and its transaction whole:

- A transaction's first batch of a partition is sent alone. Under transaction version 2 it adds the partition to the
  transaction, which may need retries. Under both, a broker without state for a producer accepts any sequence number: a
  batch that overtook a lost first one would be accepted in its place. The writer keeps it small.
- After a failure nothing is sent until everything in flight is answered; then all unacknowledged batches are sent again,
  in order.
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
"""Sequence numbers are non-negative int32 values; after the last comes 0 (KIP-98)."""

_FIRST_JOINING_PAUSE_MS: Final = 2
"""Joining waits for other partitions that join, or for the last transaction's markers: a few milliseconds."""


def sequence_after(sequence: int, count: int) -> int:
    """Return the sequence number `count` records after another."""
    return (sequence + count) % _SEQUENCES


@dataclass(frozen=True, slots=True)
class Ack:
    """An acknowledged batch. `size` is its encoded size in bytes.

    `base_offset` is the first record's offset, -1 if the broker did not return it; `timestamp` is in milliseconds.
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
    """One record batch. `maybe_written`: it was sent and the answer did not arrive."""

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
        """The acknowledgement for the writer's user."""
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
    """When the oldest batch failed first, on the monotonic clock; None if it did not."""
    _settling: bool = False
    _retry_at: float | None = None
    _deadline: Deadline | None = None

    @classmethod
    def starting(cls, topic_partition: TopicPartition, sequence: int | None, most_ms: float) -> PartitionQueue:
        """Return the queue of a partition with its next `sequence`, None if it is not in the transaction yet."""
        backoff = Backoff(_FIRST_JOINING_PAUSE_MS, most_ms)
        known = sequence is not None
        return cls(topic_partition, sequence or 0, joined=known, backoff=backoff, added=known)

    # -- buffering ----------------------------------------------------------------------------------------------

    def gather(self, records: Records, size: int) -> None:
        """Buffer records for the next batch."""
        self.gathered.append(records)
        self.gathered_bytes += size

    def take_gathered(self) -> Records:
        """Return all buffered records, at least one."""
        records = Records.concat(self.gathered)
        self.gathered, self.gathered_bytes = [], 0
        return records

    def append(self, batch: Batch) -> None:
        """Queue a batch with the next sequence number."""
        self.batches.append(batch)
        self.next_sequence = sequence_after(self.next_sequence, len(batch.records))

    @property
    def is_new(self) -> bool:
        """Whether the next batch is the transaction's first of this partition."""
        return not self.joined and not self.batches

    # -- sending ------------------------------------------------------------------------------------------------

    @property
    def has_queued(self) -> bool:
        """Whether a batch waits to be sent."""
        return any(batch.state is BatchState.QUEUED for batch in self.batches)

    @property
    def in_doubt(self) -> bool:
        """Whether a sent batch is not answered yet."""
        return any(batch.maybe_written or batch.state is BatchState.IN_FLIGHT for batch in self.batches)

    def sendable(self, now: float) -> Batch | None:
        """Return the batch that may be sent at `now` (monotonic seconds), if there is one."""
        in_flight = any(batch.state is BatchState.IN_FLIGHT for batch in self.batches)
        if (self._retry_at is not None and now < self._retry_at) or (in_flight and (self._settling or not self.joined)):
            return None
        return next((batch for batch in self.batches if batch.state is BatchState.QUEUED), None)

    @property
    def retry_at(self) -> float | None:
        """The moment on the monotonic clock before which nothing is sent, None if there was no failure."""
        return self._retry_at

    def sent(self, batch: Batch, delivery_timeout_ms: int) -> None:
        """Record that a batch was sent."""
        batch.state = BatchState.IN_FLIGHT
        if self._deadline is None:
            self._deadline = Deadline.after(delivery_timeout_ms)

    # -- answers ------------------------------------------------------------------------------------------------

    def acknowledge(self, batch: Batch) -> list[Ack]:
        """Record that the brokers have a batch; return the acknowledgements that are now complete, in order."""
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
        """Whether the broker may legitimately lack records before this batch, because an earlier one failed."""
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
