"""Counts of latencies in the buckets of a Prometheus histogram."""

from __future__ import annotations

import bisect
import itertools
from typing import Final

BOUNDS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
"""Upper bounds of the buckets, in seconds: from a quick commit to the default transaction.timeout.ms."""

Buckets = list[tuple[str, float]]
"""The upper bounds in Prometheus's form, each with the number of values up to it."""


class Histogram:
    """Values in seconds. Not thread-safe."""

    def __init__(self) -> None:
        self._counts = [0] * (len(BOUNDS) + 1)
        self._total = 0.0

    def record(self, seconds: float) -> None:
        """Record a value."""
        self._counts[bisect.bisect_left(BOUNDS, seconds)] += 1
        self._total += seconds

    def snapshot(self) -> tuple[Buckets, float]:
        """Return the buckets, and the sum of all values."""
        bounds = [*map(str, BOUNDS), "+Inf"]
        return list(zip(bounds, map(float, itertools.accumulate(self._counts)), strict=True)), self._total
