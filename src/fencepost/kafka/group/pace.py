"""Limits the cost of rebalances when the work of a group changes again and again.

A rebalance sends and compares all connectors and tasks of a group. If each of n new connectors caused a rebalance at
once, the total cost would grow with the square of n. So before a member joins again, it waits for a time that depends
on the cost of its last rebalance. After a cheap rebalance, this delay cannot be noticed. Expensive rebalances are
spread over time, and each covers more changes.
"""

from __future__ import annotations

from typing import Final

SHARE: Final = 0.1
"""The share of a processor that rebalances due to changed work may take."""


class RebalancePace:
    """Computes when changed work may cause the next rebalance.

    Times are in seconds; `cpu_s` is the processor time of one thread.
    """

    def __init__(self, share: float = SHARE) -> None:
        self._waits_per_cost = (1.0 - share) / share
        self._began_at: float | None = None
        self._spent_s = 0.0
        self._due_at = 0.0

    @property
    def due_at(self) -> float:
        """The moment from which the next rebalance may begin."""
        return self._due_at

    def began(self, cpu_s: float) -> None:
        """Note the processor time at which a rebalance began.

        If the previous rebalance did not end, this one continues it.
        """
        if self._began_at is None:
            self._began_at = cpu_s

    def interrupted(self, cpu_s: float) -> None:
        """Note the processor time at which a rebalance failed.

        The failed attempt counts towards the rebalance's cost. The time until the next attempt does not.
        """
        if self._began_at is not None:
            self._spent_s += cpu_s - self._began_at
            self._began_at = None

    def ended(self, cpu_s: float, now: float) -> None:
        """Note the processor time at which a rebalance ended. `now` is the same moment on the monotonic clock."""
        self.interrupted(cpu_s)
        spent_s, self._spent_s = self._spent_s, 0.0
        if spent_s:
            self._due_at = now + spent_s * self._waits_per_cost
