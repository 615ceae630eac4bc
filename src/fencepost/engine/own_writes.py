"""Tracks whether the worker writes large batches itself: a starting JVM takes a core from them for some seconds."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

QUIET_SECONDS: Final = 1.0
"""The seconds without a large batch after which Spark may start: between two batches a task polls and commits."""


class OwnWrites:
    """The large batches that the worker writes itself. Thread-safe."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._running = 0
        self._quiet_from = 0.0

    @contextmanager
    def one(self) -> Iterator[None]:
        """Write one in the block."""
        with self._lock:
            self._running += 1
        try:
            yield
        finally:
            with self._lock:
                self._running -= 1
                self._quiet_from = self._clock() + QUIET_SECONDS

    def quiet(self) -> bool:
        """Whether no batch is being written now or was written just before."""
        with self._lock:
            return self._running == 0 and self._clock() >= self._quiet_from
