"""The counts of plugins on Spark's executors, and how they get to the worker (KIP-877).

    worker    WorkerPluginMetrics ── pickled ──> DetachedMetrics, DetachedCounter    executor
                      ^                                        │ increment()
                      └── PluginCounts <── accumulator <───────┘

A Spark accumulator carries the counts. If a task succeeds, the accumulator passes on the task's counts before the
task's job ends; the counts of a failed task are dropped. One accumulator serves all plugins of a worker, because
pyspark never frees an accumulator.
"""

from __future__ import annotations

import re
import secrets
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from fencepost.api.plugin_metrics import MetricName
from fencepost.api.secrets import SECRETS

if TYPE_CHECKING:
    from pyspark import Accumulator, SparkContext
    from pyspark.sql import SparkSession

MOST: Final = 100
"""The maximum number of metrics of a plugin."""

Counts = dict[tuple[str, MetricName], float]
"""Counts by plugin and counter."""

_LONGEST_TEXT: Final = 200
_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,99}")
_TAG: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,99}")
_OTHERS: Final = re.compile(r"[^A-Za-z0-9_]")
_OWN_LABELS: Final = frozenset({"connector", "task"})

_summing: Final = threading.Lock()


class PluginCounts:
    """Receives from executors the counts of a worker's plugins. Thread-safe."""

    def __init__(self, session: Callable[[], SparkSession], *, started: Callable[[], bool]) -> None:
        """`session` returns the worker's session, and `started` returns whether there is a session."""
        self._session = session
        self._started = started
        self._lock = threading.Lock()
        self._receivers: dict[str, Callable[[MetricName, float], None]] = {}
        self._context: SparkContext | None = None
        self._accumulator: Accumulator[Any] | None = None

    def register(self, receive: Callable[[MetricName, float], None]) -> str:
        """Return a name for a plugin.

        `receive` gets the plugin's counts, on any thread, and must not raise an error.
        """
        owner = secrets.token_hex(8)
        with self._lock:
            self._receivers[owner] = receive
        return owner

    def forget(self, owner: str) -> None:
        """Drop all later counts of a plugin."""
        with self._lock:
            self._receivers.pop(owner, None)

    def receive(self, counts: Counts) -> None:
        """Pass counts from executors on to the plugins' receivers."""
        for (owner, metric), amount in counts.items():
            with self._lock:
                receiver = self._receivers.get(owner)
            if receiver is not None:
                receiver(metric, amount)

    def accumulator(self) -> Accumulator[Any] | None:
        """Return the accumulator, which can be pickled to executors; None if Spark has not started."""
        if not self._started():
            return None
        context = self._session().sparkContext
        with self._lock:
            if self._context is not context:
                self._context, self._accumulator = context, context.accumulator(self, _Summing())  # type: ignore[arg-type]
            return self._accumulator


class _Summing:
    """Implements pyspark's AccumulatorParam.

    In the worker, the value is a PluginCounts. In a task on an executor, it is a Counts.
    """

    def zero(self, value: PluginCounts | Counts) -> Counts:
        """Return the initial value of a task on an executor."""
        del value
        return {}

    def addInPlace(self, value: PluginCounts | Counts, counts: Counts) -> PluginCounts | Counts:  # noqa: N802 - pyspark's
        """Add counts to a value."""
        if isinstance(value, PluginCounts):
            value.receive(counts)
            return value
        with _summing:
            for key, amount in counts.items():
                value[key] = value.get(key, 0.0) + amount
        return value


class DetachedCounter:
    """Implements `fencepost.PluginCounter` in places where metrics are not shown."""

    def __init__(self, name: MetricName, owner: str = "", accumulator: Accumulator[Any] | None = None) -> None:
        self.name = name
        self._owner = owner
        self._accumulator = accumulator

    def increment(self, amount: float = 1) -> None:
        """Add to the worker's count, if this counter was pickled in the worker."""
        checked_amount(amount)
        if self._accumulator is not None:
            self._accumulator.add({(self._owner, self.name): amount})


class DetachedMetrics:
    """Implements `fencepost.PluginMetrics` in places where metrics are not shown: on executors, and without a worker.

    Counters add to the counts of the worker in which the metrics were pickled.
    """

    def __init__(self, owner: str = "", accumulator: Accumulator[Any] | None = None) -> None:
        self._owner = owner
        self._accumulator = accumulator
        self._added: set[tuple[str, tuple[tuple[str, str], ...]]] = set()
        self._lock = threading.Lock()

    def add_metric(
        self, name: str, description: str, measurable: Callable[[], float], *, tags: Mapping[str, str] | None = None
    ) -> MetricName:
        """Check the metric's name as the worker does."""
        del measurable
        return self._add(name, description, tags)

    def add_counter(self, name: str, description: str, *, tags: Mapping[str, str] | None = None) -> DetachedCounter:
        """Add a counter. The worker shows the counter after its first count."""
        return DetachedCounter(self._add(name, description, tags), self._owner, self._accumulator)

    def add_collector(self, collect: Callable[[], Iterable[tuple[MetricName, float]]]) -> None:
        """Do nothing: the worker cannot request values from here."""

    def remove_metric(self, metric: MetricName) -> None:
        """Remove a metric, so that it can be added again."""
        with self._lock:
            self._added.discard(identity(metric))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._owner, self._accumulator)

    def _add(self, name: str, description: str, tags: Mapping[str, str] | None) -> MetricName:
        added = metric_name(name, description, tags)
        with self._lock:
            check_addition(added, self._added)
            self._added.add(identity(added))
        return added


def identity(metric: MetricName) -> tuple[str, tuple[tuple[str, str], ...]]:
    """Return the values that distinguish a plugin's metrics from each other."""
    return metric.name, metric.tags


def check_addition(added: MetricName, known: Mapping[Any, Any] | set[Any]) -> None:
    """Raise ValueError if a plugin with the `known` metrics may not add this metric."""
    if identity(added) in known:
        raise ValueError(
            f"The metric {added.name} with these tags was added already: remove it first, or use other tags"
        )
    if len(known) >= MOST:
        raise ValueError(f"The metric {added.name} is one too many: a plugin may have {MOST} metrics")


def checked_amount(amount: float) -> float:
    """Return `amount`. Raises ValueError if a counter cannot be increased by it."""
    if not amount >= 0:
        raise ValueError(f"A counter cannot be raised by {amount}: give a number from 0 on")
    return amount


def collected_name(metric: MetricName) -> MetricName:
    """Return the displayed name of a metric whose name comes from another program."""
    tags = {_OTHERS.sub("_", tag): SECRETS.hidden(text)[:_LONGEST_TEXT] for tag, text in metric.tags}
    plain = _OTHERS.sub("_", metric.name)[:_LONGEST_TEXT].removesuffix("_total")
    return MetricName(plain, SECRETS.hidden(metric.description)[:_LONGEST_TEXT], tuple(sorted(tags.items())))


def metric_name(
    name: str, description: str, tags: Mapping[str, str] | None, labels: Mapping[str, str] | None = None
) -> MetricName:
    """Return the displayed name of a metric. Raises ValueError for an invalid name or tag.

    `labels` are the worker's labels for the plugin besides connector and task.
    """
    if not _NAME.fullmatch(name):
        raise ValueError(f"The name {name!r} of a metric is invalid: use 1 to 100 letters, digits, '_', '-' and '.'")
    reserved = _OWN_LABELS | set(labels or {})
    for tag in tags or {}:
        if not _TAG.fullmatch(tag) or tag in reserved:
            named = ", ".join(f"'{label}'" for label in sorted(reserved))
            raise ValueError(
                f"The tag {tag!r} of the metric {name} is invalid: use letters, digits and '_', but none of {named}"
            )
    shown = {tag: SECRETS.hidden(str(text))[:_LONGEST_TEXT] for tag, text in (tags or {}).items()}
    plain = re.sub(r"[.-]", "_", name).removesuffix("_total")
    return MetricName(plain, SECRETS.hidden(description)[:_LONGEST_TEXT], tuple(sorted(shown.items())))
