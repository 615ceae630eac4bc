"""A plugin's own metrics (KIP-877), which the worker shows together with its own metrics at `GET /metrics`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class MetricName:
    """A metric of a plugin.

    `tags` are shown as labels, in addition to the worker's labels such as `connector` and `task`.
    """

    name: str
    description: str
    tags: tuple[tuple[str, str], ...] = ()


class PluginCounter(Protocol):
    """Counts something, starting at 0. Thread-safe.

    A counter may be pickled to Spark's executors. The worker adds values that are counted there when the Spark task
    succeeds; the values of a Spark task that fails are lost.
    """

    @property
    def name(self) -> MetricName:
        """The name of the counter, in the form that `remove_metric` accepts."""

    def increment(self, amount: float = 1) -> None:
        """Add to the count. Raises ValueError for a negative amount."""


class PluginMetrics(Protocol):
    """Adds metrics of a plugin, at most 100. Thread-safe. The metrics are removed when the connector or the task stops.

    A metric `records-skipped` is shown as `kafka_connect_plugins_records_skipped`; for a counter, `_total` is appended.

    This object may be pickled to Spark's executors, where counters can also be added. Measurables are called in the
    worker, so a measurable that is added on an executor is not shown.
    """

    def add_metric(
        self, name: str, description: str, measurable: Callable[[], float], *, tags: Mapping[str, str] | None = None
    ) -> MetricName:
        """Add a metric whose value `measurable` returns.

        The worker calls `measurable` on one of its own threads. It must return quickly.

        If `measurable` raises an exception, or does not return within a second, NaN is shown. Names are 1 to 100
        letters, digits, `_`, `-` and `.`, and begin with a letter. Raises ValueError for another name or tag, for a
        metric that already exists, for a metric that is a counter elsewhere in the worker, and if there are too many
        metrics.
        """

    def add_counter(self, name: str, description: str, *, tags: Mapping[str, str] | None = None) -> PluginCounter:
        """Add a counter. Raises the same errors as `add_metric`."""

    def add_collector(self, collect: Callable[[], Iterable[tuple[MetricName, float]]]) -> None:
        """Add metrics that another program keeps. `collect` returns the metrics that exist, with their values.

        The worker calls `collect` on one of its own threads. It must return within a second. Characters that a name
        cannot have become `_`; a name that ends in `total` is the name of a counter. Exceptions, and values that do not
        fit the type that the name implies, are logged once and not shown.
        """

    def remove_metric(self, metric: MetricName) -> None:
        """Remove a metric. A metric that does not exist is ignored."""


class Monitorable(ABC):
    """A converter, header converter, transform or predicate that has metrics of its own (KIP-877)."""

    @abstractmethod
    def with_plugin_metrics(self, metrics: PluginMetrics) -> None:
        """Add the plugin's metrics. This is called once, after `configure`.

        In addition to `connector` and `task` the metrics have the label `converter` (`key`, `value` or `header`), or
        `transformation` with the transform's alias. A predicate's metrics also have `predicate` with its alias. Metrics
        are shown only for plugins of a running task, and not in a validation, in the Spark sink, or in tests.
        """
