"""Decides when a task reads its tables: one after the other in rounds, with a pause after a round without rows.

A run to the end is over when each table was read to its end once: if writers never stop, there may be no round without
rows. So when each table was read to its end, `first_result` returns None once, and the worker then calls `at_end`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Final, Generic, Protocol, TypeVar


class AskedTable(Protocol):
    """A table that can be read."""

    @property
    def whole(self) -> bool:
        """Whether the last read returned all rows that existed at its time."""


T = TypeVar("T", bound=AskedTable)
R = TypeVar("R")

_LONGEST_WAIT_SECONDS: Final = 1.0


class Rounds(Generic[T]):
    """The order in which the tables `T` are read. Each table is read equally often."""

    def __init__(self, pause_seconds: float) -> None:
        self._pause = pause_seconds
        self._next = 0
        self._idle = 0
        self._due = 0.0
        self._whole: set[int] = set()
        self.exhausted = False
        """Whether each table was read to its end at least once."""

    def first_result(
        self, tables: Callable[[], Sequence[T]], ask: Callable[[T], R | None], stopping: threading.Event
    ) -> R | None:
        """Read tables until one has a result, and return the result; None after a second without one."""
        if not self.exhausted and 0 < len(self._whole) == len(tables()):
            self.exhausted = True
            return None
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
            number = self._next % len(tables)
            found = ask(tables[number])
            self._next += 1
            if found is None or tables[number].whole:
                self._whole.add(number)
            if found is not None:
                self._idle = 0
                return found
            self._idle += 1
        self._idle = 0
        self.exhausted = True
        self._due = time.monotonic() + self._pause
        return None
