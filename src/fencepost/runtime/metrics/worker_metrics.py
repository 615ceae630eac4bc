"""The metrics of a worker, its connectors and its tasks, for Prometheus."""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from fencepost.config.ids import ConnectorTaskId
from fencepost.runtime.connector.source_connector import WorkerConnector
from fencepost.runtime.metrics.definitions import (
    CONNECTOR_TEXTS,
    PENDING_COPIES,
    TASK_BYTES,
    TASK_COUNTS,
    TASK_HISTOGRAMS,
    TASK_STATUS,
    TASK_VALUES,
    WORKER_PREFIX,
    WORKER_VALUES,
    single_values,
    with_prefix,
)
from fencepost.runtime.metrics.task_metrics import Activity, TaskMetrics, TaskSnapshot
from fencepost.runtime.plugin_metrics import MetricKinds, PluginSample, Sample, families
from fencepost.runtime.state import State

_COUNTED: Final[Mapping[str, State | None]] = {
    f"{WORKER_PREFIX}connector_{which}_task_count": state
    for which, state in {
        "total": None,
        "running": State.RUNNING,
        "paused": State.PAUSED,
        "failed": State.FAILED,
        "unassigned": State.UNASSIGNED,
        "destroyed": State.STOPPED,
        "restarting": State.RESTARTING,
    }.items()
}
"""For each metric that counts a connector's tasks: the state of the tasks that it counts; None stands for all tasks."""

_CLASS: Final = "connector.class"

_Tasks = list[tuple[ConnectorTaskId, TaskSnapshot]]


class Startups:
    """Counts the results of starts of connectors, or of tasks. Thread-safe."""

    def __init__(self) -> None:
        self._counts: Counter[bool] = Counter()
        self._lock = threading.Lock()

    def record(self, success: bool) -> None:
        """Record a start."""
        with self._lock:
            self._counts[success] += 1

    def values(self, what: str) -> dict[str, float]:
        """Return the values of the metrics of starts, by name. `what` is `connector` or `task`."""
        with self._lock:
            good, bad = self._counts[True], self._counts[False]
        attempts = good + bad
        return with_prefix(
            f"{WORKER_PREFIX}{what}_startup_",
            attempts_total=attempts,
            success_total=good,
            failure_total=bad,
            success_percentage=good / attempts if attempts else 0.0,
            failure_percentage=bad / attempts if attempts else 0.0,
        )


@dataclass(frozen=True, slots=True)
class _Connector:
    """The values that are shown for a connector. `state` is thread-safe."""

    connector_class: str
    version: str
    state: Callable[[], State]
    plugin_samples: Callable[[], Sequence[PluginSample]] = lambda: ()


class WorkerMetrics(Collector):
    """The metrics of a worker, in their own registry. Thread-safe."""

    def __init__(self, pending_copies: Callable[[], float] = lambda: 0.0) -> None:
        """`pending_copies` returns the number of offsets not yet copied to the worker's offsets topic."""
        self._pending_copies = pending_copies
        self.registry = CollectorRegistry(auto_describe=False)
        self.kinds = MetricKinds()
        """The types of the metrics that plugins have added."""
        self.connector_startups, self._task_startups = Startups(), Startups()
        self.on_task: Callable[[ConnectorTaskId, TaskMetrics], None] = lambda *_: None
        """Called with the metrics of each task that starts, on any thread."""
        self.on_delete: Callable[[str], None] = lambda _: None
        """Called with the name of each connector that a standalone worker deletes."""
        self._tasks: dict[ConnectorTaskId, TaskMetrics] = {}
        self._connectors: dict[str, _Connector] = {}
        self._lock = threading.Lock()
        self._process = ProcessCollector(registry=None)
        self.registry.register(self)

    def add(self, task: ConnectorTaskId) -> TaskMetrics:
        """Return the metrics of a starting task; metrics of an earlier start are dropped."""
        metrics = TaskMetrics(on_start=self._task_startups.record, kinds=self.kinds)
        with self._lock:
            self._tasks[task] = metrics
        self.on_task(task, metrics)
        return metrics

    def remove(self, task: ConnectorTaskId) -> None:
        """Remove a task."""
        with self._lock:
            self._tasks.pop(task, None)

    def add_connector(self, connector: WorkerConnector) -> None:
        """Add a connector."""
        properties = connector.config.properties
        view = _Connector(
            properties.get(_CLASS, ""), connector.version, lambda: connector.state, connector.plugin_samples
        )
        with self._lock:
            self._connectors[connector.config.name] = view

    def add_failed_connector(self, name: str, properties: Mapping[str, str | None]) -> None:
        """Add a connector that could not be created."""
        with self._lock:
            self._connectors[name] = _Connector(properties.get(_CLASS) or "", "", lambda: State.FAILED)

    def connector_restarts(self, name: str) -> None:
        """Show a failed connector as a connector that will be restarted."""
        with self._lock:
            if name in self._connectors:
                self._connectors[name] = replace(self._connectors[name], state=lambda: State.RESTARTING)

    def remove_connector(self, name: str) -> None:
        """Remove a connector."""
        with self._lock:
            self._connectors.pop(name, None)

    def tasks(self) -> Mapping[ConnectorTaskId, TaskMetrics]:
        """Return the metrics of this worker's tasks."""
        with self._lock:
            return dict(self._tasks)

    def activities(self, connector: str | None) -> Mapping[ConnectorTaskId, Activity]:
        """Return the activities of this worker's tasks, of one connector or of all."""
        with self._lock:
            tasks = sorted(self._tasks.items())
        return {task: metrics.activity() for task, metrics in tasks if connector in (None, task.connector)}

    def describe(self) -> Iterable[Metric]:
        """Return nothing, so that registering does not collect the metrics."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """Yield every metric with its values."""
        with self._lock:
            tasks = sorted(self._tasks.items())
            connectors = sorted(self._connectors.items(), key=lambda item: item[0])
        snapshots = [(task, metrics.snapshot()) for task, metrics in tasks]
        yield from _of_connectors(connectors)
        yield from _of_tasks(snapshots)
        yield from _of_task_counts(snapshots)
        counts = with_prefix(WORKER_PREFIX, connector_count=len(connectors), task_count=len(tasks))
        startups = self.connector_startups.values("connector") | self._task_startups.values("task")
        yield from single_values(WORKER_VALUES, counts | startups)
        yield from families(_of_plugins(tasks, connectors))
        yield PENDING_COPIES.metric([((), self._pending_copies())])
        yield from self._process.collect()


def _of_connectors(connectors: Sequence[tuple[str, _Connector]]) -> Iterator[Metric]:
    texts = [
        (
            name,
            {
                "status": connector.state().lower(),
                "connector_type": "source",
                "connector_class": connector.connector_class,
                "connector_version": connector.version,
            },
        )
        for name, connector in connectors
    ]
    for label, definition in CONNECTOR_TEXTS.items():
        yield definition.metric(((name, of[label]), 1.0) for name, of in texts)


def _of_plugins(
    tasks: Sequence[tuple[ConnectorTaskId, TaskMetrics]], connectors: Sequence[tuple[str, _Connector]]
) -> Iterator[Sample]:
    for task, metrics in tasks:
        labels = {"connector": task.connector, "task": str(task.task)}
        yield from ((labels, sample) for sample in metrics.plugin_samples())
    for name, connector in connectors:
        yield from (({"connector": name}, sample) for sample in connector.plugin_samples())


def _of_tasks(tasks: _Tasks) -> Iterator[Metric]:
    labelled = [((task.connector, str(task.task)), snapshot) for task, snapshot in tasks]
    for name, definition in TASK_VALUES.items():
        yield definition.metric((labels, of.values[name]) for labels, of in labelled)
    for name, definition in TASK_HISTOGRAMS.items():
        yield definition.histogram((labels, of.histograms[name]) for labels, of in labelled)
    yield TASK_BYTES.metric(((f"connector-producer-{task}",), of.sent) for task, of in tasks)
    yield TASK_STATUS.metric(((*labels, of.state.lower()), 1.0) for labels, of in labelled)


def _of_task_counts(tasks: _Tasks) -> Iterator[Metric]:
    counts: defaultdict[str, Counter[State | None]] = defaultdict(Counter)
    for task, snapshot in tasks:
        counts[task.connector].update((None, snapshot.state))
    for metric, definition in TASK_COUNTS.items():
        state = _COUNTED[metric]
        yield definition.metric(((name,), of[state]) for name, of in counts.items())
