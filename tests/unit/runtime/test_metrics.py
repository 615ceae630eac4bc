from __future__ import annotations

import math
from dataclasses import dataclass

import pytest
from prometheus_client.exposition import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from fencepost.config.ids import ConnectorTaskId
from fencepost.runtime.metrics import TaskMetrics, WorkerMetrics
from fencepost.runtime.task_state import State
from fencepost.runtime.windowed import Windowed


@dataclass
class _Clock:
    now: float = 100.0

    def __call__(self) -> float:
        return self.now


def _samples(metrics: WorkerMetrics) -> dict[tuple[str, str, str], float]:
    text = generate_latest(metrics.registry).decode()
    return {
        (sample.name, sample.labels["connector"], sample.labels["task"]): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_metrics_have_the_names_and_labels_of_strimzis_rules():
    """A4."""
    metrics = WorkerMetrics()
    task = metrics.add(ConnectorTaskId("c", 0))
    task.state(State.RUNNING)
    task.wrote(polled=5, written=3)
    task.committed(3, 0.004)
    samples = _samples(metrics)
    assert samples["kafka_connect_source_task_source_record_poll_total", "c", "0"] == 5
    assert samples["kafka_connect_source_task_source_record_write_total", "c", "0"] == 3
    assert samples["kafka_connect_source_task_transaction_size_avg", "c", "0"] == 3
    assert samples["kafka_connect_connector_task_offset_commit_max_time_ms", "c", "0"] == pytest.approx(4)
    assert samples["kafka_connect_connector_task_offset_commit_success_percentage", "c", "0"] == 1
    text = generate_latest(metrics.registry).decode()
    assert 'kafka_connect_connector_task_status{connector="c",status="running",task="0"} 1.0' in text


def test_a_task_that_ended_is_gone_from_the_metrics():
    metrics = WorkerMetrics()
    metrics.add(ConnectorTaskId("c", 0))
    metrics.remove(ConnectorTaskId("c", 0))
    assert _samples(metrics) == {}


def test_the_transaction_size_is_taken_at_commit_and_aborted_records_do_not_count():
    """T10, T27, A4."""
    task = TaskMetrics(_Clock())
    task.wrote(7, 7)
    assert math.isnan(task.snapshot()[1]["kafka_connect_source_task_transaction_size_avg"])
    task.aborted(7)
    task.committed(0, 0.0)
    task.wrote(2, 2)
    task.committed(2, 0.0)
    values = task.snapshot()[1]
    sizes = [values[f"kafka_connect_source_task_transaction_size_{which}"] for which in ("min", "avg", "max")]
    assert sizes == [0, 1, 2]
    assert values["kafka_connect_source_task_source_record_active_count"] == 0


def test_ratios_say_how_a_task_spent_its_time():
    clock = _Clock()
    task = TaskMetrics(clock)
    task.state(State.RUNNING)
    clock.now += 30
    task.state(State.PAUSED)
    clock.now += 10
    values = task.snapshot()[1]
    assert values["kafka_connect_connector_task_running_ratio"] == pytest.approx(0.75)
    assert values["kafka_connect_connector_task_pause_ratio"] == pytest.approx(0.25)


def test_failed_commits_show_as_a_percentage():
    task = TaskMetrics(_Clock())
    task.commit_failed()
    for _ in range(3):
        task.committed(1, 0.0)
    values = task.snapshot()[1]
    assert values["kafka_connect_connector_task_offset_commit_failure_percentage"] == pytest.approx(0.25)


def test_values_are_forgotten_after_a_minute():
    values = Windowed()
    values.record(1, 0.0)
    values.record(5, 31.0)
    assert (values.minimum(59.0), values.average(59.0), values.maximum(59.0)) == (1, 3, 5)
    assert (values.minimum(61.0), values.maximum(61.0)) == (5, 5)
    assert math.isnan(values.average(91.0))
    assert values.rate(91.0) == 0.0
