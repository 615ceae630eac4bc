"""The pauses before a stage is retried (KIP-298). Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from fencepost.config.error_handling import FOR_EVER

FIRST_DELAY_S: Final = 0.3


class Retries:
    """The pauses between retries: 0.3 s at first, doubled each time up to a maximum, until a time-out.

    The time-out begins with the first failure and is never reset. `clock` returns seconds.
    """

    def __init__(self, timeout_ms: int, longest_ms: int, clock: Callable[[], float]) -> None:
        self._timeout_ms = timeout_ms
        self._longest_s = longest_ms / 1000
        self._clock = clock
        self._deadline: float | None = None
        self._delay_s = min(FIRST_DELAY_S, self._longest_s)

    def next_pause(self) -> float | None:
        """Return the number of seconds to wait before the next attempt, None if there is no further attempt."""
        if self._timeout_ms == 0:
            return None
        pause, self._delay_s = self._delay_s, min(2 * self._delay_s, self._longest_s)
        if self._timeout_ms == FOR_EVER:
            return pause
        now = self._clock()
        if self._deadline is None:
            self._deadline = now + self._timeout_ms / 1000
        left = self._deadline - now
        return min(pause, left) if left > 0 else None
