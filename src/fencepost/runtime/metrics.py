"""Metrics of tasks, under the names that Strimzi's rules give to Connect's, so that existing dashboards show them."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from fencepost.config.ids import ConnectorTaskId
from fencepost.runtime.task_state import State
from fencepost.runtime.windowed import Windowed

_MS: Final = 1000.0
_LABELS: Final = ("connector", "task")
_TASK: Final = "kafka_connect_connector_task_"
_SOURCE: Final = "kafka_connect_source_task_"

GAUGES: Final = {
    f"{_TASK}running_ratio": "The part of its time that the task was RUNNING",
    f"{_TASK}pause_ratio": "The part of its time that the task was PAUSED",
    f"{_TASK}batch_size_avg": "Average number of records in the batches of the last minute",
    f"{_TASK}batch_size_max": "Greatest number of records in a batch of the last minute",
    f"{_TASK}offset_commit_avg_time_ms": "Average time of the last minute's commits, in milliseconds",
    f"{_TASK}offset_commit_max_time_ms": "Longest time of the last minute's commits, in milliseconds",
    f"{_TASK}offset_commit_success_percentage": "The part of the last minute's commits that succeeded, 0 to 1",
    f"{_TASK}offset_commit_failure_percentage": "The part of the last minute's commits that failed, 0 to 1",
    f"{_SOURCE}source_record_poll_rate": "Records per second that the source returned in the last minute",
    f"{_SOURCE}source_record_write_rate": "Records per second that were written to Kafka in the last minute",
    f"{_SOURCE}poll_batch_avg_time_ms": "Average time of the last minute's polls, in milliseconds",
    f"{_SOURCE}poll_batch_max_time_ms": "Longest time of the last minute's polls, in milliseconds",
    f"{_SOURCE}source_record_active_count": "Records that were polled and are not yet committed",
    f"{_SOURCE}source_record_active_count_avg": "Average of the active count in the last minute",
    f"{_SOURCE}source_record_active_count_max": "Greatest active count in the last minute",
    f"{_SOURCE}transaction_size_min": "Least number of records in a transaction committed in the last minute",
    f"{_SOURCE}transaction_size_max": "Greatest number of records in a transaction committed in the last minute",
    f"{_SOURCE}transaction_size_avg": "Average number of records in the transactions committed in the last minute",
}
COUNTERS: Final = {
    f"{_SOURCE}source_record_poll": "Records that the source returned, before transforms",
    f"{_SOURCE}source_record_write": "Records that were written to Kafka, after transforms",
}
_STATUS: Final = f"{_TASK}status"


class TaskMetrics:
    """What one task measures of itself. `clock` gives seconds. Safe for several threads."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._state = State.UNASSIGNED
        self._since = self._created = clock()
        self._time_in: dict[State, float] = {}
        self._polled = 0
        self._written = 0
        self._active = 0
        self._poll_records, self._poll_time, self._writes = Windowed(), Windowed(), Windowed()
        self._batch_size, self._active_count, self._transaction_size = Windowed(), Windowed(), Windowed()
        self._commit_time, self._commits = Windowed(), Windowed()

    def state(self, state: State) -> None:
        """Take note of the task's state."""
        with self._lock:
            now = self._clock()
            self._time_in[self._state] = self._time_in.get(self._state, 0.0) + now - self._since
            self._state, self._since = state, now

    def polled(self, seconds: float) -> None:
        """Take note of a poll that returned something."""
        with self._lock:
            self._poll_time.record(seconds * _MS, self._clock())

    def wrote(self, polled: int, written: int) -> None:
        """Take note of a batch: its records before and after the transforms."""
        with self._lock:
            now = self._clock()
            self._polled += polled
            self._written += written
            self._active += written
            self._poll_records.record(polled, now)
            self._batch_size.record(polled, now)
            self._writes.record(written, now)
            self._active_count.record(self._active, now)

    def committed(self, size: int, seconds: float) -> None:
        """Take note of a committed transaction that held `size` records."""
        with self._lock:
            now = self._clock()
            self._transaction_size.record(size, now)
            self._commit_time.record(seconds * _MS, now)
            self._commits.record(1, now)
            self._done(size, now)

    def commit_failed(self) -> None:
        """Take note of a commit that failed."""
        with self._lock:
            self._commits.record(0, self._clock())

    def aborted(self, size: int) -> None:
        """Take note of an aborted transaction that held `size` records."""
        with self._lock:
            self._done(size, self._clock())

    def _done(self, size: int, now: float) -> None:
        self._active -= size
        self._active_count.record(self._active, now)

    def snapshot(self) -> tuple[State, dict[str, float]]:
        """Return the state, and the value of each gauge and counter."""
        with self._lock:
            now = self._clock()
            success = self._commits.average(now)
            gauges = (
                self._ratio(State.RUNNING, now),
                self._ratio(State.PAUSED, now),
                self._batch_size.average(now),
                self._batch_size.maximum(now),
                self._commit_time.average(now),
                self._commit_time.maximum(now),
                0.0 if math.isnan(success) else success,
                0.0 if math.isnan(success) else 1.0 - success,
                self._poll_records.rate(now),
                self._writes.rate(now),
                self._poll_time.average(now),
                self._poll_time.maximum(now),
                float(self._active),
                self._active_count.average(now),
                self._active_count.maximum(now),
                self._transaction_size.minimum(now),
                self._transaction_size.maximum(now),
                self._transaction_size.average(now),
            )
            counters = (float(self._polled), float(self._written))
            return self._state, dict(zip((*GAUGES, *COUNTERS), gauges + counters, strict=True))

    def _ratio(self, state: State, now: float) -> float:
        total = now - self._created
        current = now - self._since if self._state is state else 0.0
        return (self._time_in.get(state, 0.0) + current) / total if total else 0.0


class WorkerMetrics(Collector):
    """The metrics of a worker's tasks, in a registry of their own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry(auto_describe=False)
        self._tasks: dict[ConnectorTaskId, TaskMetrics] = {}
        self._lock = threading.Lock()
        self.registry.register(self)

    def add(self, task: ConnectorTaskId) -> TaskMetrics:
        """Return the metrics of a task that starts; those of an earlier run of it are forgotten."""
        metrics = TaskMetrics()
        with self._lock:
            self._tasks[task] = metrics
        return metrics

    def remove(self, task: ConnectorTaskId) -> None:
        """Forget a task."""
        with self._lock:
            self._tasks.pop(task, None)

    def describe(self) -> Iterable[Metric]:
        """Return nothing: the registry need not collect in order to register."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """Yield every metric with a value for each task."""
        with self._lock:
            tasks = sorted(self._tasks.items())
        snapshots = [((id_.connector, str(id_.task)), *metrics.snapshot()) for id_, metrics in tasks]
        for name, documentation in GAUGES.items():
            gauge = GaugeMetricFamily(name, documentation, labels=_LABELS)
            for labels, _, values in snapshots:
                gauge.add_metric(labels, values[name])
            yield gauge
        for name, documentation in COUNTERS.items():
            counter = CounterMetricFamily(name, documentation, labels=_LABELS)
            for labels, _, values in snapshots:
                counter.add_metric(labels, values[name])
            yield counter
        status = GaugeMetricFamily(_STATUS, "1 for the state that the task is in", labels=(*_LABELS, "status"))
        for labels, state, _ in snapshots:
            status.add_metric((*labels, state.lower()), 1.0)
        yield status
