"""The totals that a process's connectors have transferred since its start, including restarts of their tasks."""

from __future__ import annotations

import math
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from fencepost.config.ids import ConnectorTaskId
from fencepost.runtime.metrics.task_metrics import TaskMetrics
from fencepost.runtime.metrics.transaction_metrics import TransferCounts

_OVER: Final = TransferCounts()


@dataclass(frozen=True, slots=True)
class Transfer:
    """The transfer of a connector: its counts, and the share of its source that `poll` has returned so far.

    The share is between 0 and 1; None if a task does not know how much is left.
    """

    counts: TransferCounts
    share: float | None


class Transfers:
    """Adds up the tasks of each connector. Thread-safe.

    The worker calls `watch` for each task that starts, and `forget` for each connector that is deleted.
    """

    def __init__(self) -> None:
        self._current: dict[ConnectorTaskId, TaskMetrics] = {}
        self._past: dict[str, TransferCounts] = {}
        self._lock = threading.Lock()

    def watch(self, task: ConnectorTaskId, metrics: TaskMetrics) -> None:
        """From now on, count the transfer of a task. The counts of its previous runs stay."""
        with self._lock:
            former = self._current.get(task)
            if former is not None:
                counts = former.transferred.counts
                self._past[task.connector] = self._past.get(task.connector, _OVER) + counts.settled()
            self._current[task] = metrics

    def forget(self, connector: str) -> None:
        """Drop the counts of a connector. A new connector with this name begins at 0."""
        with self._lock:
            self._past.pop(connector, None)
            self._current = {task: of for task, of in self._current.items() if task.connector != connector}

    def of_connectors(self) -> Mapping[str, Transfer]:
        """Return the transfer of each connector that has had a task, by name."""
        with self._lock:
            tasks = sorted(self._current.items())
            past = dict(self._past)
        counts: dict[str, TransferCounts] = {}
        lags: dict[str, tuple[float, float]] = {}
        for task, metrics in tasks:
            name, transferred = task.connector, metrics.transferred
            counts[name] = counts.get(name, past.get(name, _OVER)) + transferred.counts
            lag, most = lags.get(name, (0.0, 0.0))
            lags[name] = lag + transferred.lag, most + transferred.greatest_lag
        return {name: Transfer(counts[name], _share(*lags[name])) for name in counts}


def _share(lag: float, greatest_lag: float) -> float | None:
    if math.isnan(lag) or math.isnan(greatest_lag):
        return None
    return 1.0 if greatest_lag == 0 else 1 - lag / greatest_lag
