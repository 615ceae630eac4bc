"""Values that are remembered for a limited time, by name."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from typing import Generic, TypeVar

_V = TypeVar("_V")


class Aging(Generic[_V]):
    """A cache. Each value is forgotten `max_age_ms` after it was put. Thread-safe."""

    def __init__(self, max_age_ms: int) -> None:
        self._max_age_s = max_age_ms / 1000
        self._lock = threading.Lock()
        self._values: dict[str, tuple[_V, float]] = {}

    def get(self, name: str) -> _V | None:
        """Return a value, None if it is unknown or too old."""
        with self._lock:
            found = self._values.get(name)
        return None if found is None or self._is_old(found[1]) else found[0]

    def fresh(self) -> dict[str, _V]:
        """Return all values that are not too old."""
        with self._lock:
            return {name: value for name, (value, put_at) in self._values.items() if not self._is_old(put_at)}

    def put(self, values: Mapping[str, _V]) -> None:
        """Store values. They replace older values with the same names."""
        now = time.monotonic()
        with self._lock:
            self._values |= {name: (value, now) for name, value in values.items()}

    def forget(self, name: str) -> None:
        """Drop a value, if there is one."""
        with self._lock:
            self._values.pop(name, None)

    def _is_old(self, put_at: float) -> bool:
        return time.monotonic() - put_at > self._max_age_s
