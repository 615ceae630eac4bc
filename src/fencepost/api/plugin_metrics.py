"""A plugin's own metrics (KIP-877), which the worker shows with its own at `GET /metrics`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class MetricName:
    """A metric of a plugin. `tags` are shown as labels, next to the worker's, such as `connector` and `task`."""

    name: str
    description: str
    tags: tuple[tuple[str, str], ...] = ()


class PluginCounter(Protocol):
    """Counts something, from 0 on. Thread-safe.

    It may be pickled to Spark's executors. Values counted there are added in the worker when a Spark task ends well,
    and are lost with a task that fails.
    """

    @property
    def name(self) -> MetricName:
        """The counter in the form that `remove_metric` takes."""

    def increment(self, amount: float = 1) -> None:
        """Add to the count. Raises ValueError for a negative amount."""


class PluginMetrics(Protocol):
    """Adds metrics of a plugin, up to 100. Thread-safe. They go when the connector or the task stops.

    A metric `records-skipped` is shown as `kafka_connect_plugins_records_skipped`, a counter with `_total` after that.

    It may be pickled to Spark's executors, where counters can be added as well. A measurable asks the plugin in the worker;
    one that is added on an executor is not shown.
    """

    def add_metric(
        self, name: str, description: str, measurable: Callable[[], float], *, tags: Mapping[str, str] | None = None
    ) -> MetricName:
        """Add a metric whose value `measurable` returns. It is called on a thread of the worker, and must return soon.

        An exception in it, or a second without an answer, is shown as NaN. Names are 1 to 100 letters, digits, `_`, `-`
        and `.`, and begin with a letter. Raises ValueError for another name or tag, for a metric that is there already,
        for one that is a counter elsewhere in the worker, and beyond the limit.
        """

    def add_counter(self, name: str, description: str, *, tags: Mapping[str, str] | None = None) -> PluginCounter:
        """Add a counter. Raises as `add_metric`."""

    def add_collector(self, collect: Callable[[], Iterable[tuple[MetricName, float]]]) -> None:
        """Add metrics that another program keeps: `collect` returns those that there are, with their values.

        It is called on a thread of the worker, and must return within a second. Characters that a name cannot have become
        `_`; a name that ends in `total` is a counter's. An exception, and a value of another type than the name has, are
        logged once, and not shown.
        """

    def remove_metric(self, metric: MetricName) -> None:
        """Remove a metric; one that is not there is ignored."""


class Monitorable(ABC):
    """A converter, header converter, transform or predicate that has metrics of its own (KIP-877)."""

    @abstractmethod
    def with_plugin_metrics(self, metrics: PluginMetrics) -> None:
        """Add the plugin's metrics. Called once, after `configure`.

        Beside `connector` and `task` they have the label `converter` (`key`, `value` or `header`), or `transformation`
        with the transform's alias; a predicate's metrics also have `predicate` with its alias. Nothing is shown of a
        plugin that is not a running task's: in a validation, in the Spark sink, in tests.
        """
