"""Tracks the large batches that the worker itself writes. A JVM that starts would take a core from them for seconds."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

QUIET_SECONDS: Final = 1.0
"""The time without a large batch after which Spark may start.

Between two batches, a task needs time to poll and commit.
"""


class OwnWrites:
    """The large batches that the worker writes itself. Thread-safe."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._running = 0
        self._quiet_from = 0.0

    @contextmanager
    def one(self) -> Iterator[None]:
        """Use this as the context in which the worker writes a large batch."""
        with self._lock:
            self._running += 1
        try:
            yield
        finally:
            with self._lock:
                self._running -= 1
                self._quiet_from = self._clock() + QUIET_SECONDS

    def quiet(self) -> bool:
        """Whether no large batch is being written now, and none was written just before."""
        with self._lock:
            return self._running == 0 and self._clock() >= self._quiet_from
