"""How fast a process grows: samples of its memory, and a line fitted through them."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import psutil

MIB = 1024 * 1024
_HOUR_SECONDS = 3600.0
# 95 % of a normal distribution is within this many standard errors of its mean.
_CONFIDENT = 1.96
_FEWEST = 3


@dataclass(frozen=True, slots=True)
class Sample:
    """The resident memory of a process in bytes, and the time on a monotonic clock in seconds."""

    second: float
    resident: int

    @classmethod
    def of(cls, process_id: int) -> Sample:
        """Take a sample of a process now. Raises psutil.NoSuchProcess."""
        return cls(time.monotonic(), psutil.Process(process_id).memory_info().rss)


@dataclass(frozen=True, slots=True)
class Growth:
    """The growth of a process in MiB an hour, within `margin` at 95 % confidence if the samples are independent.

    `total` is the growth in MiB in the time of the samples that count.
    """

    per_hour: float
    margin: float
    total: float

    @classmethod
    def of(cls, samples: Sequence[Sample]) -> Growth:
        """Fit a line through the last two thirds of the samples. The process warms up before these.

        With too few samples for a line, all numbers are NaN.
        """
        counted = samples[len(samples) // 3 :]
        if len(counted) < _FEWEST:
            return cls(math.nan, math.nan, math.nan)
        seconds = np.array([sample.second - counted[0].second for sample in counted])
        sizes = np.array([sample.resident / MIB for sample in counted])
        (slope, start), away = np.polyfit(seconds, sizes, 1), seconds - seconds.mean()
        residuals = sizes - (slope * seconds + start)
        error = math.sqrt(float(residuals @ residuals) / (len(counted) - 2) / float(away @ away))
        hourly = float(slope) * _HOUR_SECONDS
        return cls(hourly, _CONFIDENT * error * _HOUR_SECONDS, float(slope) * float(seconds[-1]))

    def __str__(self) -> str:
        return f"{self.per_hour:+.2f} ± {self.margin:.2f} MiB an hour"
