"""The decisions where transactions end, without I/O. Times are seconds of a monotonic clock.

The task asks for a decision after each piece of a batch and after each poll. The cost of a decision does not depend on
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
    """The decision about the transaction at some point."""

    CONTINUE = "continue"
    COMMIT = "commit"
    ABORT = "abort"


_DECISIONS: Final = {
    None: BoundaryDecision.CONTINUE,
    Request.COMMIT: BoundaryDecision.COMMIT,
    Request.ABORT: BoundaryDecision.ABORT,
}

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
        """Yield the batch in pieces, each with the decision for the time after it is written, before the next."""
        yield batch, BoundaryDecision.CONTINUE

    @abstractmethod
    def after_poll(self, now: float, *, returned: bool, transaction_open: bool) -> BoundaryDecision:
        """Decide after everything that a poll returned was written; `returned` is False for an empty poll."""

    def before_wait(self, now: float) -> BoundaryDecision:
        """Decide before converters or a failed poll are waited for while a transaction with earlier batches is open."""
        del now
        return BoundaryDecision.CONTINUE

    @abstractmethod
    def at_end(self) -> BoundaryDecision:
        """Decide when the task stops or is paused."""


class PollBoundary(TransactionBoundaryManager):
    """A transaction for each poll."""

    def pieces(self, batch: Batch) -> Iterator[tuple[Batch, BoundaryDecision]]:
        """Yield the batch, to be committed."""
        yield batch, BoundaryDecision.COMMIT

    def after_poll(self, now: float, *, returned: bool, transaction_open: bool) -> BoundaryDecision:
        """Commit after an empty poll, although there may be nothing: the task's commit() is called after every poll."""
        del now, transaction_open
        return BoundaryDecision.CONTINUE if returned else BoundaryDecision.COMMIT

    def at_end(self) -> BoundaryDecision:
        """Commit."""
        return BoundaryDecision.COMMIT


class SnapshotBoundary(TransactionBoundaryManager):
    """A transaction for a whole snapshot, and then one for each poll.

    A snapshot's source offsets say so, as Debezium's do: they have `snapshot`, and `last_snapshot_record` (PostgreSQL) or
    `snapshot_completed` (other databases) is false. A killed task reads its snapshot again, of which nothing was visible.
    """

    def __init__(self) -> None:
        self._in_snapshot = False

    @property
    def holds_offsets(self) -> bool:
        """Whether a snapshot is in progress: one that is not read to its end is read again."""
        return self._in_snapshot

    def pieces(self, batch: Batch) -> Iterator[tuple[Batch, BoundaryDecision]]:
        """Yield the batch."""
        offsets = batch.offsets if isinstance(batch, SourceBatch) else [(None, batch[-1].source_offset)]
        self._in_snapshot = any(offset is not None and _is_of_snapshot(offset) for _, offset in offsets)
        yield batch, BoundaryDecision.CONTINUE

    def after_poll(self, now: float, *, returned: bool, transaction_open: bool) -> BoundaryDecision:
        """Commit, unless a snapshot is in progress."""
        del now, returned, transaction_open
        return self.at_end()

    def at_end(self) -> BoundaryDecision:
        """Commit, unless a snapshot is in progress: the task aborts its transaction then."""
        return BoundaryDecision.CONTINUE if self._in_snapshot else BoundaryDecision.COMMIT


def _is_of_snapshot(offset: SourceOffset) -> bool:
    return bool(offset.get("snapshot")) and any(offset.get(name) is False for name in _SNAPSHOT_ENDS)


class IntervalBoundary(TransactionBoundaryManager):
    """A transaction lasts as long as the interval, from one commit to the next."""

    def __init__(self, interval_s: float, now: float) -> None:
        self._interval_s = interval_s
        self._last_commit = now

    def after_poll(self, now: float, *, returned: bool, transaction_open: bool) -> BoundaryDecision:
        """Commit once the interval is over.

        Connect checks the interval only after a batch. Here an open transaction also ends after an empty poll, so that
        an idle source does not block the readers of its topics.
        """
        if not (returned or transaction_open) or now < self._last_commit + self._interval_s:
            return BoundaryDecision.CONTINUE
        self._last_commit = now
        return BoundaryDecision.COMMIT

    def before_wait(self, now: float) -> BoundaryDecision:
        """Commit: no poll is in the transaction in part."""
        self._last_commit = now
        return BoundaryDecision.COMMIT

    def at_end(self) -> BoundaryDecision:
        """Commit."""
        return BoundaryDecision.COMMIT


class FlushInterval(IntervalBoundary):
    """No transactions: source offsets are flushed at an interval, even if there are none.

    A task's commit() is called at the same interval, as in Connect without exactly-once delivery.
    """

    def after_poll(self, now: float, *, returned: bool, transaction_open: bool) -> BoundaryDecision:
        """Commit once the interval is over."""
        del returned, transaction_open
        return super().after_poll(now, returned=True, transaction_open=False)


class ConnectorBoundary(TransactionBoundaryManager):
    """Transactions end where the task requests it."""

    def __init__(self) -> None:
        self._context = WorkerTransactionContext()

    @property
    def context(self) -> WorkerTransactionContext:
        """The task's transaction context."""
        return self._context

    def pieces(self, batch: Batch) -> Iterator[tuple[Batch, BoundaryDecision]]:
        """Yield the records up to each one with a request, and those after the last; of columns the rows up to each boundary.

        Requests are checked when the previous piece was written, so that a request that is made in between counts. Raises
        IllegalStateError if both commit and abort were requested after the same record.
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
        """Return the request for the batch. Raises IllegalStateError for both commit and abort."""
        del now, returned, transaction_open
        return self._batch_decision()

    def at_end(self) -> BoundaryDecision:
        """Return the request for the batch; without one the open transaction must not be committed."""
        return self._batch_decision()

    def _batch_decision(self) -> BoundaryDecision:
        return _DECISIONS[self._context.take_batch_request()]


def _column_pieces(batch: SourceBatch) -> Iterator[tuple[Batch, BoundaryDecision]]:
    """Yield the rows up to each boundary within a batch of columns, and the rest; any other batch is one piece."""
    rest, before = batch, 0
    for end, offsets in batch.boundaries:
        rows: Any = rest.columns
        piece = replace(rest, columns=rows[: end - before], offsets=offsets, boundaries=())
        yield piece, BoundaryDecision.COMMIT
        rest, before = replace(rest, columns=rows[end - before :], boundaries=()), end
    yield rest, BoundaryDecision.CONTINUE


class SourceBoundary(ConnectorBoundary):
    """Transactions end where transactions of the source do. The task asks for a commit with each batch that ends one.

    It gives the records of a transaction of the source in one batch, or in several without a request for a commit.
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
