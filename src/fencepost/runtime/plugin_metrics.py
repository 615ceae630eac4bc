"""Metrics that plugins themselves add (KIP-877)."""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from enum import StrEnum
from typing import Any, Final, NamedTuple

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric

from fencepost.api.errors import describe_error
from fencepost.api.plugin_metrics import MetricName
from fencepost.engine.plugin_counts import (
    DetachedCounter,
    DetachedMetrics,
    PluginCounts,
    check_addition,
    checked_amount,
    collected_name,
    identity,
    metric_name,
)

PREFIX: Final = "kafka_connect_plugins_"

_log: Final = logging.getLogger(__name__)

_MOST_NAMES: Final = 10_000
_ANSWER_S: Final = 1.0

_TOTAL: Final = "total"

Collector = Callable[[], Iterable[tuple[MetricName, float]]]
"""Returns the metrics that another program keeps, with their values."""

Sample = tuple[Mapping[str, str], "PluginSample"]
"""The labels that identify a value's owner, and the value."""


class PluginMetricType(StrEnum):
    """The kind of a value: a current value, or a count that only rises."""

    GAUGE = "gauge"
    COUNTER = "counter"


class PluginSample(NamedTuple):
    """A metric's name, type and value."""

    metric: MetricName
    type: PluginMetricType
    value: float


class MetricKinds:
    """The type of each metric name in a worker: Prometheus allows only one type per name. Thread-safe."""

    def __init__(self) -> None:
        self._kinds: dict[str, PluginMetricType] = {}
        self._lock = threading.Lock()

    def claim(self, name: str, kind: PluginMetricType) -> None:
        """Use a name for metrics of a type. Raises ValueError if the name has another type."""
        with self._lock:
            if len(self._kinds) >= _MOST_NAMES and name not in self._kinds:
                raise ValueError(
                    f"Plugins of this worker have added {_MOST_NAMES} names of metrics: use fewer, and tags"
                )
            known = self._kinds.setdefault(name, kind)
        if known is not kind:
            raise ValueError(
                f"The metric {name} cannot be a {kind}: a plugin of this worker has a {known} of that name"
            )


class _Counter:
    """Implements `fencepost.PluginCounter`. If it is pickled, the copy counts on an executor."""

    def __init__(self, name: MetricName, detached_arguments: Callable[[], tuple[Any, ...]]) -> None:
        """`detached_arguments` returns the picklable arguments of a copy that counts on an executor."""
        self.name = name
        self.value = 0.0
        self._detached_arguments = detached_arguments
        self._lock = threading.Lock()

    def increment(self, amount: float = 1) -> None:
        """Add to the count."""
        with self._lock:
            self.value += checked_amount(amount)

    def __reduce__(self) -> tuple[Any, ...]:
        return DetachedCounter, (self.name, *self._detached_arguments())


class WorkerPluginMetrics:
    """Implements `fencepost.PluginMetrics`, for one plugin from its start to its stop.

    A pickled copy is a DetachedMetrics, whose counts come back through `counts`.
    """

    def __init__(
        self,
        owner: str = "a plugin",
        kinds: MetricKinds | None = None,
        *,
        labels: Mapping[str, str] | None = None,
        counts: PluginCounts | None = None,
    ) -> None:
        """`owner` is the task or the connector, for messages. `labels` are added to the tags of each metric."""
        self._owner = owner
        self._kinds = kinds or MetricKinds()
        self._labels = tuple((labels or {}).items())
        self._counts = counts
        self._token = counts.register(self._count) if counts is not None else ""
        self._lock = threading.Lock()
        self._measurables: dict[MetricName, Callable[[], float]] = {}
        self._counters: dict[MetricName, _Counter] = {}
        self._collectors: list[Collector] = []
        self._arrived: set[MetricName] = set()
        """Counters that were added only on executors."""
        self._failed: set[object] = set()
        self._warned_of_losses = False
        self._measuring: threading.Thread | None = None

    def add_metric(
        self, name: str, description: str, measurable: Callable[[], float], *, tags: Mapping[str, str] | None = None
    ) -> MetricName:
        """Add a metric whose value `measurable` returns."""
        added = self._name(name, description, tags)
        with self._lock:
            self._claim(added, PluginMetricType.GAUGE)
            self._measurables[added] = measurable
        return added

    def add_counter(self, name: str, description: str, *, tags: Mapping[str, str] | None = None) -> _Counter:
        """Add a counter. If executors have already added it, their counts are kept."""
        added = self._name(name, description, tags)
        with self._lock:
            known = self._counter(added)
            if known is not None and known.name in self._arrived:
                self._arrived.discard(known.name)
                return known
            return self._new_counter(added)

    def add_collector(self, collect: Collector) -> None:
        """Add metrics that another program keeps."""
        with self._lock:
            self._collectors.append(collect)

    def remove_metric(self, metric: MetricName) -> None:
        """Remove a metric."""
        with self._lock:
            self._measurables.pop(metric, None)
            self._counters.pop(metric, None)
            self._arrived.discard(metric)

    def close(self) -> None:
        """Ignore counts that executors send from now on."""
        if self._counts is not None:
            self._counts.forget(self._token)

    def samples(self) -> list[PluginSample]:
        """Return all values. If a plugin does not report a metric in time, its value is NaN."""
        with self._lock:
            measurables, collectors = dict(self._measurables), list(self._collectors)
            samples = [
                PluginSample(self._labelled(name), PluginMetricType.COUNTER, each.value)
                for name, each in self._counters.items()
            ]
        values, collected = self._measure(measurables, collectors) if measurables or collectors else ({}, [])
        gauges = [
            PluginSample(self._labelled(name), PluginMetricType.GAUGE, values.get(name, math.nan))
            for name in measurables
        ]
        return [*samples, *gauges, *collected]

    def __reduce__(self) -> tuple[Any, ...]:
        return DetachedMetrics, self._detached_arguments()

    def _name(self, name: str, description: str, tags: Mapping[str, str] | None) -> MetricName:
        return metric_name(name, description, tags, dict(self._labels))

    def _labelled(self, metric: MetricName) -> MetricName:
        return replace(metric, tags=self._labels + metric.tags) if self._labels else metric

    def _detached_arguments(self) -> tuple[Any, ...]:
        return (self._token, None if self._counts is None else self._counts.accumulator())

    def _counter(self, metric: MetricName) -> _Counter | None:
        """Return a counter if it exists. Called under the lock."""
        return next((each for each in self._counters.values() if identity(each.name) == identity(metric)), None)

    def _claim(self, added: MetricName, kind: PluginMetricType) -> None:
        """Check that a metric may be added. Called under the lock."""
        check_addition(added, {identity(known) for known in (*self._measurables, *self._counters)})
        self._kinds.claim(added.name, kind)

    def _new_counter(self, added: MetricName) -> _Counter:
        """Add a counter. Called under the lock."""
        self._claim(added, PluginMetricType.COUNTER)
        counter = self._counters[added] = _Counter(added, self._detached_arguments)
        return counter

    def _count(self, metric: MetricName, amount: float) -> None:
        """Add a count from an executor. Raises nothing, because Spark calls it."""
        try:
            with self._lock:
                counter = self._counter(metric)
                if counter is None:
                    added = self._name(metric.name, metric.description, dict(metric.tags))
                    counter = self._new_counter(added)
                    self._arrived.add(added)
            counter.increment(amount)
        except Exception as error:  # noqa: BLE001 - see above
            if not self._warned_of_losses:
                self._warned_of_losses = True
                _log.warning(
                    "A metric that %s counts on Spark's executors is not shown: %s", self._owner, describe_error(error)
                )

    def _measure(
        self, measurables: Mapping[MetricName, Callable[[], float]], collectors: Iterable[Collector]
    ) -> tuple[Mapping[MetricName, float], list[PluginSample]]:
        # A plugin's code may hang. That must not prevent other plugins' metrics from being shown.
        with self._lock:
            if self._measuring is not None and self._measuring.is_alive():
                return {}, []
            measured: dict[MetricName, float] = {}
            collected: list[PluginSample] = []
            self._measuring = threading.Thread(
                target=self._call,
                args=[measurables, measured, collectors, collected],
                name="plugin-metrics",
                daemon=True,
            )
            self._measuring.start()
            thread = self._measuring
        thread.join(_ANSWER_S)
        return dict(measured), list(collected)

    def _call(
        self,
        measurables: Mapping[MetricName, Callable[[], float]],
        measured: dict[MetricName, float],
        collectors: Iterable[Collector],
        collected: list[PluginSample],
    ) -> None:
        for name, measurable in measurables.items():
            try:
                measured[name] = float(measurable())
            except BaseException as error:  # noqa: BLE001 - a plugin may raise anything, SystemExit too
                if name not in self._failed:
                    self._failed.add(name)
                    _log.warning("The metric %s of %s has no value: %s", name.name, self._owner, describe_error(error))
        for collect in collectors:
            try:
                collected += self._collected(collect)
            except BaseException as error:  # noqa: BLE001 - likewise
                self._warn_once(collect, error)

    def _collected(self, collect: Collector) -> Iterator[PluginSample]:
        for metric, value in collect():
            name = self._labelled(collected_name(metric))
            kind = PluginMetricType.COUNTER if metric.name.endswith(_TOTAL) else PluginMetricType.GAUGE
            try:
                self._kinds.claim(name.name, kind)
            except ValueError as error:
                self._warn_once(name.name, error)
            else:
                yield PluginSample(name, kind, value)

    def _warn_once(self, what: object, error: BaseException) -> None:
        if what not in self._failed:
            self._failed.add(what)
            _log.warning("Metrics of %s are not shown: %s", self._owner, describe_error(error))


def families(samples: Iterable[Sample]) -> Iterator[Metric]:
    """Yield the metrics of plugins for Prometheus."""
    found: dict[str, Metric] = {}
    for labels, (metric, kind, value) in samples:
        name = PREFIX + metric.name
        family = found.get(name)
        if family is None:
            of = CounterMetricFamily if kind is PluginMetricType.COUNTER else GaugeMetricFamily
            family = found[name] = of(name, metric.description)
        sample = f"{name}_total" if kind is PluginMetricType.COUNTER else name
        family.add_sample(sample, {**labels, **dict(metric.tags)}, value)
    yield from found.values()
