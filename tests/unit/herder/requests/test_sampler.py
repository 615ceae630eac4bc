"""Samples that a worker takes of its tasks' metrics."""

from __future__ import annotations

import math

from fencepost.config.ids import ConnectorTaskId
from fencepost.herder.requests.sampler import Sampler
from fencepost.runtime.metrics.task_metrics import TaskMetrics


def _commit(metrics: TaskMetrics, records: int) -> None:
    metrics.began()
    metrics.wrote(records, records)
    metrics.committed(records, 0.1)


def test_rates_sum_up_all_tasks_since_the_previous_sample() -> None:
    now = [0.0]
    one, other = TaskMetrics(), TaskMetrics()
    tasks = {ConnectorTaskId("c", 0): one, ConnectorTaskId("c", 1): other}
    sampler = Sampler(lambda: tasks, lambda: now[0])
    _commit(one, 100)
    _commit(other, 100)
    one.lag(7)
    other.lag(1)
    now[0] = 20

    assert sampler.figures() == {"c": (10.0, 8.0)}

    _commit(one, 40)
    other.lag(None)
    now[0] = 40

    rate, lag = sampler.figures()["c"]
    assert rate == 2.0
    assert math.isnan(lag)


def test_a_task_that_was_started_again_counts_from_its_start() -> None:
    now, task = [0.0], ConnectorTaskId("c", 0)
    tasks = {task: TaskMetrics()}
    sampler = Sampler(lambda: tasks, lambda: now[0])
    _commit(tasks[task], 100)
    now[0] = 10
    sampler.figures()
    tasks[task] = TaskMetrics()
    _commit(tasks[task], 200)
    now[0] = 20

    assert sampler.figures()["c"].rate == 20.0
