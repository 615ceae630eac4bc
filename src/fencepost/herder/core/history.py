"""The throughput and lag of connectors over the last hour, for the page at /ui: one ring buffer for each connector.

Time is divided into steps of 20 s since 1970, so that figures of several workers can be added up. A ring has 180 steps,
with two float32 for each step, and takes about 2 kB.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

STEP_SECONDS: Final = 20
"""The length of a step."""

STEPS: Final = 180
"""The number of steps for which figures are kept: one hour."""


class StepFigures(NamedTuple):
    """The committed records per second in a step, and the lag at its end.

    The lag is in the source's unit, and NaN if it is unknown.
    """

    rate: float
    lag: float


class HistoryPoint(NamedTuple):
    """The figures of a step, and its start in seconds since 1970. The lag is None if it is unknown."""

    at: int
    rate: float
    lag: float | None


class History:
    """Keeps the figures of the connectors that ran on this worker within the last hour. Only one thread may use it."""

    def __init__(self) -> None:
        self._rings: dict[str, _Ring] = {}

    def record(self, step: int, figures: Mapping[str, StepFigures]) -> None:
        """Add the figures of a step, by connector.

        If the clock was set back by less than an hour, steps are ignored until the clock has caught up.
        """
        for connector, found in figures.items():
            ring = self._rings.get(connector)
            # If the clock was set back by an hour or more, start a new ring: the old one would ignore all steps for
            # that time.
            if ring is None or step <= ring.last - STEPS:
                ring = self._rings[connector] = _Ring(step)
            ring.put(step, found)
        for gone in [name for name, ring in self._rings.items() if ring.last <= step - STEPS]:
            del self._rings[gone]

    def points(self, connector: str, now: int) -> list[HistoryPoint]:
        """Return the figures of the hour before the step `now`, the oldest first."""
        ring = self._rings.get(connector)
        return [] if ring is None else ring.points(now)


class _Ring:
    """The figures of one connector. `last` is the step of the newest figures."""

    __slots__ = ("_lags", "_rates", "last")

    def __init__(self, step: int) -> None:
        self._rates = array("f", [math.nan]) * STEPS
        self._lags = array("f", [math.nan]) * STEPS
        self.last = step - 1

    def put(self, step: int, figures: StepFigures) -> None:
        # The clock was set back. The newer figures stay until the clock has caught up.
        if step <= self.last:
            return
        for skipped in range(max(self.last + 1, step - STEPS + 1), step):
            self._rates[skipped % STEPS] = math.nan
        self.last = step
        self._rates[step % STEPS], self._lags[step % STEPS] = figures

    def points(self, now: int) -> list[HistoryPoint]:
        return [
            HistoryPoint(step * STEP_SECONDS, rate, None if math.isnan(lag := self._lags[step % STEPS]) else lag)
            for step in range(max(now - STEPS, self.last - STEPS) + 1, self.last + 1)
            if not math.isnan(rate := self._rates[step % STEPS])
        ]


def added_up(histories: Iterable[Sequence[HistoryPoint]]) -> list[HistoryPoint]:
    """Return the sums of the figures of several workers, the oldest first.

    If the lag of one worker is unknown, the sum is unknown as well.
    """
    found: dict[int, HistoryPoint] = {}
    for points in histories:
        for point in points:
            before = found.get(point.at)
            found[point.at] = point if before is None else _sum(before, point)
    return [found[at] for at in sorted(found)]


def _sum(one: HistoryPoint, other: HistoryPoint) -> HistoryPoint:
    lag = None if one.lag is None or other.lag is None else one.lag + other.lag
    return HistoryPoint(one.at, one.rate + other.rate, lag)
