"""What a worker does by itself: start again what failed for a passing reason, and give a connector other tasks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from fencepost.embedded.broker import EmbeddedBroker
from tests.support.processes import wait_for
from tests.support.sequence_source import properties
from tests.support.workers import Group, Worker


@pytest.fixture(scope="module")
def group(tmp_path_factory: pytest.TempPathFactory, broker: EmbeddedBroker) -> Group:
    return Group(tmp_path_factory.mktemp("restarts"), broker.bootstrap_servers)


@pytest.fixture(scope="module")
def worker(group: Group) -> Iterator[Worker]:
    with group.worker() as worker:
        yield worker


def test_a_connector_with_a_retriable_start_failure_is_restarted(
    group: Group, worker: Worker, name: str, topic: str, tmp_path: Path
) -> None:
    gone = tmp_path / "gone"
    gone.touch()
    often = {"task.restart.backoff.ms": "100", "task.restart.max": "-1"}
    config = properties(name, topic, {"limit": 50, "fail.while.exists": str(gone), **often})
    assert worker.request("POST", "/connectors", {"name": name, "config": config}).status == 201

    def waits_to_start(reason: str = "the source is away") -> bool:
        connector = (worker.get(f"/connectors/{name}/status") or {"connector": {"state": None}})["connector"]
        return connector["state"] == "RESTARTING" and reason in connector["trace"]

    wait_for(waits_to_start, what="the connector waits to be started again, and says why")

    gone.unlink()

    worker.wait_for_states(name, "RUNNING", "RUNNING")
    # Alerts take UNASSIGNED for a connector that no worker has.
    assert set(group.connector_states(name)) == {"RESTARTING", "RUNNING"}

    # Each configuration has as many tries.
    gone.touch()
    for backoff_ms, state in ("100", "FAILED"), ("600000", "RESTARTING"):
        config |= {"task.restart.max": "1", "task.restart.backoff.ms": backoff_ms}
        assert worker.request("PUT", f"/connectors/{name}/config", config).status == 200
        worker.wait_for_states(name, state, "RUNNING")

    # So has one that is restarted by hand, at once.
    gone.write_text(", still")
    assert worker.request("POST", f"/connectors/{name}/restart").status == 204
    wait_for(lambda: waits_to_start("away, still"), what="the restarted connector waits to be started again")


def test_a_task_that_waits_to_start_again_says_why_and_can_be_paused(
    worker: Worker, name: str, topic: str, tmp_path: Path
) -> None:
    gone = tmp_path / "gone"
    gone.touch()
    given = {"limit": 50, "task.fails.while.exists": str(gone), "task.restart.backoff.ms": "600000"}
    config = properties(name, topic, given)
    assert worker.request("POST", "/connectors", {"name": name, "config": config}).status == 201

    worker.wait_for_states(name, "RUNNING", "RESTARTING")
    assert "the source is away" in worker.get(f"/connectors/{name}/tasks/0/status")["trace"]
    assert worker.request("PUT", f"/connectors/{name}/pause").status == 202
    worker.wait_for_states(name, "PAUSED", "PAUSED")
    gone.unlink()
    assert worker.request("PUT", f"/connectors/{name}/resume").status == 202
    worker.wait_for_states(name, "RUNNING", "RUNNING")


def test_a_connector_is_restarted_after_retriable_failures_until_a_fatal_one(
    worker: Worker, name: str, topic: str, tmp_path: Path
) -> None:
    lost = tmp_path / "lost"
    lost.touch()
    config = properties(
        name, topic, {"limit": 50, "report.while.exists": str(lost), "task.restart.backoff.ms": "600000"}
    )
    assert worker.request("POST", "/connectors", {"name": name, "config": config}).status == 201

    worker.wait_for_states(name, "RESTARTING", "RUNNING")
    assert "the source is away" in worker.get(f"/connectors/{name}/status")["connector"]["trace"]
    assert worker.request("PUT", f"/connectors/{name}/pause").status == 202
    worker.wait_for_states(name, "PAUSED", "PAUSED")
    lost.unlink()
    assert worker.request("PUT", f"/connectors/{name}/resume").status == 202
    worker.wait_for_states(name, "RUNNING", "RUNNING")

    # Each start of it succeeds.
    lost.touch()
    config |= {"task.restart.backoff.ms": "100", "task.restart.max": "2"}
    assert worker.request("PUT", f"/connectors/{name}/config", config).status == 200
    worker.wait_for_states(name, "FAILED", "RUNNING")


def test_a_connector_with_other_work_gets_other_tasks_up_to_tasks_max(
    worker: Worker, name: str, topic: str, tmp_path: Path
) -> None:
    wanted = tmp_path / "tasks"

    def want(tasks: int) -> None:
        # At once: the connector may be reading it.
        (tmp_path / "next").write_text(str(tasks))
        (tmp_path / "next").replace(wanted)

    want(1)
    config = properties(name, topic, {"limit": 50, "tasks.max": "2", "tasks.in.file": str(wanted)})
    assert worker.request("POST", "/connectors", {"name": name, "config": config}).status == 201
    worker.wait_for_states(name, "RUNNING", "RUNNING")

    want(2)
    worker.wait_for_states(name, "RUNNING", "RUNNING", "RUNNING")
    want(3)
    worker.wait_for_states(name, "FAILED", "RUNNING", "RUNNING")
    assert "raise tasks.max" in worker.get(f"/connectors/{name}/status")["connector"]["trace"]
    want(1)
    worker.wait_for_states(name, "RUNNING", "RUNNING")
