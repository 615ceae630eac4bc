"""Refused rows are found by halves, and what may pass is tried again for as long as it may take."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.api.errors import ConfigError, DataError
from fencepost.engine.bisection import Passed, Refused, Retries, isolate
from fencepost.engine.errors import AllRowsRefusedError, BatchCancelledError
from tests.support.clock import Clock


class Rows:
    """Numbers, of which some are refused; counts the attempts."""

    def __init__(self, count: int, refused: set[int]) -> None:
        self.count = count
        self.refused = refused
        self.attempts = 0

    def attempt(self, start: int, stop: int) -> list[int]:
        self.attempts += 1
        if bad := self.refused.intersection(range(start, stop)):
            raise DataError(f"row {min(bad)} is refused")
        return list(range(start, stop))

    def outcomes(self) -> list[Passed[list[int]] | Refused]:
        return list(isolate(0, self.count, self.attempt))


@given(st.integers(1, 200).flatmap(lambda n: st.tuples(st.just(n), st.sets(st.integers(0, n - 1)))))
def test_each_row_is_accepted_or_refused_individually_and_in_order(given_rows: tuple[int, set[int]]):
    count, refused = given_rows
    outcomes = Rows(count, refused).outcomes()
    assert [outcome.start for outcome in outcomes[1:]] == [outcome.stop for outcome in outcomes[:-1]]
    assert [row for outcome in outcomes if isinstance(outcome, Passed) for row in outcome.result] == [
        row for row in range(count) if row not in refused
    ]
    blamed = [outcome for outcome in outcomes if isinstance(outcome, Refused)]
    assert [(b.start, b.stop, str(b.reason)) for b in blamed] == [
        (row, row + 1, f"row {row} is refused") for row in sorted(refused)
    ]


@given(st.integers(0, 1023))
def test_one_bad_row_in_a_thousand_costs_at_most_twenty_more_attempts(bad: int):
    clean, dirty = Rows(1024, set()), Rows(1024, {bad})
    clean.outcomes()
    dirty.outcomes()
    assert clean.attempts == 1
    assert dirty.attempts <= 21


def test_the_first_refused_row_is_known_before_the_rows_behind_it_are_tried():
    rows = Rows(1000, {3, 900})
    first = next(outcome for outcome in isolate(0, 1000, rows.attempt) if isinstance(outcome, Refused))
    assert first.start == 3
    assert rows.attempts < 15


def test_rows_that_are_refused_alike_are_not_tried_alone():
    attempts = []

    def attempt(start: int, stop: int) -> None:
        attempts.append((start, stop))
        raise AllRowsRefusedError(DataError("no such field"))

    (refused,) = isolate(0, 1000, attempt)
    assert (refused.start, refused.stop, attempts) == (0, 1000, [(0, 1000)])


@pytest.mark.parametrize("error", [ConfigError("x"), BatchCancelledError("x"), MemoryError()])
def test_other_failures_are_not_attributed_to_records(error: Exception):
    def attempt(start: int, stop: int) -> None:  # noqa: ARG001 - what is called
        raise error

    with pytest.raises(type(error)):
        list(isolate(0, 10, attempt))


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


def test_the_time_that_tries_take_counts():
    clock = Clock()
    retries = Retries(10_000, 1_000, clock)
    assert retries.next_pause() == 0.3
    clock.now += 9.9
    assert retries.next_pause() == pytest.approx(0.1)
    clock.now += 0.2
    assert retries.next_pause() is None
