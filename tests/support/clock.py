"""A clock that a test sets."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Clock:
    """Gives seconds, of which no more pass than a test lets pass."""

    now: float = 100.0

    def __call__(self) -> float:
        return self.now
