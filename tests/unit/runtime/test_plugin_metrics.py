"""Metrics that a connector or a task adds itself."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from prometheus_client.openmetrics.exposition import generate_latest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from fencepost.api.plugin_metrics import MetricName
from fencepost.config.ids import ConnectorTaskId
from fencepost.runtime import plugin_metrics
from fencepost.runtime.metrics.task_metrics import TaskMetrics
from fencepost.runtime.metrics.worker_metrics import WorkerMetrics
from fencepost.runtime.plugin_metrics import MetricKinds, WorkerPluginMetrics

TASK = ConnectorTaskId("orders", 0)


def shown(metrics: WorkerMetrics) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """The metrics of plugins as a monitoring system reads them, by name and labels."""
    families = text_string_to_metric_families(generate_latest(metrics.registry).decode())
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in families
        for sample in family.samples
        if sample.name.startswith(plugin_metrics.PREFIX)
    }


@pytest.fixture
def worker() -> WorkerMetrics:
    return WorkerMetrics()


@pytest.fixture
def task(worker: WorkerMetrics) -> TaskMetrics:
    return worker.add(TASK)


def test_metrics_of_a_task_are_shown_with_its_labels_and_their_tags(worker: WorkerMetrics, task: TaskMetrics) -> None:
    added = task.new_plugin_metrics(str(TASK))
    added.add_metric("queue.size", "Rows that wait", lambda: 3, tags={"table": 'a "b"'})
    counter = added.add_counter("rows-skipped", "Rows that were skipped")
    counter.increment()
    counter.increment(2)

    assert shown(worker) == {
        ("kafka_connect_plugins_queue_size", (("connector", "orders"), ("table", 'a "b"'), ("task", "0"))): 3,
        ("kafka_connect_plugins_rows_skipped_total", (("connector", "orders"), ("task", "0"))): 3,
    }


def test_metrics_that_another_program_keeps_are_shown_as_it_has_them(worker: WorkerMetrics, task: TaskMetrics) -> None:
    kept = [
        (MetricName("rows-total", "Rows", (("a.b", "c"),)), 3.0),
        (MetricName("queue.size", "Rows that wait"), math.nan),
        # A counter of this name exists already.
        (MetricName("done", "Done"), 1.0),
    ]
    task.new_plugin_metrics(str(TASK)).add_counter("done", "Done")
    added = task.new_plugin_metrics(str(TASK))
    added.add_collector(lambda: iter(kept))
    added.add_collector(lambda: [1 / 0])  # type: ignore[list-item]

    found = shown(worker)
    assert math.isnan(found.pop(("kafka_connect_plugins_queue_size", (("connector", "orders"), ("task", "0")))))
    assert found == {
        ("kafka_connect_plugins_rows_total", (("a_b", "c"), ("connector", "orders"), ("task", "0"))): 3,
        ("kafka_connect_plugins_done_total", (("connector", "orders"), ("task", "0"))): 0,
    }
    kept.clear()
    assert len(shown(worker)) == 1


def test_metrics_go_when_they_are_removed_and_when_the_task_ends(worker: WorkerMetrics, task: TaskMetrics) -> None:
    added = task.new_plugin_metrics(str(TASK))
    added.remove_metric(added.add_metric("one", "One", lambda: 1))
    added.remove_metric(added.add_counter("two", "Two").name)
    assert shown(worker) == {}
    added.add_metric("three", "Three", lambda: 3)
    task.end_plugin_metrics()
    assert shown(worker) == {}


def test_a_restarted_task_adds_the_same_metrics_again(worker: WorkerMetrics, task: TaskMetrics) -> None:
    for value in (1, 2):
        task.end_plugin_metrics()
        added = task.new_plugin_metrics(str(TASK))
        added.add_metric("size", "Size", lambda value=value: value)
    assert list(shown(worker).values()) == [2]


@contextmanager
def hanging() -> Iterator[threading.Event]:
    go_on = threading.Event()
    yield go_on
    go_on.set()


def test_a_metric_that_hangs_or_fails_keeps_no_other_from_being_shown(
    worker: WorkerMetrics, task: TaskMetrics, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plugin_metrics, "_ANSWER_S", 0.05)
    added = task.new_plugin_metrics(str(TASK))
    added.add_metric("fails", "Fails", lambda: 1 // 0)
    added.add_metric("exits", "Exits", lambda: exec("raise SystemExit"))  # noqa: S102
    added.add_metric("works", "Works", lambda: 7)
    other = worker.add(ConnectorTaskId("other", 0)).new_plugin_metrics("other-0")
    with hanging() as go_on:
        other.add_metric("hangs", "Hangs", lambda: float(go_on.wait()))
        for _ in range(2):
            values = {name.removeprefix(plugin_metrics.PREFIX): value for (name, _), value in shown(worker).items()}
            assert values["works"] == 7
            assert all(math.isnan(values[name]) for name in ("fails", "exits", "hangs"))


@pytest.mark.parametrize("name", ["", "1a", "a b", "a" * 101, "ä", "a{"])
def test_a_name_that_cannot_be_shown_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="name"):
        WorkerPluginMetrics().add_metric(name, "Nothing", lambda: 0)


@pytest.mark.parametrize("tag", ["connector", "task", "a-b", "", "__name__"])
def test_a_tag_that_cannot_be_a_label_is_refused(tag: str) -> None:
    with pytest.raises(ValueError, match="tag"):
        WorkerPluginMetrics().add_metric("a", "Nothing", lambda: 0, tags={tag: "x"})


def test_a_metric_is_added_once() -> None:
    added = WorkerPluginMetrics()
    added.add_metric("a-b", "Nothing", lambda: 0)
    with pytest.raises(ValueError, match="added already"):
        added.add_metric("a.b", "Nothing else", lambda: 0)
    added.add_metric("a.b", "Nothing", lambda: 0, tags={"of": "another"})


def test_a_name_has_one_type_in_a_worker() -> None:
    kinds = MetricKinds()
    WorkerPluginMetrics("one", kinds).add_counter("rows_total", "Rows")
    with pytest.raises(ValueError, match="cannot be a gauge"):
        WorkerPluginMetrics("two", kinds).add_metric("rows", "Rows", lambda: 0)


def test_the_number_of_metrics_is_limited() -> None:
    added = WorkerPluginMetrics()
    for number in range(100):
        added.add_metric(f"a{number}", "Nothing", lambda: 0)
    with pytest.raises(ValueError, match="one too many"):
        added.add_counter("b", "Nothing")


def test_a_counter_refuses_negative_amounts() -> None:
    counter = WorkerPluginMetrics().add_counter("a", "Nothing")
    for amount in (-1, math.nan):
        with pytest.raises(ValueError, match="cannot be raised"):
            counter.increment(amount)
