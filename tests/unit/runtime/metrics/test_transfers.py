"""The records and bytes that a process's tasks have transferred, over restarts."""

from __future__ import annotations

import pytest

from fencepost.config.ids import ConnectorTaskId
from fencepost.engine.error_counts import ErrorCounts
from fencepost.runtime.metrics.transaction_metrics import TransferCounts
from fencepost.runtime.metrics.transfers import Transfers
from fencepost.runtime.metrics.worker_metrics import WorkerMetrics


@pytest.fixture
def transfers() -> Transfers:
    return Transfers()


@pytest.fixture
def metrics(transfers: Transfers) -> WorkerMetrics:
    metrics = WorkerMetrics()
    metrics.on_task = transfers.watch
    return metrics


def test_only_committed_records_count_and_the_others_are_open(metrics: WorkerMetrics, transfers: Transfers) -> None:
    task = metrics.add(ConnectorTaskId("c", 0))
    task.began()
    task.wrote(polled=5, written=4, size=700, errors=ErrorCounts(skipped=1))
    assert transfers.of_connectors()["c"].counts == TransferCounts(open=4, skipped=1)
    task.committed(4, 0.01)
    task.began()
    task.wrote(polled=3, written=3, size=300)
    task.aborted(3)

    assert transfers.of_connectors()["c"].counts == TransferCounts(
        records=4, bytes=700, transactions=1, aborted=1, skipped=1
    )


def test_a_task_that_ends_and_starts_again_keeps_its_counts(metrics: WorkerMetrics, transfers: Transfers) -> None:
    task = ConnectorTaskId("c", 0)
    for _ in range(3):
        started = metrics.add(task)
        started.began()
        started.wrote(polled=2, written=2, size=10)
        started.committed(2, 0.01)
        started.wrote(polled=9, written=9, size=10)
        metrics.remove(task)
    other = metrics.add(ConnectorTaskId("c", 1))
    other.wrote(polled=1, written=1, size=5)
    other.acknowledged(1)

    assert transfers.of_connectors()["c"].counts == TransferCounts(records=7, bytes=35, open=9, transactions=3)


def test_the_share_refers_to_the_rest_at_the_start(metrics: WorkerMetrics, transfers: Transfers) -> None:
    one, other = metrics.add(ConnectorTaskId("c", 0)), metrics.add(ConnectorTaskId("c", 1))
    one.lag(100.0)
    assert transfers.of_connectors()["c"].share is None
    other.lag(300.0)
    one.lag(50.0)
    other.lag(50.0)

    assert transfers.of_connectors()["c"].share == pytest.approx(0.75)


def test_the_progress_of_a_source_without_remaining_data_is_complete(
    metrics: WorkerMetrics, transfers: Transfers
) -> None:
    metrics.add(ConnectorTaskId("c", 0)).lag(0.0)

    assert transfers.of_connectors()["c"].share == 1.0


def test_a_deleted_connector_is_forgotten(metrics: WorkerMetrics, transfers: Transfers) -> None:
    for _ in range(2):
        task = metrics.add(ConnectorTaskId("c", 0))
        task.wrote(polled=1, written=1, size=5)
        task.acknowledged(1)
    metrics.add(ConnectorTaskId("c2", 0))
    transfers.forget("c")

    assert set(transfers.of_connectors()) == {"c2"}
    metrics.add(ConnectorTaskId("c", 0))
    assert transfers.of_connectors()["c"].counts == TransferCounts()
