"""Metrics of pickled plugins, and the counts that come back from executors."""

from __future__ import annotations

import pickle
from typing import Any, NamedTuple

import pytest

from fencepost import MetricName
from fencepost.engine.plugin_counts import Counts, DetachedCounter, DetachedMetrics, PluginCounts
from fencepost.runtime.plugin_metrics import WorkerPluginMetrics


class Executor(NamedTuple):
    """A plugin's counter and metrics in a task on an executor, and the counts that the task will send."""

    counter: DetachedCounter
    metrics: DetachedMetrics
    counts: Counts


class Context:
    """A Spark context that exposes its accumulators."""

    def accumulator(self, value: Any, param: Any) -> Any:
        return Accumulator(value, param)


class Accumulator:
    """Like pyspark's accumulator: a pickled copy starts at its param's zero."""

    def __init__(self, value: Any, param: Any) -> None:
        self.value, self.param = value, param

    def add(self, term: Any) -> None:
        self.value = self.param.addInPlace(self.value, term)

    def __reduce__(self) -> tuple[Any, ...]:
        return Accumulator, (self.param.zero(self.value), self.param)


class Session(NamedTuple):
    sparkContext: Context  # noqa: N815 - pyspark's


SESSION: Any = Session(Context())


@pytest.fixture
def counts() -> PluginCounts:
    return PluginCounts(lambda: SESSION, started=lambda: True)


@pytest.fixture
def worker(counts: PluginCounts) -> WorkerPluginMetrics:
    return WorkerPluginMetrics("task a-0", counts=counts, labels={"converter": "key"})


def sent(metrics: WorkerPluginMetrics, counter: Any) -> Executor:
    there: Any = pickle.loads(pickle.dumps((counter, metrics)))  # noqa: S301 - our own
    return Executor(there[0], there[1], there[0]._accumulator.value)


def values(metrics: WorkerPluginMetrics) -> dict[str, float]:
    return {metric.name: value for metric, _, value in metrics.samples()}


def test_counts_of_executors_are_added_to_the_workers_counts(counts: PluginCounts, worker: WorkerPluginMetrics) -> None:
    rows = worker.add_counter("rows", "Rows")
    worker.add_metric("size", "Size", lambda: 7)
    rows.increment(2)
    executor = sent(worker, rows)
    executor.counter.increment()
    executor.counter.increment(3)
    counts.receive(executor.counts)
    assert values(worker) == {"rows": 6, "size": 7}


def test_counters_that_executors_add_appear_once(counts: PluginCounts, worker: WorkerPluginMetrics) -> None:
    rows = worker.add_counter("rows", "Rows")
    for _ in range(2):
        executor = sent(worker, rows)
        executor.metrics.add_counter("new-ones", "New", tags={"of": "a"}).increment(4)
        counts.receive(executor.counts)
    assert values(worker) == {"rows": 0, "new_ones": 8}
    # The worker itself may write the next batch.
    worker.add_counter("new-ones", "New", tags={"of": "a"}).increment()
    assert values(worker)["new_ones"] == 9
    with pytest.raises(ValueError, match="added already"):
        worker.add_counter("new-ones", "New", tags={"of": "a"})


def test_a_counter_that_the_worker_cannot_show_harms_no_other(
    counts: PluginCounts, worker: WorkerPluginMetrics, caplog: pytest.LogCaptureFixture
) -> None:
    rows = worker.add_counter("rows", "Rows")
    worker.add_metric("size", "Size", lambda: 7)
    executor = sent(worker, rows)
    for _ in range(2):
        executor.metrics.add_counter("size", "Another").increment()
        executor.metrics.remove_metric(MetricName("size", "Another"))
    executor.counter.increment()
    counts.receive(executor.counts)
    assert values(worker) == {"rows": 1, "size": 7}
    assert caplog.text.count("task a-0 counts on Spark's executors is not shown") == 1


def test_counts_for_an_ended_task_are_dropped(counts: PluginCounts, worker: WorkerPluginMetrics) -> None:
    rows = worker.add_counter("rows", "Rows")
    executor = sent(worker, rows)
    executor.counter.increment()
    worker.close()
    counts.receive(executor.counts)
    assert values(worker) == {"rows": 0}


def test_metrics_are_pickled_without_spark_and_count_nowhere() -> None:
    metrics = WorkerPluginMetrics(counts=PluginCounts(lambda: pytest.fail("Spark was asked"), started=lambda: False))
    rows = metrics.add_counter("rows", "Rows")
    there: Any = pickle.loads(pickle.dumps((rows, metrics)))  # noqa: S301 - our own
    there[0].increment()
    there[1].add_counter("more", "More").increment()
    assert values(metrics) == {"rows": 0}


def test_executors_refuse_the_same_rows_as_the_worker() -> None:
    metrics = DetachedMetrics()
    metrics.add_metric("a-b", "Nothing", lambda: 0)
    with pytest.raises(ValueError, match="added already"):
        metrics.add_counter("a.b", "Nothing")
    with pytest.raises(ValueError, match="name"):
        metrics.add_counter("1", "Nothing")
    with pytest.raises(ValueError, match="cannot be raised"):
        metrics.add_counter("b", "Nothing").increment(-1)
    for number in range(98):
        metrics.add_counter(f"c{number}", "Nothing")
    with pytest.raises(ValueError, match="one too many"):
        metrics.add_counter("d", "Nothing")


@pytest.mark.parametrize("label", ["converter", "connector", "task"])
def test_a_plugin_cannot_take_a_label_of_the_worker(worker: WorkerPluginMetrics, label: str) -> None:
    with pytest.raises(ValueError, match="but none of 'connector', 'converter', 'task'"):
        worker.add_counter("rows", "Rows", tags={label: "mine"})
