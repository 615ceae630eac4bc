"""The figures of connectors over the last hour, for the page at /ui: rings of fixed size, one for each connector.

Time is divided into steps of 20 s since 1970, so that figures of several workers can be added up. A ring has 180 of them,
as two float32 each, and takes about 2 kB.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

STEP_SECONDS: Final = 20
"""The time between two figures."""

STEPS: Final = 180
"""How many figures of a connector are kept: an hour of them."""


class StepFigures(NamedTuple):
    """Records per second that were committed in a step, and the lag at its end, in the source's unit; NaN if unknown."""

    rate: float
    lag: float


class HistoryPoint(NamedTuple):
    """StepFigures with their step, in seconds since 1970; the lag is None if it is unknown."""

    at: int
    rate: float
    lag: float | None


class History:
    """Keeps the figures of the connectors that ran on this worker within the last hour. For one thread."""

    def __init__(self) -> None:
        self._rings: dict[str, _Ring] = {}

    def record(self, step: int, figures: Mapping[str, StepFigures]) -> None:
        """Add the figures of a step, by connector. A step that is up to an hour before the last one replaces nothing."""
        for connector, found in figures.items():
            ring = self._rings.get(connector)
            # A ring of the future would show nothing until its time has come.
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
    """`last` is the step of the newest figures."""

    __slots__ = ("_lags", "_rates", "last")

    def __init__(self, step: int) -> None:
        self._rates = array("f", [math.nan]) * STEPS
        self._lags = array("f", [math.nan]) * STEPS
        self.last = step - 1

    def put(self, step: int, figures: StepFigures) -> None:
        # The clock may have been set back: the figures of that time stay until they are passed again.
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
    """Return the sums of the figures of several workers, the oldest first. The lag is unknown if it is to one of them."""
    found: dict[int, HistoryPoint] = {}
    for points in histories:
        for point in points:
            before = found.get(point.at)
            found[point.at] = point if before is None else _sum(before, point)
    return [found[at] for at in sorted(found)]


def _sum(one: HistoryPoint, other: HistoryPoint) -> HistoryPoint:
    lag = None if one.lag is None or other.lag is None else one.lag + other.lag
    return HistoryPoint(one.at, one.rate + other.rate, lag)
