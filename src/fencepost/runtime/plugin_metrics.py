"""The metrics that a connector or a task adds itself (KIP-877)."""

from __future__ import annotations

import logging
import math
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import StrEnum
from typing import Final, NamedTuple

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric

from fencepost.api.errors import describe_error
from fencepost.api.plugin_metrics import MetricName
from fencepost.api.secrets import SECRETS

PREFIX: Final = "kafka_connect_plugins_"

_log: Final = logging.getLogger(__name__)

_MOST: Final = 100
_MOST_NAMES: Final = 10_000
_LONGEST_TEXT: Final = 200
_ANSWER_S: Final = 1.0
_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,99}")
_TAG: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,99}")
_OWN_LABELS: Final = frozenset({"connector", "task"})

Sample = tuple[Mapping[str, str], "PluginSample"]
"""A value, and the labels that say whose it is."""


class PluginMetricType(StrEnum):
    """The kind of a value: the current one, or a count that only rises."""

    GAUGE = "gauge"
    COUNTER = "counter"


class PluginSample(NamedTuple):
    """A metric's value."""

    metric: MetricName
    type: PluginMetricType
    value: float


class MetricKinds:
    """The type of each metric's name in a worker: Prometheus allows one. Thread-safe."""

    def __init__(self) -> None:
        self._kinds: dict[str, PluginMetricType] = {}
        self._lock = threading.Lock()

    def claim(self, name: str, kind: PluginMetricType) -> None:
        """Use a name for a type. Raises ValueError if it is another one's."""
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
    """Implements `fencepost.PluginCounter`."""

    def __init__(self, name: MetricName) -> None:
        self.name = name
        self.value = 0.0
        self._lock = threading.Lock()

    def increment(self, amount: float = 1) -> None:
        """Add to the count."""
        if not amount >= 0:
            raise ValueError(f"A counter cannot be raised by {amount}: give a number from 0 on")
        with self._lock:
            self.value += amount


class WorkerPluginMetrics:
    """Implements `fencepost.PluginMetrics`, for one plugin from its start to its stop."""

    def __init__(self, owner: str = "a plugin", kinds: MetricKinds | None = None) -> None:
        """`owner` is for messages: the task, or the connector."""
        self._owner = owner
        self._kinds = kinds or MetricKinds()
        self._lock = threading.Lock()
        self._measurables: dict[MetricName, Callable[[], float]] = {}
        self._counters: dict[MetricName, _Counter] = {}
        self._failed: set[MetricName] = set()
        self._measuring: threading.Thread | None = None

    def add_metric(
        self, name: str, description: str, measurable: Callable[[], float], *, tags: Mapping[str, str] | None = None
    ) -> MetricName:
        """Add a metric whose value `measurable` returns."""
        added = _metric_name(name, description, tags)
        with self._lock:
            self._claim(added, PluginMetricType.GAUGE)
            self._measurables[added] = measurable
        return added

    def add_counter(self, name: str, description: str, *, tags: Mapping[str, str] | None = None) -> _Counter:
        """Add a counter."""
        added = _metric_name(name, description, tags)
        with self._lock:
            self._claim(added, PluginMetricType.COUNTER)
            counter = self._counters[added] = _Counter(added)
        return counter

    def remove_metric(self, metric: MetricName) -> None:
        """Remove a metric."""
        with self._lock:
            self._measurables.pop(metric, None)
            self._counters.pop(metric, None)

    def samples(self) -> list[PluginSample]:
        """Return all values. Metrics that their plugin does not report in time are NaN."""
        with self._lock:
            measurables = dict(self._measurables)
            samples = [
                PluginSample(name, PluginMetricType.COUNTER, each.value) for name, each in self._counters.items()
            ]
        values = self._measure(measurables) if measurables else {}
        return samples + [
            PluginSample(name, PluginMetricType.GAUGE, values.get(name, math.nan)) for name in measurables
        ]

    def _claim(self, added: MetricName, kind: PluginMetricType) -> None:
        """Check that a metric may be added. Called under the lock."""
        known = [*self._measurables, *self._counters]
        if any((other.name, other.tags) == (added.name, added.tags) for other in known):
            raise ValueError(
                f"The metric {added.name} with these tags was added already: remove it first, or use other tags"
            )
        if len(known) >= _MOST:
            raise ValueError(f"The metric {added.name} is one too many: a plugin may have {_MOST} metrics")
        self._kinds.claim(added.name, kind)

    def _measure(self, measurables: Mapping[MetricName, Callable[[], float]]) -> Mapping[MetricName, float]:
        # A plugin's code may hang, which must not keep the others' metrics from being shown.
        with self._lock:
            if self._measuring is not None and self._measuring.is_alive():
                return {}
            measured: dict[MetricName, float] = {}
            self._measuring = threading.Thread(
                target=self._call, args=[measurables, measured], name="plugin-metrics", daemon=True
            )
            self._measuring.start()
            thread = self._measuring
        thread.join(_ANSWER_S)
        return dict(measured)

    def _call(self, measurables: Mapping[MetricName, Callable[[], float]], measured: dict[MetricName, float]) -> None:
        for name, measurable in measurables.items():
            try:
                measured[name] = float(measurable())
            except BaseException as error:  # noqa: BLE001 - a plugin may raise anything, SystemExit too
                if name not in self._failed:
                    self._failed.add(name)
                    _log.warning("The metric %s of %s has no value: %s", name.name, self._owner, describe_error(error))


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


def _metric_name(name: str, description: str, tags: Mapping[str, str] | None) -> MetricName:
    if not _NAME.fullmatch(name):
        raise ValueError(f"The name {name!r} of a metric is invalid: use 1 to 100 letters, digits, '_', '-' and '.'")
    for tag in tags or {}:
        if not _TAG.fullmatch(tag) or tag in _OWN_LABELS:
            raise ValueError(
                f"The tag {tag!r} of the metric {name} is invalid: use letters, digits and '_', but not 'connector' or 'task'"
            )
    shown = {tag: SECRETS.hidden(str(text))[:_LONGEST_TEXT] for tag, text in (tags or {}).items()}
    plain = re.sub(r"[.-]", "_", name).removesuffix("_total")
    return MetricName(plain, SECRETS.hidden(description)[:_LONGEST_TEXT], tuple(sorted(shown.items())))
