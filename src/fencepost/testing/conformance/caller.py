"""Calls a connector's code on a separate thread, and detects calls that do not return."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import Any, TypeVar

from fencepost.testing.conformance.violation import Violation, line_of_thread
from fencepost.testing.spark import seconds_since_start

T = TypeVar("T")


class BlockedError(Violation):
    """A call did not return."""


def left_of(limit_s: float) -> float:
    """Return how much of a limit is left. The time that Spark takes to start does not count."""
    return limit_s - seconds_since_start()


class Caller:
    """A thread that calls one function after another, as the worker's thread of a task does."""

    def __init__(self, limit_s: float) -> None:
        self._limit_s = limit_s
        self._calls: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._live, name="conformance-task", daemon=True)
        self._thread.start()

    def call(self, what: str, function: Callable[[], T]) -> T:
        """Return a function's result. Raises its exception, or BlockedError if it takes longer than the limit."""
        return self.result(what, self.submit(function))

    def submit(self, function: Callable[[], T]) -> Future[T]:
        """Call a function on the thread, without waiting for the result."""
        future: Future[T] = Future()
        self._calls.put((future, function))
        return future

    def result(self, what: str, future: Future[T]) -> T:
        """Wait for a submitted call. Raises the errors of `call`."""
        wait_s = self._limit_s
        while wait_s > 0:
            try:
                return future.result(wait_s)
            except FutureTimeoutError:
                if future.done():
                    raise
            wait_s = left_of(self._limit_s)
        raise BlockedError(
            f"{what} did not return within {self._limit_s:g} s: wait with a limit, and let stop() end the wait",
            self.line,
        )

    @property
    def line(self) -> str | None:
        """Return `file:line` of the author's code that is running; None if there is none."""
        return line_of_thread(self._thread)

    def end(self) -> None:
        """Let the thread end after its current call."""
        self._calls.put(None)

    def _live(self) -> None:
        while (call := self._calls.get()) is not None:
            future, function = call
            try:
                future.set_result(function())
            except BaseException as error:  # noqa: BLE001 - raised again where the result is asked for
                future.set_exception(error)
