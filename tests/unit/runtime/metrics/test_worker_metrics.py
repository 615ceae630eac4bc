from __future__ import annotations

import math
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from prometheus_client.exposition import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from fencepost.api.allowed_paths import ANYWHERE
from fencepost.config.connector_config import ConnectorConfig
from fencepost.config.connector_instance import ConnectorInstance
from fencepost.config.ids import ConnectorTaskId
from fencepost.connectors.files.stream_source import FileStreamSourceConnector
from fencepost.engine.error_counts import ErrorCounts
from fencepost.runtime.connector.source_connector import WorkerConnector
from fencepost.runtime.metrics.definitions import PROCESS
from fencepost.runtime.metrics.task_metrics import TaskMetrics
from fencepost.runtime.metrics.windowed import Windowed
from fencepost.runtime.metrics.worker_metrics import WorkerMetrics
from fencepost.runtime.state import State
from tests.support.clock import Clock
from tests.support.memory import size_of
from tests.support.task_runner import States
from tests.unit.connectors.support import CommittedOffsets


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def task(clock: Clock) -> TaskMetrics:
    return TaskMetrics(clock)


def _read(metrics: WorkerMetrics) -> Callable[..., float | None]:
    """A function that reads a metric by its name and labels, as Prometheus would."""
    text = generate_latest(metrics.registry).decode()
    samples = {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    return lambda name, **labels: samples.get((name, *sorted(labels.items())))


def test_metrics_have_the_names_and_labels_of_strimzis_rules():
    metrics = WorkerMetrics()
    task = metrics.add(ConnectorTaskId("c", 0))
    task.state(State.RUNNING)
    task.wrote(polled=5, written=3, size=700)
    task.committed(3, 0.004)
    value = _read(metrics)
    assert value("kafka_producer_outgoing_byte_total", clientid="connector-producer-c-0") == 700
    labels = {"connector": "c", "task": "0"}
    assert value("kafka_connect_source_task_source_record_poll_total", **labels) == 5
    assert value("kafka_connect_source_task_source_record_write_total", **labels) == 3
    assert value("kafka_connect_source_task_transaction_size_avg", **labels) == 3
    assert value("kafka_connect_connector_task_offset_commit_max_time_ms", **labels) == pytest.approx(4)
    assert value("kafka_connect_connector_task_offset_commit_success_percentage", **labels) == 1
    assert value("kafka_connect_connector_task_status", **labels, status="running") == 1


@pytest.mark.parametrize("state", [State.PAUSED, State.FAILED, State.RESTARTING])
def test_a_task_that_does_not_run_has_no_rate(state: State):
    metrics = WorkerMetrics()
    task = metrics.add(ConnectorTaskId("c", 0))
    task.state(State.RUNNING)
    task.polled(0.1)
    task.wrote(30, 30)
    exported = "kafka_connect_source_task_source_record_write_rate", "kafka_connect_source_task_source_record_poll_rate"

    def rates() -> list[float]:
        values = task.snapshot().values
        return [task.activity().rate, *(values[name] for name in exported)]

    assert rates() == pytest.approx([1, 1, 1])

    task.state(state)

    assert rates() == [0, 0, 0]


@pytest.mark.parametrize("state", [State.FAILED, State.RESTARTING])
def test_the_lag_of_a_task_that_failed_is_not_known(state: State):
    metrics = WorkerMetrics()
    task = metrics.add(ConnectorTaskId("c", 0))
    task.state(State.RUNNING)
    # All records are polled, and none is committed.
    task.lag(0.0)
    assert task.activity().lag == 0

    task.state(state)

    assert task.activity().lag is None
    assert math.isnan(task.transferred.lag)


def test_the_process_shows_its_cpu_time_memory_and_file_descriptors():
    value = _read(WorkerMetrics())
    values = {name: value(name) for name in PROCESS}
    assert all(found is not None and found > 0 for found in values.values()), values


def test_an_ended_task_is_removed_from_the_metrics():
    metrics = WorkerMetrics()
    metrics.add(ConnectorTaskId("c", 0))
    metrics.remove(ConnectorTaskId("c", 0))
    value = _read(metrics)
    assert value("kafka_connect_source_task_source_record_poll_total", connector="c", task="0") is None
    assert value("kafka_connect_worker_task_count") == 0


def test_a_worker_counts_its_tasks_by_connector_and_state():
    metrics = WorkerMetrics()
    for number, state in enumerate([State.RUNNING, State.RUNNING, State.FAILED]):
        metrics.add(ConnectorTaskId("c", number)).state(state)
    value = _read(metrics)
    counts = [
        value(f"kafka_connect_worker_connector_{which}_task_count", connector="c")
        for which in ("total", "running", "paused", "failed")
    ]
    assert counts == [3, 2, 0, 1]
    assert value("kafka_connect_worker_task_count") == 3


def test_a_failed_start_is_counted_once_and_one_that_ran_is_a_success():
    metrics = WorkerMetrics()
    metrics.add(ConnectorTaskId("c", 0)).state(State.FAILED)
    for number in (1, 2):
        task = metrics.add(ConnectorTaskId("c", number))
        for state in (State.RESTARTING, State.RUNNING, State.FAILED):
            task.state(state)
    value = _read(metrics)
    counts = [value(f"kafka_connect_worker_task_startup_{which}_total") for which in ("attempts", "success", "failure")]
    assert counts == [3, 2, 1]
    assert value("kafka_connect_worker_task_startup_failure_percentage") == pytest.approx(1 / 3)
    assert value("fencepost_task_restarts_total", connector="c", task="1") == 1


def test_a_task_that_was_paused_before_it_could_be_created_has_not_started():
    metrics = WorkerMetrics()
    task = metrics.add(ConnectorTaskId("c", 0))
    for state in (State.RESTARTING, State.PAUSED, State.FAILED):
        task.state(state, created=False)
    value = _read(metrics)
    counts = [value(f"kafka_connect_worker_task_startup_{which}_total") for which in ("success", "failure")]
    assert counts == [0, 1]


def test_a_connector_shows_its_state_class_and_version_until_it_is_removed():
    metrics = WorkerMetrics()
    properties = {"name": "c", "connector.class": "FileStreamSource", "file": "f", "topic": "t"}
    connector = WorkerConnector(
        ConnectorConfig.from_properties(properties),
        ConnectorInstance(FileStreamSourceConnector(), "c"),
        CommittedOffsets(),
        States(),
        ANYWHERE,
    )
    metrics.add_connector(connector)
    connector.start()
    value = _read(metrics)
    assert value("kafka_connect_connector_status", connector="c", status="running") == 1
    assert value("kafka_connect_connector_connector_class", connector="c", connector_class="FileStreamSource") == 1
    assert value("kafka_connect_connector_connector_type", connector="c", connector_type="source") == 1
    assert value("kafka_connect_worker_connector_count") == 1
    metrics.remove_connector("c")
    assert _read(metrics)("kafka_connect_worker_connector_count") == 0


def test_a_connector_that_could_not_be_created_shows_as_failed():
    metrics = WorkerMetrics()
    metrics.add_failed_connector("c", {"connector.class": "Gone"})
    value = _read(metrics)
    assert value("kafka_connect_connector_status", connector="c", status="failed") == 1
    assert value("kafka_connect_connector_connector_class", connector="c", connector_class="Gone") == 1
    metrics.connector_restarts("c")
    value = _read(metrics)
    assert value("kafka_connect_connector_status", connector="c", status="failed") is None
    assert value("kafka_connect_connector_status", connector="c", status="restarting") == 1


def test_the_transaction_size_is_taken_at_commit_and_aborted_records_do_not_count(task: TaskMetrics):
    task.wrote(7, 7)
    assert math.isnan(task.snapshot().values["kafka_connect_source_task_transaction_size_avg"])
    task.aborted(7)
    task.committed(0, 0.0)
    task.wrote(2, 2)
    task.committed(2, 0.0)
    values = task.snapshot().values
    sizes = [values[f"kafka_connect_source_task_transaction_size_{which}"] for which in ("min", "avg", "max")]
    assert sizes == [0, 1, 2]
    assert values["kafka_connect_source_task_source_record_active_count"] == 0


def test_the_age_of_an_open_transaction_grows_until_it_ends(task: TaskMetrics, clock: Clock):
    task.began()
    task.wrote(3, 2, 100)
    task.wrote(3, 3, 150)
    clock.now += 7
    values = task.snapshot().values
    assert values["fencepost_task_open_transaction_age_seconds"] == 7
    assert values["fencepost_task_open_transaction_records"] == 5
    transaction = task.transactions.open
    assert transaction is not None
    assert (transaction.records, transaction.bytes) == (5, 250)
    task.aborted(5)
    assert task.transactions.open is None
    assert task.snapshot().values["fencepost_task_open_transaction_age_seconds"] == 0


def test_latencies_are_counted_in_buckets_from_poll_to_commit(task: TaskMetrics, clock: Clock):
    task.polled(0.001)
    clock.now += 2
    task.polled(0.001)
    task.began()
    clock.now += 1
    task.committed(2, 0.03, [({"p": 1}, {"o": 2})])
    batches, total = task.snapshot().histograms["fencepost_task_batch_latency_seconds"]
    assert dict(batches)["0.5"] == 0
    assert dict(batches)["1.0"] == 1
    assert dict(batches)["+Inf"] == 2
    assert total == 4
    commits, _ = task.snapshot().histograms["fencepost_task_commit_latency_seconds"]
    assert (dict(commits)["0.025"], dict(commits)["0.05"]) == (0, 1)
    commit = task.transactions.last_commit
    assert commit is not None
    assert commit.offsets == [({"p": 1}, {"o": 2})]


def test_a_transaction_ends_at_the_time_of_its_commit(task: TaskMetrics):
    for _ in range(3_000):
        task.began()
        task.committed(1, 0.0)
        commit = task.transactions.last_commit
        assert commit is not None
        assert task.transactions.ended[-1].until_ms == commit.at_ms


def test_outside_of_transactions_records_are_done_when_they_are_acknowledged(task: TaskMetrics, clock: Clock):
    """Without transactions, there is no transaction size to measure."""
    task.polled(0.0)
    task.wrote(polled=2, written=2)
    clock.now += 0.5
    task.acknowledged(2)
    snapshot = task.snapshot()
    assert snapshot.values["kafka_connect_source_task_source_record_active_count"] == 0
    assert math.isnan(snapshot.values["kafka_connect_source_task_transaction_size_avg"])
    assert task.transactions.batch_latency.snapshot()[1] == pytest.approx(0.5)
    assert task.transactions.last_commit is None

    task.flushed(2, 0.25, [({"p": 1}, {"o": 2})])
    values = task.snapshot().values
    assert values["kafka_connect_connector_task_offset_commit_max_time_ms"] == 250
    assert values["kafka_connect_connector_task_offset_commit_success_percentage"] == 1
    assert task.transactions.last_commit is not None
    assert task.transactions.last_commit.offsets == [({"p": 1}, {"o": 2})]
    assert task.transactions.open is None


def test_errors_with_records_add_up(task: TaskMetrics):
    for _ in range(2):
        task.wrote(9, 7, 0, ErrorCounts(failures=3, skipped=2, retries=1))
    values = task.snapshot().values
    assert values["kafka_connect_task_error_total_record_failures"] == 6
    assert values["kafka_connect_task_error_total_records_skipped"] == 4
    assert values["kafka_connect_task_error_total_retries"] == 2
    assert values["kafka_connect_task_error_total_record_errors"] == 0
    assert values["kafka_connect_task_error_last_error_timestamp"] > 0


def test_ratios_say_how_a_task_spent_its_time(task: TaskMetrics, clock: Clock):
    task.state(State.RUNNING)
    clock.now += 30
    task.state(State.PAUSED)
    clock.now += 10
    values = task.snapshot().values
    assert values["kafka_connect_connector_task_running_ratio"] == pytest.approx(0.75)
    assert values["kafka_connect_connector_task_pause_ratio"] == pytest.approx(0.25)


def test_failed_commits_show_as_a_percentage(task: TaskMetrics):
    task.commit_failed()
    for _ in range(3):
        task.committed(1, 0.0)
    values = task.snapshot().values
    assert values["kafka_connect_connector_task_offset_commit_failure_percentage"] == pytest.approx(0.25)


def test_values_are_forgotten_after_a_minute():
    values = Windowed()
    values.record(1, 0.0)
    values.record(5, 31.0)
    assert (values.minimum(59.0), values.average(59.0), values.maximum(59.0)) == (1, 3, 5)
    assert (values.minimum(61.0), values.maximum(61.0)) == (5, 5)
    assert math.isnan(values.average(91.0))
    assert values.rate(91.0) == 0.0


def test_values_that_are_not_read_take_the_memory_of_two_windows():
    values = Windowed()
    values.record(1, 0.0)
    values.record(1, 30.0)
    size = size_of(values)
    for second in range(60, 36_000):
        values.record(1, float(second))
    # Different numbers are different objects.
    assert size_of(values) < size * 1.2


@pytest.mark.parametrize("pause", [1.0, 7.0, 29.0, 31.0, 61.0])
def test_reading_in_between_changes_no_later_value(pause: float):
    read, unread = Windowed(), Windowed()
    for number in range(100):
        now = number * pause
        read.record(number, now)
        unread.record(number, now)
        read.average(now)
    end = 99 * pause + 20
    shown = [(v.minimum(end), v.average(end), v.maximum(end), v.rate(end)) for v in (read, unread)]
    assert shown[0] == shown[1]


def test_a_task_whose_metrics_are_not_read_does_not_grow(task: TaskMetrics, clock: Clock):
    def work(seconds: int) -> None:
        for _ in range(seconds):
            clock.now += 1
            task.began()
            task.polled(0.1)
            task.wrote(10, 10)
            task.commit_failed()
            task.committed(10, 0.1)

    work(1000)
    size = size_of(task)
    work(10_000)
    assert size_of(task) <= size * 1.05


def test_metrics_are_shown_while_tasks_come_and_go():
    metrics = WorkerMetrics()
    ended = threading.Event()

    def come_and_go() -> None:
        for number in range(300):
            task = ConnectorTaskId("c", number % 3)
            metrics.add(task).new_plugin_metrics(str(task)).add_metric("size", "Size", lambda: 1)
            metrics.remove(task)
        ended.set()

    with ThreadPoolExecutor(1) as thread:
        done = thread.submit(come_and_go)
        while not ended.is_set():
            assert list(metrics.collect())
        done.result()
