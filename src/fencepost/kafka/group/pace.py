"""Limits what rebalances cost when the work of a group changes again and again.

A rebalance sends and compares all connectors and tasks of a group. If each of n new connectors led to one at once, all
of them together would cost n times n. So a member that wants to join again waits as long as its last rebalance allows:
one that is cheap delays nothing that can be noticed, expensive ones are spread, and each covers more changes.
"""

from __future__ import annotations

from typing import Final

SHARE: Final = 0.1
"""The part of a processor that rebalances of changed work may take."""


class RebalancePace:
    """When a changed work may rebalance a group again. Times are seconds, `cpu_s` are processor time of one thread."""

    def __init__(self, share: float = SHARE) -> None:
        self._waits_per_cost = (1.0 - share) / share
        self._began_at: float | None = None
        self._spent_s = 0.0
        self._due_at = 0.0

    @property
    def due_at(self) -> float:
        """The moment from which on the next one may begin."""
        return self._due_at

    def began(self, cpu_s: float) -> None:
        """Note the processor time at which a rebalance began; one that did not end counts as part of the next."""
        if self._began_at is None:
            self._began_at = cpu_s

    def interrupted(self, cpu_s: float) -> None:
        """Note the processor time at which an attempt failed: time that is used before the next attempt does not count."""
        if self._began_at is not None:
            self._spent_s += cpu_s - self._began_at
            self._began_at = None

    def ended(self, cpu_s: float, now: float) -> None:
        """Note the processor time at which it ended, which is `now` on the monotonic clock."""
        self.interrupted(cpu_s)
        spent_s, self._spent_s = self._spent_s, 0.0
        if spent_s:
            self._due_at = now + spent_s * self._waits_per_cost
