"""Where transactions end: the decisions, free of I/O. Times are seconds of a monotonic clock.

The task asks after each piece of a batch and after each poll; the answer is what to do with the transaction then.
The cost of a decision does not depend on how many records the transaction holds.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from enum import Enum
from typing import Final

from fencepost.api.record import SourceBatch, SourceRecord
from fencepost.config.connector_config import TransactionBoundary
from fencepost.runtime.task.transaction_context import Request, WorkerTransactionContext


class BoundaryDecision(Enum):
    """What becomes of the transaction at some point."""

    CONTINUE = "continue"
    COMMIT = "commit"
    ABORT = "abort"


_DECISIONS: Final = {
    None: BoundaryDecision.CONTINUE,
    Request.COMMIT: BoundaryDecision.COMMIT,
    Request.ABORT: BoundaryDecision.ABORT,
}

Batch = Sequence[SourceRecord] | SourceBatch


class TransactionBoundaryManager(ABC):
    """Decides where a task's transactions end."""

    @property
    def context(self) -> WorkerTransactionContext | None:
        """What the task is given to ask for boundaries; None unless it may."""
        return None

    def pieces(self, batch: Batch) -> Iterator[tuple[Batch, BoundaryDecision]]:
        """Yield the batch in pieces, each with the decision that is due when it was written, before the next."""
        yield batch, BoundaryDecision.CONTINUE

    @abstractmethod
    def after_poll(self, now: float, *, returned: bool, transaction_open: bool) -> BoundaryDecision:
        """Decide after all that a poll returned was written; `returned` is False where that was nothing."""

    @abstractmethod
    def at_end(self) -> BoundaryDecision:
        """Decide when the task stops or is paused."""


class PollBoundary(TransactionBoundaryManager):
    """A transaction for each poll."""

    def after_poll(self, now: float, *, returned: bool, transaction_open: bool) -> BoundaryDecision:
        """Commit, also where there is nothing to commit: the task's commit() is called after every poll."""
        del now, returned, transaction_open
        return BoundaryDecision.COMMIT

    def at_end(self) -> BoundaryDecision:
        """Commit."""
        return BoundaryDecision.COMMIT


class IntervalBoundary(TransactionBoundaryManager):
    """A transaction for as long as the interval, from one commit to the next."""

    def __init__(self, interval_s: float, now: float) -> None:
        self._interval_s = interval_s
        self._last_commit = now

    def after_poll(self, now: float, *, returned: bool, transaction_open: bool) -> BoundaryDecision:
        """Commit once the interval is over.

        Connect looks at the clock only after a batch. Here an open transaction ends also when a poll returned nothing,
        so that a source that has gone quiet does not hold up the readers of its topics.
        """
        if not (returned or transaction_open) or now < self._last_commit + self._interval_s:
            return BoundaryDecision.CONTINUE
        self._last_commit = now
        return BoundaryDecision.COMMIT

    def at_end(self) -> BoundaryDecision:
        """Commit."""
        return BoundaryDecision.COMMIT


class FlushInterval(IntervalBoundary):
    """No transactions: the source offsets are flushed at an interval, whether or not there are any.

    A task's commit() is called as often, as it is without exactly-once delivery in Connect.
    """

    def after_poll(self, now: float, *, returned: bool, transaction_open: bool) -> BoundaryDecision:
        """Commit once the interval is over."""
        del returned, transaction_open
        return super().after_poll(now, returned=True, transaction_open=False)


class ConnectorBoundary(TransactionBoundaryManager):
    """Transactions end where the task asks for it."""

    def __init__(self) -> None:
        self._context = WorkerTransactionContext()

    @property
    def context(self) -> WorkerTransactionContext:
        """What the task asks with."""
        return self._context

    def pieces(self, batch: Batch) -> Iterator[tuple[Batch, BoundaryDecision]]:
        """Yield the records up to each one after which something was asked for, and those after the last.

        Whether something was asked for is looked at when the piece before was written, so that a request counts that
        is made in between. Raises IllegalStateError if commit and abort were asked for after the same record.
        """
        if isinstance(batch, SourceBatch):
            yield batch, BoundaryDecision.CONTINUE
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
        """Do what was asked for after the batch. Raises IllegalStateError if that was both."""
        del now, returned, transaction_open
        return self._batch_decision()

    def at_end(self) -> BoundaryDecision:
        """Do what was asked for after the batch; otherwise the open transaction is not to be committed."""
        return self._batch_decision()

    def _batch_decision(self) -> BoundaryDecision:
        return _DECISIONS[self._context.take_batch_request()]


def boundary_manager(boundary: TransactionBoundary, interval_s: float, now: float) -> TransactionBoundaryManager:
    """Return the manager for a connector's `transaction.boundary`."""
    match boundary:
        case TransactionBoundary.POLL:
            return PollBoundary()
        case TransactionBoundary.INTERVAL:
            return IntervalBoundary(interval_s, now)
        case TransactionBoundary.CONNECTOR:
            return ConnectorBoundary()
