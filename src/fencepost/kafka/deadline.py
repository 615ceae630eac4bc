"""Time budgets.

A Deadline is created when a budget begins, and is passed to every call that must end within the budget.
"""

from __future__ import annotations

import random
import time
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Deadline:
    """A moment on the monotonic clock, in seconds."""

    at: float

    @classmethod
    def after(cls, milliseconds: float) -> Deadline:
        """The moment `milliseconds` from now."""
        return cls(time.monotonic() + milliseconds / 1000)

    @property
    def remaining_s(self) -> float:
        """The remaining seconds, at least 0."""
        return max(0.0, self.at - time.monotonic())

    @property
    def passed(self) -> bool:
        """Whether no time is left."""
        return time.monotonic() >= self.at


class Backoff:
    """Pauses that double from `first_ms` to `most_ms`, randomized so that clients do not retry simultaneously."""

    def __init__(self, first_ms: float, most_ms: float) -> None:
        self._first_ms = first_ms
        self._most_ms = most_ms
        self._tries = 0

    def next_s(self) -> float:
        """Return the next pause, in seconds."""
        pause_s: float = min(self._most_ms, self._first_ms * 2**self._tries) / 1000
        self._tries = min(self._tries + 1, 30)
        return pause_s * random.uniform(0.8, 1.2)  # noqa: S311 - not a secret

    def sleep(self, deadline: Deadline) -> None:
        """Pause, but not past `deadline`."""
        time.sleep(min(self.next_s(), deadline.remaining_s))

    def reset(self) -> None:
        """Start again with the first pause."""
        self._tries = 0
