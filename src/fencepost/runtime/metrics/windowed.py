"""Minimum, average, maximum and rate of the values of the last minute, like Kafka's own metrics."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass
from typing import Final

_WINDOW_S: Final = 30.0
_WINDOWS: Final = 2


@dataclass(slots=True)
class _Sample:
    start: float
    count: int = 0
    total: float = 0.0
    low: float = math.inf
    high: float = -math.inf


class Windowed:
    """Values measured within two windows of 30 seconds. Times are seconds of a monotonic clock.

    The object needs memory for two windows at most, even if the values are not read for a long time.
    """

    def __init__(self) -> None:
        # When a third window begins, the first one began at least two windows ago, so it is too old.
        self._samples: deque[_Sample] = deque(maxlen=_WINDOWS)

    def record(self, value: float, now: float) -> None:
        """Record a value."""
        if not self._samples or now >= self._samples[-1].start + _WINDOW_S:
            self._samples.append(_Sample(now))
        sample = self._samples[-1]
        sample.count += 1
        sample.total += value
        sample.low = min(sample.low, value)
        sample.high = max(sample.high, value)

    def average(self, now: float) -> float:
        """Return the average, NaN without values."""
        samples = self._recent(now)
        count = sum(sample.count for sample in samples)
        return sum(sample.total for sample in samples) / count if count else math.nan

    def minimum(self, now: float) -> float:
        """Return the minimum, NaN without values."""
        return min((sample.low for sample in self._recent(now)), default=math.nan)

    def maximum(self, now: float) -> float:
        """Return the maximum, NaN without values."""
        return max((sample.high for sample in self._recent(now)), default=math.nan)

    def rate(self, now: float) -> float:
        """Return the sum of the values per second."""
        samples = self._recent(now)
        if not samples:
            return 0.0
        # A time of less than one window counts as a full window, so that the first values do not look like a burst.
        return sum(sample.total for sample in samples) / max(now - samples[0].start, _WINDOW_S)

    def _recent(self, now: float) -> deque[_Sample]:
        while self._samples and now >= self._samples[0].start + _WINDOW_S * _WINDOWS:
            self._samples.popleft()
        return self._samples
