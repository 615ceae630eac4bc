"""The loop of a running task: it polls, writes, and ends transactions at their boundaries."""

from __future__ import annotations

import logging
import time
from typing import Final

from fencepost.api.errors import RetriableError
from fencepost.engine.errors import BatchCancelledError, PreparationWaitsError
from fencepost.kafka.precedence import HEARTBEAT
from fencepost.runtime.metrics.task_metrics import TaskMetrics
from fencepost.runtime.state import OnState, State
from fencepost.runtime.task.boundaries import Batch, BoundaryDecision, TransactionBoundaryManager
from fencepost.runtime.task.control import TaskControl
from fencepost.runtime.task.instance import TaskInstance
from fencepost.runtime.task.repeated_failures import RepeatedFailures
from fencepost.runtime.task.writes import Settled, TaskWrites
from fencepost.storage.errors import UnstorableOffsetError

_log: Final = logging.getLogger(__name__)

POLL_RETRY_S: Final = 0.5
"""The pause after `poll` raised RetriableError."""

_PREPARE_RETRY_S: Final = 1.0
"""The pause after a converter's `prepare` raised RetriableError. The converter may have retried for a while itself."""


class _ReadAgainError(Exception):
    """The task has to read all uncommitted records again.

    `PollLoop.run` lists the cases.
    """


class PollLoop:
    """Polls a started task until it should stop. For the task's own thread."""

    def __init__(
        self,
        control: TaskControl,
        instance: TaskInstance,
        writes: TaskWrites,
        boundaries: TransactionBoundaryManager,
        metrics: TaskMetrics,
        *,
        on_state: OnState,
    ) -> None:
        self._control = control
        self._instance = instance
        self._writes = writes
        self._boundaries = boundaries
        self._metrics = metrics
        self._on_state = on_state
        self._stop_at_end = False
        self._polls = RepeatedFailures("poll()", instance.id, on_state)
        self._preparations = RepeatedFailures("prepare() of a converter", instance.id, on_state)

    def stop_at_end(self, patience_s: float | None) -> None:
        """Let `run` return when the source ends.

        If calls keep failing for `patience_s` seconds, `run` fails; None means no limit.
        """
        self._stop_at_end = True
        self._polls.patience_s = self._preparations.patience_s = patience_s

    def run(self) -> bool:
        """Poll until the task should stop, or until its source ends if `stop_at_end` was called.

        Returns True if the task must start again from its committed offsets, unless it should stop:

        - The task was paused while a batch waited for its converters.
        - The task was paused, or its converters waited, while the open transaction had no boundary yet. The transaction
          was aborted, because it would have blocked the readers of its topics until it expired.
        - `poll` failed during a snapshot or a transaction of the source.

        Raises any failure, after the open transaction was aborted.
        """
        try:
            while not self._control.stopping:
                HEARTBEAT.give_way()
                self._control.raise_failure()
                if self._control.paused:
                    if not self._commit_all():
                        return True
                    self._wait_while_paused()
                elif not self._step() and self._stop_at_end and self._instance.at_end():
                    break
            self._commit_all()
        except (_ReadAgainError, BatchCancelledError):
            self._writes.discard()
            self._control.raise_failure()
            return True
        except Exception:
            self._abort_quietly()
            raise
        return False

    def _step(self) -> bool:
        """Poll once, and write the records. Return whether poll returned any."""
        batch = self._poll()
        returned = bool(batch)
        if batch:
            for piece, decision in self._boundaries.pieces(batch):
                self._instance.settled(self._write(piece, ends=decision is BoundaryDecision.COMMIT))
                self._follow(decision)
        self._follow(
            self._boundaries.after_poll(time.monotonic(), returned=returned, transaction_open=self._writes.is_open)
        )
        if not self._boundaries.holds_offsets and self._writes.has_due_offsets():
            self._follow(BoundaryDecision.COMMIT)
        return returned

    def _write(self, piece: Batch, *, ends: bool) -> Settled:
        """Write a piece of a batch. If a converter must wait for something, end the open transaction first.

        The open transaction is committed, or aborted if it has no boundary yet. After an abort, the piece is still
        written when the wait is over, to test that the converters are ready. Then the task reads all uncommitted
        records again.
        """
        aborted = False
        while True:
            try:
                settled = self._writes.write(piece, ends=ends)
            except PreparationWaitsError as error:
                aborted = self._end_before_wait() or aborted
                self._preparations.failed(error)
                self._control.raise_failure()
                self._control.wait(_PREPARE_RETRY_S)
                if self._control.stopping or self._control.paused:
                    raise _ReadAgainError from error
            else:
                self._preparations.works()
                if aborted:
                    raise _ReadAgainError
                return settled

    def _end_before_wait(self) -> bool:
        """End an open transaction, which would block the readers of its topics. Return True if it was aborted."""
        if self._writes.is_open:
            self._follow(self._boundaries.before_wait(time.monotonic()))
        if not self._writes.is_open:
            return False
        _log.info("The open transaction of task %s is aborted, and its records are read again later", self._instance.id)
        self._writes.discard()
        return True

    def _poll(self) -> Batch | None:
        started = time.monotonic()
        try:
            batch = self._instance.poll()
        except RetriableError as error:
            self._polls.failed(error)
            self._control.wait(POLL_RETRY_S)
            self._end_before_retry()
            return None
        self._polls.works()
        if batch:
            self._metrics.polled(time.monotonic() - started)
        self._metrics.lag(self._instance.lag())
        return batch

    def _end_before_retry(self) -> None:
        """After a failed poll, commit the open transaction if the boundaries decide so.

        The source may continue from its committed offsets, as Debezium does after a failure. So during a snapshot or a
        transaction of the source, whose offsets must not be committed yet, _ReadAgainError is raised.
        """
        if self._boundaries.holds_offsets:
            raise _ReadAgainError
        if self._writes.is_open:
            self._follow(self._boundaries.before_wait(time.monotonic()))

    def _follow(self, decision: BoundaryDecision, *, final: bool = False) -> None:
        if decision is BoundaryDecision.CONTINUE or self._control.cancelled.is_set():
            return
        if decision is BoundaryDecision.ABORT:
            self._writes.abort()
        self._control.raise_failure()
        settled = self._commit(final=final)
        if settled is not None:
            self._instance.settled(settled)
            self._instance.committed()

    def _commit(self, *, final: bool) -> Settled | None:
        try:
            return self._writes.commit(final=final)
        except UnstorableOffsetError as error:
            unstorable = error
        # The error is raised outside of the `except` block. Otherwise it would have the worker's own error as its
        # context.
        return self._instance.refuse_offset(unstorable)

    def _commit_all(self) -> bool:
        """Commit at a stop or a pause.

        Return False if the boundaries did not allow it, and the transaction was aborted.
        """
        self._follow(self._boundaries.at_end(), final=True)
        if not self._writes.is_open and not self._boundaries.holds_offsets:
            if self._writes.has_due_offsets(final=True):
                self._follow(BoundaryDecision.COMMIT, final=True)
            return True
        self._writes.discard()
        return False

    def _wait_while_paused(self) -> None:
        self._on_state(State.PAUSED)
        self._control.wait_until_resumed()
        self._control.raise_failure()
        if not self._control.stopping:
            self._on_state(State.RUNNING)

    def _abort_quietly(self) -> None:
        """Abort an open transaction after a failure. Errors of the abort are only logged."""
        try:
            self._writes.discard()
        except Exception as error:  # noqa: BLE001 - the failure that led here is the one to report
            _log.info("The transaction of task %s could not be aborted: %s", self._instance.id, error)
