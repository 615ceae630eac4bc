"""The pauses before a stage is retried: doubled up to a maximum, until a timeout."""

from __future__ import annotations

import pytest

from fencepost.engine.retries import Retries
from tests.support.clock import Clock


def pauses(timeout_ms: int, longest_ms: int, most: int = 20) -> list[float]:
    clock = Clock()
    retries = Retries(timeout_ms, longest_ms, clock)
    found: list[float] = []
    while len(found) < most and (pause := retries.next_pause()) is not None:
        found.append(round(pause, 6))
        clock.now += pause
    return found


def test_pauses_double_up_to_the_longest_and_end_at_the_time_out():
    assert pauses(0, 60_000) == []
    assert pauses(5_000, 1_000) == [0.3, 0.6, 1.0, 1.0, 1.0, 1.0, 0.1]
    assert pauses(200, 60_000) == [0.2]
    assert pauses(1_000, 50)[:3] == [0.05, 0.05, 0.05]
    assert pauses(-1, 2_000)[-2:] == [2.0, 2.0]
    assert len(pauses(-1, 2_000)) == 20


def test_the_duration_of_attempts_counts_towards_the_time_out():
    clock = Clock()
    retries = Retries(10_000, 1_000, clock)
    assert retries.next_pause() == 0.3
    clock.now += 9.9
    assert retries.next_pause() == pytest.approx(0.1)
    clock.now += 0.2
    assert retries.next_pause() is None
