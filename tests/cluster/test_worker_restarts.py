"""Actions of a worker without a request: it restarts retriable failures, and reconfigures a connector."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
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
    # UNASSIGNED must not appear, as alerts take it for a connector without a worker.
    assert set(group.connector_states(name)) == {"RESTARTING", "RUNNING"}

    # A new configuration resets the number of restarts.
    gone.touch()
    for backoff_ms, state in ("100", "FAILED"), ("600000", "RESTARTING"):
        config |= {"task.restart.max": "1", "task.restart.backoff.ms": backoff_ms}
        assert worker.request("PUT", f"/connectors/{name}/config", config).status == 200
        worker.wait_for_states(name, state, "RUNNING")

    # A manual restart takes place at once, and also resets the number.
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


@pytest.mark.parametrize("policy", ["retriable", "never"])
def test_a_connector_that_cannot_answer_before_its_start_follows_its_policy(
    worker: Worker, name: str, topic: str, tmp_path: Path, policy: str
) -> None:
    away = tmp_path / "away"
    given = {"limit": 50, "support.fails.while.exists": str(away), "task.restart.policy": policy}
    config = properties(name, topic, {**given, "task.restart.backoff.ms": "100", "task.restart.max": "-1"})
    assert worker.request("POST", "/connectors", {"name": name, "config": config}).status == 201
    worker.wait_for_states(name, "RUNNING", "RUNNING")

    away.touch()
    assert worker.request("POST", f"/connectors/{name}/restart").status == 204
    worker.wait_for_states(name, "RESTARTING" if policy == "retriable" else "FAILED", "RUNNING")
    assert "the source is away" in worker.get(f"/connectors/{name}/status")["connector"]["trace"]

    away.unlink()
    if policy == "never":
        assert worker.request("POST", f"/connectors/{name}/restart").status == 204
    worker.wait_for_states(name, "RUNNING", "RUNNING")


@dataclass(frozen=True)
class Unmade:
    """A connector whose task cannot be made again while there is a file. The file's text is part of the reason."""

    worker: Worker
    config: dict[str, str]
    away: Path

    @classmethod
    def start(cls, worker: Worker, name: str, topic: str, folder: Path, **settings: str) -> Unmade:
        """Start the connector, without the file."""
        away = folder / "away"
        restarts = {f"task.restart.{setting.replace('_', '.')}": value for setting, value in settings.items()}
        config = properties(name, topic, {"limit": 50, "task.class.fails.while.exists": str(away), **restarts})
        assert worker.request("POST", "/connectors", {"name": name, "config": config}).status == 201
        worker.wait_for_states(name, "RUNNING", "RUNNING")
        return cls(worker, config, away)

    def restart(self, reason: str) -> None:
        """Restart the task while there is the file."""
        self.away.write_text(reason)
        assert self.worker.request("POST", f"/connectors/{self.config['name']}/tasks/0/restart").status == 204

    def put(self, what: str) -> None:
        """Pause, stop or resume the connector."""
        assert self.worker.request("PUT", f"/connectors/{self.config['name']}/{what}").status in {202, 204}

    def wait_for_states(self, *states: str) -> None:
        self.worker.wait_for_states(self.config["name"], *states)

    def wait_until_restarting(self, reason: str) -> None:
        """Wait until the task waits for another attempt, for a reason."""

        def waits() -> bool:
            status = self.worker.get(f"/connectors/{self.config['name']}/tasks/0/status") or {"state": None}
            return status["state"] == "RESTARTING" and f"the source is away{reason}" in status["trace"]

        wait_for(waits, what="the task waits to be made again, and says why")

    @property
    def restarts(self) -> float:
        labels = f'{{connector="{self.config["name"]}",task="0"}}'
        return self.worker.metric(f"fencepost_task_restarts_total{labels}") or 0


def test_a_task_that_cannot_be_made_is_made_again_after_a_pause(
    worker: Worker, name: str, topic: str, tmp_path: Path
) -> None:
    unmade = Unmade.start(worker, name, topic, tmp_path, backoff_ms="10", max="-1")
    unmade.restart("")
    unmade.wait_until_restarting("")
    wait_for(lambda: unmade.restarts > 2, what="several attempts")
    unmade.away.unlink()
    unmade.wait_for_states("RUNNING", "RUNNING")
    # The task has the metrics of the attempts.
    assert unmade.restarts > 2


@pytest.mark.parametrize("settings", [{"policy": "never"}, {"max": "1", "backoff_ms": "10"}], ids=str)
def test_a_task_that_cannot_be_made_fails_once_its_policy_ends(
    worker: Worker, name: str, topic: str, tmp_path: Path, settings: dict[str, str]
) -> None:
    unmade = Unmade.start(worker, name, topic, tmp_path, **settings)
    unmade.restart("")
    unmade.wait_for_states("RUNNING", "FAILED")
    assert unmade.restarts == int(settings.get("max", "0"))
    unmade.away.unlink()
    assert worker.request("POST", f"/connectors/{name}/tasks/0/restart").status == 204
    unmade.wait_for_states("RUNNING", "RUNNING")


def test_a_task_that_waits_to_be_made_again_follows_each_new_plan_at_once(
    group: Group, worker: Worker, name: str, topic: str, tmp_path: Path
) -> None:
    unmade = Unmade.start(worker, name, topic, tmp_path, backoff_ms="600000")
    unmade.restart("")
    unmade.wait_until_restarting("")

    unmade.put("pause")
    unmade.wait_for_states("PAUSED", "PAUSED")
    unmade.away.write_text(", after the pause")
    unmade.put("resume")
    unmade.wait_until_restarting(", after the pause")

    unmade.restart(", by hand")
    unmade.wait_until_restarting(", by hand")

    # Restarted while it is paused, it waits until it is resumed.
    unmade.put("pause")
    unmade.wait_for_states("PAUSED", "PAUSED")
    unmade.restart(", paused")
    unmade.wait_for_states("PAUSED", "PAUSED")
    unmade.away.unlink()
    unmade.put("resume")
    unmade.wait_for_states("RUNNING", "RUNNING")

    unmade.restart("")
    unmade.wait_until_restarting("")
    unmade.away.unlink()
    changed = {**unmade.config, "messages.per.poll": "7"}
    assert worker.request("PUT", f"/connectors/{name}/config", changed).status == 200
    unmade.wait_for_states("RUNNING", "RUNNING")

    unmade.restart("")
    unmade.wait_until_restarting("")
    unmade.put("stop")
    unmade.wait_for_states("STOPPED")
    unmade.away.unlink()
    unmade.put("resume")
    unmade.wait_for_states("RUNNING", "RUNNING")

    unmade.restart("")
    unmade.wait_until_restarting("")
    assert worker.request("DELETE", f"/connectors/{name}").status == 204
    wait_for(lambda: not group.status_keys(name), what="all statuses are deleted")


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

    # The connector starts successfully each time, and fails later.
    lost.touch()
    config |= {"task.restart.backoff.ms": "100", "task.restart.max": "2"}
    assert worker.request("PUT", f"/connectors/{name}/config", config).status == 200
    worker.wait_for_states(name, "FAILED", "RUNNING")


def test_a_connector_with_other_work_gets_other_tasks_up_to_tasks_max(
    worker: Worker, name: str, topic: str, tmp_path: Path
) -> None:
    wanted = tmp_path / "tasks"

    def want(tasks: int) -> None:
        # Replace the file atomically, because the connector may be reading it.
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
