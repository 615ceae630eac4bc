"""A clock that tests set."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Clock:
    """A clock in seconds that only a test advances."""

    now: float = 100.0

    def __call__(self) -> float:
        return self.now
