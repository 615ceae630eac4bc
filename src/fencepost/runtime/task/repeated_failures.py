"""Counts and reports consecutive failures of a call that a running task repeats."""

from __future__ import annotations

import logging
import time
from typing import Final

from fencepost.api.errors import RetriableError
from fencepost.config.ids import ConnectorTaskId
from fencepost.runtime.state import EndNotReachedError, OnState, State

_log: Final = logging.getLogger(__name__)

# The first report comes after this number of consecutive failures, and later ones whenever the number has doubled. So a
# source that fails now and then, or permanently, causes only few records in the status topic.
_FIRST_REPORT: Final = 3


class RepeatedFailures:
    """Consecutive failures of one call. `call` names it. Only for the task's own thread."""

    def __init__(self, call: str, task: ConnectorTaskId, on_state: OnState) -> None:
        self.patience_s: float | None = None
        """How long the call may keep failing, in seconds; None means no limit."""
        self._call = call
        self._task = task
        self._on_state = on_state
        self._failing_since = 0.0
        self._failures = 0
        self._last: str | None = None
        self._next_report = _FIRST_REPORT

    def failed(self, error: RetriableError) -> None:
        """Record a failure. Raises EndNotReachedError if the call has failed for longer than `patience_s`."""
        if not self._failures:
            self._failing_since = time.monotonic()
        self._failures += 1
        self._check_patience(error)
        if str(error) != self._last:
            limit = "" if self.patience_s is None else f" for {self.patience_s:.0f} s"
            _log.warning("%s of task %s failed and is called again%s: %s", self._call, self._task, limit, error)
        self._last = str(error)
        if self._failures == self._next_report:
            self._next_report *= 2
            failing = RetriableError(
                f"{self._call} of task {self._task} raised RetriableError {self._failures} times in a row, and is "
                f"called again: {error}"
            )
            failing.__cause__ = error
            self._on_state(State.RUNNING, failing)

    def works(self) -> None:
        """Record a success."""
        if not self._failures:
            return
        _log.info("%s of task %s works again", self._call, self._task)
        if self._next_report != _FIRST_REPORT:
            self._on_state(State.RUNNING)
        self._failures, self._last, self._next_report = 0, None, _FIRST_REPORT

    def _check_patience(self, error: RetriableError) -> None:
        failing_s = time.monotonic() - self._failing_since
        if self.patience_s is None or failing_s < self.patience_s:
            return
        raise EndNotReachedError(
            f"The source's end was not reached: {self._call} of task {self._task} has failed for {failing_s:.1f} s; the "
            f"last time: {error}. Mend that, and run again: committed records stay. task.restart.max and "
            "task.restart.backoff.ms say for how long it is tried"
        ) from error
