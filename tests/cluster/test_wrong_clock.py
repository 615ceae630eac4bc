"""Workers on machines with wrong clocks: further ahead than brokers allow, or than other workers allow."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.processes import wait_for
from tests.support.topics import unique
from tests.support.workers import Group
from tests.support.wrong_clock import HOURS_AHEAD

_CLOCK = """
import time
before = time.time_ns
time.time_ns = lambda: before() + {minutes} * 60 * 10**9
time.time = lambda: time.time_ns() / 10**9
"""
_NAMED = "the clock of this worker's machine is further from the broker's"


def test_a_leader_with_a_wrong_clock_names_it_and_does_not_spin(
    tmp_path: Path, bootstrap_servers: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    _set_clocks(tmp_path, monkeypatch, minutes=HOURS_AHEAD * 60)
    group = Group(tmp_path, bootstrap_servers)
    with group.starting(forked=False) as worker:
        wait_for(lambda: "The group's session key is not renewed" in worker.process.output, what="a write is refused")
        wait_for(lambda: worker.request("GET", "/health").status == 503)
        config = {"connector.class": "FileStreamSource", "file": "/dev/null", "topic": "t"}
        for _ in range(3):
            answer = worker.request("PUT", "/connectors/c/config", config)
            assert (answer.status, _NAMED in answer.body["message"]) == (500, True), answer
        health = worker.request("GET", "/health")
        assert (health.status, _NAMED in health.body["message"]) == (503, True)
        assert worker.process.output.count("This worker leads the group") == 1
        assert worker.process.output.count("The group's session key is not renewed") == 1


def test_a_connectors_status_shows_that_the_clocks_differ(
    tmp_path: Path, bootstrap_servers: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    group = Group(tmp_path, bootstrap_servers)
    with group.worker() as leader:
        _set_clocks(tmp_path, monkeypatch, minutes=20)
        with group.worker(forked=False) as late:
            names = [unique("c") for _ in range(2)]
            for name in names:
                config = {"connector.class": "FileStreamSource", "file": "/dev/null", "topic": "t"}
                assert leader.request("PUT", f"/connectors/{name}/config", config).status == 201

            def refused() -> list[dict[str, str]]:
                answers = [leader.get(f"/connectors/{name}/status") for name in names]
                shown = [answer["connector"] for answer in answers if answer is not None]
                return [status for status in shown if status["worker_id"] == late.id and status["state"] == "FAILED"]

            wait_for(refused, what="the status shows that the leader refuses the task configurations")
            assert "1200 s ahead of this worker's clock" in refused()[0]["trace"]


def _set_clocks(folder: Path, monkeypatch: pytest.MonkeyPatch, *, minutes: int) -> None:
    """Set the clocks of processes that are started from now on."""
    (folder / "sitecustomize.py").write_text(_CLOCK.format(minutes=minutes))
    monkeypatch.setenv("PYTHONPATH", str(folder))
