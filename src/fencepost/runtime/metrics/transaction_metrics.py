"""The metrics of a task's transactions: the open one, the last commit, and the last ended ones."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final

from fencepost.api.record import SourceOffset, SourcePartition
from fencepost.runtime.metrics.histogram import Histogram

_MOST_ENDED: Final = 200
"""The maximum number of ended transactions of a task that are kept for display."""

_MOST_BATCHES: Final = 1_000
"""The maximum number of batches of a transaction whose latency is measured.

A transaction may have any number of batches.
"""

CommittedOffsets = Sequence[tuple[SourcePartition | None, SourceOffset | None]]


@dataclass(frozen=True, slots=True)
class OngoingTransaction:
    """An open transaction. `since_ms` is in milliseconds since the epoch. `bytes` is the size as sent, compressed."""

    since_ms: int
    records: int = 0
    bytes: int = 0


class TransactionEnd(StrEnum):
    """How a transaction ended. FENCED means that another producer had taken over the transactional id."""

    COMMITTED = "COMMITTED"
    ABORTED = "ABORTED"
    FENCED = "FENCED"


@dataclass(frozen=True, slots=True)
class EndedTransaction:
    """A transaction that has ended. Times are in milliseconds since the epoch."""

    since_ms: int
    until_ms: int
    records: int
    end: TransactionEnd


@dataclass(frozen=True, slots=True)
class TransferCounts:
    """Counts of records. `records` and `bytes` (as sent, compressed) are committed; `open` records are uncommitted.

    `transactions` and `aborted` count transactions. `skipped` counts the records that errors.tolerance skipped.
    """

    records: int = 0
    bytes: int = 0
    open: int = 0
    transactions: int = 0
    aborted: int = 0
    skipped: int = 0

    def __add__(self, other: TransferCounts) -> TransferCounts:
        return TransferCounts(
            records=self.records + other.records,
            bytes=self.bytes + other.bytes,
            open=self.open + other.open,
            transactions=self.transactions + other.transactions,
            aborted=self.aborted + other.aborted,
            skipped=self.skipped + other.skipped,
        )

    def settled(self) -> TransferCounts:
        """Return the counts of a task that has ended: nothing is open."""
        return replace(self, open=0)


@dataclass(frozen=True, slots=True)
class Transferred:
    """The counts of a task, and its last and its greatest lag, in the source's unit; NaN if unknown."""

    counts: TransferCounts
    lag: float
    greatest_lag: float


@dataclass(frozen=True, slots=True)
class Commit:
    """A successful commit: `at_ms` is in milliseconds since the epoch."""

    at_ms: int
    records: int
    offsets: CommittedOffsets = field(repr=False)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


class TransactionMetrics:
    """Tracks the transactions of one task. Not thread-safe."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """`clock` returns seconds."""
        self._clock = clock
        self.commit_latency, self.batch_latency = Histogram(), Histogram()
        self.open: OngoingTransaction | None = None
        self.last_commit: Commit | None = None
        self.ended: deque[EndedTransaction] = deque(maxlen=_MOST_ENDED)
        self._opened: float | None = None
        self._polled: list[float] = []

    @property
    def age(self) -> float:
        """Return how long the open transaction has been open, in seconds; 0.0 if there is none."""
        return 0.0 if self.open is None or self._opened is None else self._clock() - self._opened

    def polled(self) -> None:
        """Record that poll returned a batch."""
        if len(self._polled) < _MOST_BATCHES:
            self._polled.append(self._clock())

    def began(self) -> None:
        """Record that a transaction was opened."""
        self._opened = self._clock()
        self.open = OngoingTransaction(_now_ms())

    def wrote(self, records: int, size: int) -> None:
        """Record a write into the open transaction; `size` is in bytes."""
        if self.open is not None:
            self.open = replace(self.open, records=self.open.records + records, bytes=self.open.bytes + size)

    def committed(self, records: int, seconds: float, offsets: CommittedOffsets) -> None:
        """Record the commit of the open transaction, and its duration."""
        commit = self.flushed(records, seconds, offsets)
        self.settled()
        self._end(TransactionEnd.COMMITTED, commit.at_ms)

    def flushed(self, records: int, seconds: float, offsets: CommittedOffsets) -> Commit:
        """Record a commit of source offsets, in a transaction or outside of one, and return it."""
        self.commit_latency.record(seconds)
        self.last_commit = commit = Commit(_now_ms(), records, offsets)
        return commit

    def settled(self) -> None:
        """Record that all polled records are durably in Kafka."""
        now = self._clock()
        for polled in self._polled:
            self.batch_latency.record(now - polled)
        self._polled.clear()

    def close(self, end: TransactionEnd) -> None:
        """Record that the open transaction has ended without a commit."""
        self._end(end, _now_ms())

    def _end(self, end: TransactionEnd, until_ms: int) -> None:
        if self.open is not None:
            self.ended.append(EndedTransaction(self.open.since_ms, until_ms, self.open.records, end))
        self.open = None
        self._polled.clear()
