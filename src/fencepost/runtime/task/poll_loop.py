"""A running task's loop: poll, write, and end the transaction at the boundaries."""

from __future__ import annotations

import logging
import time
from typing import Final

from fencepost.api.errors import RetriableError
from fencepost.kafka.precedence import HEARTBEAT
from fencepost.runtime.metrics.task_metrics import TaskMetrics
from fencepost.runtime.state import EndNotReachedError, OnState, State
from fencepost.runtime.task.boundaries import Batch, BoundaryDecision, TransactionBoundaryManager
from fencepost.runtime.task.control import TaskControl
from fencepost.runtime.task.instance import TaskInstance
from fencepost.runtime.task.writes import Settled, TaskWrites
from fencepost.storage.errors import UnstorableOffsetError

_log: Final = logging.getLogger(__name__)

POLL_RETRY_S: Final = 0.5
"""The pause after `poll` raised RetriableError."""

# The first report comes after this number of failures of poll in a row, the next ones each time that the number has
# doubled: a source that fails now and then, or permanently, causes few records in the status topic.
_FIRST_REPORT: Final = 3


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
        self._patience_s: float | None = None
        self._failing_since = 0.0
        self._poll_failures = 0
        self._poll_failure: str | None = None
        self._next_report = _FIRST_REPORT

    def stop_at_end(self, patience_s: float | None) -> None:
        """Let `run` end with its source, and fail once polls have failed for `patience_s` seconds; None for no limit."""
        self._stop_at_end = True
        self._patience_s = patience_s

    def run(self) -> bool:
        """Poll until the task should stop, or its source ends if that is wanted.

        Return True if the task has to restart from its committed offsets: it was paused while its open transaction had
        no boundary yet. An open transaction would block the readers of its topics, and expire. Raises any failure, with
        the transaction aborted.
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
                self._instance.settled(self._writes.write(piece))
                self._follow(decision)
        self._follow(
            self._boundaries.after_poll(time.monotonic(), returned=returned, transaction_open=self._writes.is_open)
        )
        return returned

    def _poll(self) -> Batch | None:
        started = time.monotonic()
        try:
            batch = self._instance.poll()
        except RetriableError as error:
            self._poll_failed(error)
            self._control.wait(POLL_RETRY_S)
            return None
        if self._poll_failures:
            self._poll_works_again()
        if batch:
            self._metrics.polled(time.monotonic() - started)
        self._metrics.lag(self._instance.lag())
        return batch

    def _poll_failed(self, error: RetriableError) -> None:
        if not self._poll_failures:
            self._failing_since = time.monotonic()
        self._poll_failures += 1
        self._check_patience(error)
        if str(error) != self._poll_failure:
            limit = "" if self._patience_s is None else f" for {self._patience_s:.0f} s"
            _log.warning("poll() of task %s failed and is called again%s: %s", self._instance.id, limit, error)
        self._poll_failure = str(error)
        if self._poll_failures == self._next_report:
            self._next_report *= 2
            failing = RetriableError(
                f"poll() of task {self._instance.id} raised RetriableError {self._poll_failures} times in a row, and is "
                f"called again: {error}"
            )
            failing.__cause__ = error
            self._on_state(State.RUNNING, failing)

    def _check_patience(self, error: RetriableError) -> None:
        failing_s = time.monotonic() - self._failing_since
        if self._patience_s is None or failing_s < self._patience_s:
            return
        raise EndNotReachedError(
            f"The source's end was not reached: poll() of task {self._instance.id} has failed for {failing_s:.1f} s; the "
            f"last time: {error}. Mend that, and run again: what was committed stays. task.restart.max and "
            "task.restart.backoff.ms say for how long it is tried"
        ) from error

    def _poll_works_again(self) -> None:
        _log.info("poll() of task %s works again", self._instance.id)
        if self._next_report != _FIRST_REPORT:
            self._on_state(State.RUNNING)
        self._poll_failures, self._poll_failure, self._next_report = 0, None, _FIRST_REPORT

    def _follow(self, decision: BoundaryDecision) -> None:
        if decision is BoundaryDecision.CONTINUE or self._control.cancelled.is_set():
            return
        if decision is BoundaryDecision.ABORT:
            self._writes.abort()
        self._control.raise_failure()
        settled = self._commit()
        if settled is not None:
            self._instance.settled(settled)
            self._instance.committed()

    def _commit(self) -> Settled | None:
        try:
            return self._writes.commit()
        except UnstorableOffsetError as error:
            unstorable = error
        # Outside of the handler: the worker's own error would be shown as the context.
        return self._instance.refuse_offset(unstorable)

    def _commit_all(self) -> bool:
        """Commit at a stop or a pause. False if the boundaries did not allow it, and the transaction was aborted."""
        self._follow(self._boundaries.at_end())
        if not self._writes.is_open:
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
