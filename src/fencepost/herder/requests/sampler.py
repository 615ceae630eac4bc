"""Samples the throughput and lag of this worker's connectors. The page at /ui shows their history."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from fencepost.config.ids import ConnectorTaskId
from fencepost.herder.core.history import StepFigures
from fencepost.runtime.metrics.task_metrics import TaskMetrics

Tasks = Callable[[], Mapping[ConnectorTaskId, TaskMetrics]]
"""Returns the metrics of the tasks that run now. A restarted task has a new TaskMetrics."""


class Sampler:
    """Compares each task's number of committed records with the previous sample. Only one thread may use it."""

    def __init__(self, tasks: Tasks, clock: Callable[[], float] = time.monotonic) -> None:
        self._tasks = tasks
        self._clock = clock
        self._at = clock()
        self._before: dict[ConnectorTaskId, tuple[TaskMetrics, int]] = {}

    def figures(self) -> dict[str, StepFigures]:
        """Return the figures since the previous sample, by connector."""
        now = self._clock()
        seconds, self._at = max(now - self._at, 0.001), now
        before, self._before = self._before, {}
        found: dict[str, StepFigures] = {}
        for task, metrics in self._tasks().items():
            transferred = metrics.transferred
            records = transferred.counts.records
            known, counted = before.get(task, (metrics, 0))
            more = records - (counted if known is metrics else 0)
            self._before[task] = metrics, records
            rate, lag = found.get(task.connector, StepFigures(0.0, 0.0))
            found[task.connector] = StepFigures(rate + more / seconds, lag + transferred.lag)
        return found
