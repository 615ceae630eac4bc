"""When a task asks its tables: one after the other in rounds, and after a round without rows it pauses."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Final, Generic, TypeVar

T = TypeVar("T")
R = TypeVar("R")

_LONGEST_WAIT_SECONDS: Final = 1.0


class Rounds(Generic[T]):
    """The order in which one of the tables `T` is asked, each as often as the others."""

    def __init__(self, pause_seconds: float) -> None:
        self._pause = pause_seconds
        self._next = 0
        self._idle = 0
        self._due = 0.0
        self.exhausted = False
        """Whether none of the tables had rows when they were asked last."""

    def first(
        self, tables: Callable[[], Sequence[T]], ask: Callable[[T], R | None], stopping: threading.Event
    ) -> R | None:
        """Return the first answer, or None after a second without one, or while it is not time to ask."""
        deadline = time.monotonic() + _LONGEST_WAIT_SECONDS
        while not stopping.is_set():
            wait = min(self._due, deadline) - time.monotonic()
            if wait > 0 and stopping.wait(wait):
                break
            if time.monotonic() >= self._due and (found := self._round(tables(), ask)) is not None:
                return found
            if time.monotonic() >= deadline:
                break
        return None

    def _round(self, tables: Sequence[T], ask: Callable[[T], R | None]) -> R | None:
        while self._idle < len(tables):
            found = ask(tables[self._next % len(tables)])
            self._next += 1
            if found is not None:
                self._idle = 0
                self.exhausted = False
                return found
            self._idle += 1
        self._idle = 0
        self.exhausted = True
        self._due = time.monotonic() + self._pause
        return None
