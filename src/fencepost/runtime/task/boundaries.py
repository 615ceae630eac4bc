"""Decides where transactions end, without I/O. Times are seconds of a monotonic clock.

The task requests a decision after each piece of a batch, and after each poll. The cost of a decision does not depend on
the number of records in the transaction.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import replace
from enum import Enum
from typing import Any, Final

from fencepost.api.record import SourceBatch, SourceOffset, SourceRecord
from fencepost.config.connector_config import TransactionBoundary
from fencepost.runtime.task.transaction_context import Request, WorkerTransactionContext


class BoundaryDecision(Enum):
    """The decision about the transaction at a certain point."""

    CONTINUE = "continue"
    COMMIT = "commit"
    ABORT = "abort"


_DECISIONS: Final = {
    None: BoundaryDecision.CONTINUE,
    Request.COMMIT: BoundaryDecision.COMMIT,
    Request.ABORT: BoundaryDecision.ABORT,
}

_SNAPSHOTS: Final = (True, "true", "INITIAL", "BLOCKING")
"""The values of `snapshot` in offsets of a snapshot.

Debezium's incremental snapshots, which also read changes, have another value.
"""
_SNAPSHOT_ENDS: Final = ("last_snapshot_record", "snapshot_completed")

Batch = Sequence[SourceRecord] | SourceBatch


class TransactionBoundaryManager(ABC):
    """Decides where a task's transactions end."""

    @property
    def context(self) -> WorkerTransactionContext | None:
        """The transaction context of the task; None unless the task defines boundaries."""
        return None

    @property
    def holds_offsets(self) -> bool:
        """Whether no offset may be committed yet: a snapshot, or a transaction of the source, is in progress."""
        return False

    def pieces(self, batch: Batch) -> Iterator[tuple[Batch, BoundaryDecision]]:
        """Yield the batch in pieces, each with the decision that follows when the piece is written."""
        yield batch, BoundaryDecision.CONTINUE

    @abstractmethod
    def after_poll(self, now: float, *, returned: bool, transaction_open: bool) -> BoundaryDecision:
        """Decide after all records of a poll were written. `returned` is False if the poll returned none."""

    def before_wait(self, now: float) -> BoundaryDecision:
        """Decide about an open transaction of earlier batches, before a wait for converters or after a failed poll."""
        del now
        return BoundaryDecision.CONTINUE

    @abstractmethod
    def at_end(self) -> BoundaryDecision:
        """Decide when the task stops or is paused."""


class PollBoundary(TransactionBoundaryManager):
    """Each poll is one transaction."""

    def pieces(self, batch: Batch) -> Iterator[tuple[Batch, BoundaryDecision]]:
        """Yield the batch, with the decision to commit."""
        yield batch, BoundaryDecision.COMMIT

    def after_poll(self, now: float, *, returned: bool, transaction_open: bool) -> BoundaryDecision:
        """Commit even after an empty poll: the task's commit() is called after every poll."""
        del now, transaction_open
        return BoundaryDecision.CONTINUE if returned else BoundaryDecision.COMMIT

    def at_end(self) -> BoundaryDecision:
        """Commit."""
        return BoundaryDecision.COMMIT


class SnapshotBoundary(TransactionBoundaryManager):
    """A whole snapshot is one transaction. After the snapshot, each poll is one transaction.

    As in Debezium, source offsets have the field `snapshot` while the snapshot is in progress. At the end
    `last_snapshot_record` (PostgreSQL) or `snapshot_completed` (SQL Server, Oracle, Db2) is true, or `snapshot` is left
    out (MySQL, MariaDB). If a task is killed, it reads its snapshot again; nothing of the first attempt is visible.
    """

    def __init__(self) -> None:
        self._in_snapshot = False

    @property
    def holds_offsets(self) -> bool:
        """Whether a snapshot is in progress. An incomplete snapshot is read again from its beginning."""
        return self._in_snapshot

    def pieces(self, batch: Batch) -> Iterator[tuple[Batch, BoundaryDecision]]:
        """Yield the batch as one piece."""
        offsets = batch.offsets if isinstance(batch, SourceBatch) else [(None, batch[-1].source_offset)]
        self._in_snapshot = any(offset is not None and _is_of_snapshot(offset) for _, offset in offsets)
        yield batch, BoundaryDecision.CONTINUE

    def after_poll(self, now: float, *, returned: bool, transaction_open: bool) -> BoundaryDecision:
        """Commit, unless a snapshot is in progress."""
        del now, returned, transaction_open
        return self.at_end()

    def at_end(self) -> BoundaryDecision:
        """Commit, unless a snapshot is in progress: then the task aborts its transaction."""
        return BoundaryDecision.CONTINUE if self._in_snapshot else BoundaryDecision.COMMIT


def _is_of_snapshot(offset: SourceOffset) -> bool:
    return offset.get("snapshot") in _SNAPSHOTS and not any(offset.get(name) is True for name in _SNAPSHOT_ENDS)


class IntervalBoundary(TransactionBoundaryManager):
    """A transaction ends when the interval has passed since the previous commit."""

    def __init__(self, interval_s: float, now: float) -> None:
        self._interval_s = interval_s
        self._last_commit = now

    def after_poll(self, now: float, *, returned: bool, transaction_open: bool) -> BoundaryDecision:
        """Commit when the interval has passed.

        Connect checks the interval only after a batch. Here an open transaction also ends after an empty poll, so that
        an idle source does not block the readers of its topics.
        """
        if not (returned or transaction_open) or now < self._last_commit + self._interval_s:
            return BoundaryDecision.CONTINUE
        self._last_commit = now
        return BoundaryDecision.COMMIT

    def before_wait(self, now: float) -> BoundaryDecision:
        """Commit, because the open transaction contains only the records of complete polls."""
        self._last_commit = now
        return BoundaryDecision.COMMIT

    def at_end(self) -> BoundaryDecision:
        """Commit."""
        return BoundaryDecision.COMMIT


class FlushInterval(IntervalBoundary):
    """Flushes source offsets at an interval, without transactions.

    A task's commit() is called at the same interval, even if the task returned no records, as in Connect without
    exactly-once delivery.
    """

    def after_poll(self, now: float, *, returned: bool, transaction_open: bool) -> BoundaryDecision:
        """Commit when the interval has passed."""
        del returned, transaction_open
        return super().after_poll(now, returned=True, transaction_open=False)


class ConnectorBoundary(TransactionBoundaryManager):
    """Transactions end where the task requests that."""

    def __init__(self) -> None:
        self._context = WorkerTransactionContext()

    @property
    def context(self) -> WorkerTransactionContext:
        """The task's transaction context."""
        return self._context

    def pieces(self, batch: Batch) -> Iterator[tuple[Batch, BoundaryDecision]]:
        """Yield the pieces of a batch.

        A list of records is split after each record with a request, a batch of columns at each boundary.

        The requests for a record are read only when the previous piece is written, so that requests made until then
        count. Raises IllegalStateError if both a commit and an abort were requested after the same record.
        """
        if isinstance(batch, SourceBatch):
            yield from _column_pieces(batch)
            return
        start = 0
        while start < len(batch):
            last = self._next_requested(batch, start)
            if last is None:
                yield batch[start:], BoundaryDecision.CONTINUE
                return
            decision = _DECISIONS[self._context.take_record_request(batch[last])]
            yield batch[start : last + 1], decision
            start = last + 1

    def _next_requested(self, batch: Sequence[SourceRecord], start: int) -> int | None:
        if not self._context.has_record_requests():
            return None
        requested = (i for i in range(start, len(batch)) if self._context.is_requested_for(batch[i]))
        return next(requested, None)

    def after_poll(self, now: float, *, returned: bool, transaction_open: bool) -> BoundaryDecision:
        """Return the request for the batch. Raises IllegalStateError if both a commit and an abort were requested."""
        del now, returned, transaction_open
        return self._batch_decision()

    def at_end(self) -> BoundaryDecision:
        """Return the request for the batch. If there is none, the open transaction must not be committed."""
        return self._batch_decision()

    def _batch_decision(self) -> BoundaryDecision:
        return _DECISIONS[self._context.take_batch_request()]


def _column_pieces(batch: SourceBatch) -> Iterator[tuple[Batch, BoundaryDecision]]:
    """Yield the rows up to each boundary within a batch of columns, and then the rows after the last one.

    Any other batch is yielded as it is.
    """
    rest, before = batch, 0
    for end, offsets in batch.boundaries:
        rows: Any = rest.columns
        piece = replace(rest, columns=rows[: end - before], offsets=offsets, boundaries=())
        yield piece, BoundaryDecision.COMMIT
        rest, before = replace(rest, columns=rows[end - before :], boundaries=()), end
    yield rest, BoundaryDecision.CONTINUE


class SourceBoundary(ConnectorBoundary):
    """Transactions end where transactions of the source end. The task requests a commit with each batch that ends one.

    The task returns the records of a source's transaction in one batch, or in several batches of which only the last
    requests a commit.
    """

    def __init__(self) -> None:
        super().__init__()
        self._within = False

    @property
    def holds_offsets(self) -> bool:
        """Whether a transaction of the source is in progress: no offset inside it is ever committed."""
        return self._within

    def after_poll(self, now: float, *, returned: bool, transaction_open: bool) -> BoundaryDecision:
        """Return the request for the batch."""
        decision = super().after_poll(now, returned=returned, transaction_open=transaction_open)
        if returned:
            self._within = decision is BoundaryDecision.CONTINUE
        return decision


def boundary_manager(boundary: TransactionBoundary, interval_s: float, now: float) -> TransactionBoundaryManager:
    """Return the manager for a connector's `transaction.boundary`."""
    match boundary:
        case TransactionBoundary.POLL:
            return PollBoundary()
        case TransactionBoundary.INTERVAL:
            return IntervalBoundary(interval_s, now)
        case TransactionBoundary.SNAPSHOT:
            return SnapshotBoundary()
        case TransactionBoundary.CONNECTOR:
            return ConnectorBoundary()
        case TransactionBoundary.SOURCE:
            return SourceBoundary()
