"""Metric values match their definitions by name."""

from __future__ import annotations

import pytest

from fencepost.runtime.metrics.definitions import (
    TASK_HISTOGRAMS,
    TASK_VALUES,
    define,
    single_values,
    with_prefix,
)
from fencepost.runtime.metrics.task_metrics import TaskMetrics

_DEFINITIONS = define("p_", {"one": "The first", "two_total": "The second"})


def test_a_task_has_a_value_for_each_of_its_metrics_and_no_other() -> None:
    snapshot = TaskMetrics().snapshot()
    assert snapshot.values.keys() == TASK_VALUES.keys()
    assert snapshot.histograms.keys() == TASK_HISTOGRAMS.keys()


def test_values_in_any_order_belong_to_their_metrics() -> None:
    metrics = single_values(_DEFINITIONS, with_prefix("p_", two_total=2, one=1))
    assert {sample.name: sample.value for metric in metrics for sample in metric.samples} == {
        "p_one": 1,
        "p_two_total": 2,
    }


@pytest.mark.parametrize("values", [{"p_one": 1.0}, {"p_one": 1.0, "p_two_total": 2.0, "p_three": 3.0}])
def test_a_value_that_is_missing_or_left_over_is_an_error(values: dict[str, float]) -> None:
    with pytest.raises(KeyError, match=r"p_t"):
        list(single_values(_DEFINITIONS, values))
