"""A running task's loop: poll, write, and end the transaction at the boundaries."""

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
"""The pause after `prepare` of a converter raised RetriableError, which may have tried for a while itself."""


class _ReadAgainError(Exception):
    """The task has to read all uncommitted records again.

    It should stop or pause while a polled batch waits, or the transaction of earlier records was aborted meanwhile.
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
        """Let `run` end with its source, and fail once it has waited for `patience_s` seconds; None for no limit."""
        self._stop_at_end = True
        self._polls.patience_s = self._preparations.patience_s = patience_s

    def run(self) -> bool:
        """Poll until the task should stop, or its source ends if that is wanted.

        Return True if the task has to restart from its committed offsets, unless it should stop: it was paused while its
        open transaction had no boundary yet, or while a batch waited, or its converters waited in such a transaction. An
        open transaction would block the readers of its topics, and expire. Raises any failure, with the transaction
        aborted.
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
        """Poll once and write the result; return whether there was any."""
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
        """Write a part of a batch, and wait for what its converters need, without a transaction.

        An open one is committed before, or aborted if it has no boundary yet. Then the part is written to find that the
        converters have what they need, and aborted as well.
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
        """End an open transaction, which would block the readers of its topics. True if it was aborted."""
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
        """End an open transaction: a source may begin again at its committed offsets, as Debezium does after a failure."""
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
        # Outside of the handler: the worker's own error would be shown as the context.
        return self._instance.refuse_offset(unstorable)

    def _commit_all(self) -> bool:
        """Commit at a stop or a pause. False if the boundaries did not allow it, and the transaction was aborted."""
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
        """Abort an open transaction after a failure; errors of the abort are only logged."""
        try:
            self._writes.discard()
        except Exception as error:  # noqa: BLE001 - the failure that led here is the one to report
            _log.info("The transaction of task %s could not be aborted: %s", self._instance.id, error)
