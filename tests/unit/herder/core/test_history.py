"""Samples of the last hour: a limited number, by time step, summed over workers."""

from __future__ import annotations

import math
import tracemalloc

from fencepost.herder.core.history import STEP_SECONDS, STEPS, History, HistoryPoint, StepFigures, added_up


def _rates(history: History, now: int) -> list[tuple[int, float]]:
    return [(point.at // STEP_SECONDS, point.rate) for point in history.points("c", now)]


def test_the_last_hour_is_kept_and_no_more() -> None:
    history = History()
    for step in range(1_000, 1_000 + 2 * STEPS):
        history.record(step, {"c": StepFigures(step, 0)})

    found = _rates(history, 1_000 + 2 * STEPS)

    assert len(found) == STEPS - 1
    assert found[0] == (1_001 + STEPS, 1_001 + STEPS)
    assert found[-1] == (999 + 2 * STEPS, 999 + 2 * STEPS)


def test_steps_without_figures_are_missing_also_after_a_round() -> None:
    history = History()
    history.record(5, {"c": StepFigures(1, math.nan)})
    history.record(8, {"c": StepFigures(2, 7)})
    assert history.points("c", 9) == [HistoryPoint(100, 1, None), HistoryPoint(160, 2, 7)]

    history.record(8 + STEPS - 1, {"c": StepFigures(3, 7)})
    assert _rates(history, 8 + STEPS) == [(8 + STEPS - 1, 3)]


def test_a_clock_that_is_set_back_changes_nothing_that_was_recorded() -> None:
    history = History()
    for step in (10, 11, 4, 11, 12):
        history.record(step, {"c": StepFigures(step, 0)})

    assert _rates(history, 13) == [(10, 10), (11, 11), (12, 12)]


def test_a_clock_that_is_set_back_by_more_than_an_hour_begins_again() -> None:
    history = History()
    for step in (10 + STEPS, 11 + STEPS, 11, 12):
        history.record(step, {"c": StepFigures(step, 0)})

    assert _rates(history, 13) == [(11, 11), (12, 12)]


def test_a_connector_that_is_gone_for_an_hour_is_forgotten() -> None:
    history = History()
    history.record(1, {"c": StepFigures(1, 0)})
    history.record(1 + STEPS, {"other": StepFigures(1, 0)})

    assert history.points("c", 2) == []


def test_5000_connectors_take_ten_megabytes() -> None:
    history = History()
    names = [f"connector-{number}" for number in range(5_000)]
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for step in range(3):
            history.record(step, dict.fromkeys(names, StepFigures(1.0, 2.0)))
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert (after - before) / len(names) < 2_000


def test_figures_of_workers_are_added_up_by_step() -> None:
    one = [HistoryPoint(0, 1, 5), HistoryPoint(20, 1, 5)]
    other = [HistoryPoint(20, 2, None), HistoryPoint(40, 4, 1)]

    assert added_up([one, other]) == [HistoryPoint(0, 1, 5), HistoryPoint(20, 3, None), HistoryPoint(40, 4, 1)]
