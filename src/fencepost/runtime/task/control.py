"""Requests to a task, from any thread, and the waits of the task that these requests end."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass


class TaskControl:
    """The requests to pause, stop, fail and cancel a task."""

    def __init__(self, *, paused: bool = False) -> None:
        self.cancelled = threading.Event()
        self._changed = threading.Condition()
        self._paused = paused
        self._stopping = False
        self._failure: Exception | None = None

    @property
    def paused(self) -> bool:
        """Whether the task should not poll."""
        return self._paused

    @property
    def stopping(self) -> bool:
        """Whether the task should end."""
        return self._stopping

    def pause(self) -> None:
        """Ask the task to commit and wait."""
        self._set(paused=True)

    def resume(self) -> None:
        """Ask the task to resume."""
        self._set(paused=False)

    def stop(self) -> None:
        """Ask the task to commit and end."""
        self._set(stopping=True)

    def cancel(self) -> None:
        """Ask the task to end without a commit."""
        self.cancelled.set()
        self.stop()

    def fail(self, error: Exception) -> None:
        """Ask the task to end with a failure, without a commit."""
        with self._changed:
            self._failure = error
            self._changed.notify_all()

    def raise_failure(self) -> None:
        """Raise the failure with which the task should end, if there is one."""
        if self._failure is not None:
            raise self._failure

    def wait(self, seconds: float) -> bool:
        """Wait for some time. Return True at once if the task should end or pause."""
        with self._changed:
            return bool(self._changed.wait_for(lambda: self._stopping or self._paused or self._failure, seconds))

    def wait_for(self, true: Callable[[], bool]) -> None:
        """Return when a condition is true, or the task should end. `wake` makes it check the condition again."""
        with self._changed:
            self._changed.wait_for(lambda: self._stopping or self._failure or true())

    def wake(self) -> None:
        """Wake the task, so that it checks its wait condition again."""
        with self._changed:
            self._changed.notify_all()

    def wait_until_resumed(self) -> None:
        """Return when the task should resume, or end."""
        with self._changed:
            self._changed.wait_for(lambda: self._stopping or not self._paused or self._failure)

    def _set(self, *, paused: bool | None = None, stopping: bool | None = None) -> None:
        with self._changed:
            self._paused = self._paused if paused is None else paused
            self._stopping = self._stopping if stopping is None else stopping
            self._changed.notify_all()


@dataclass(frozen=True, slots=True)
class WriteRequests:
    """The requests to a task, in the form for the engine.

    A stop or a pause ends the engine's waits; a cancellation also ends its writes.
    """

    control: TaskControl

    def is_set(self) -> bool:
        """Whether the task was cancelled."""
        return self.control.cancelled.is_set()

    def wait(self, timeout: float, /) -> bool:
        """Wait as `TaskControl.wait`."""
        return self.control.wait(timeout)
