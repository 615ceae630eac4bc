"""A plugin's own metrics (KIP-877), which the worker shows with its own at `GET /metrics`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class MetricName:
    """A metric of a plugin. `tags` are shown as labels, next to `connector` and `task`."""

    name: str
    description: str
    tags: tuple[tuple[str, str], ...] = ()


class PluginCounter(Protocol):
    """Counts something, from 0 on. Thread-safe."""

    @property
    def name(self) -> MetricName:
        """The counter in the form that `remove_metric` takes."""

    def increment(self, amount: float = 1) -> None:
        """Add to the count. Raises ValueError for a negative amount."""


class PluginMetrics(Protocol):
    """Adds metrics of a connector or a task, up to 100. Thread-safe. They are removed when the plugin stops.

    A metric `records-skipped` is shown as `kafka_connect_plugins_records_skipped`, a counter with `_total` after that.
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

    def remove_metric(self, metric: MetricName) -> None:
        """Remove a metric; one that is not there is ignored."""
