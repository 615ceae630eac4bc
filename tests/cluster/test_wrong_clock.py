"""A worker on a machine whose clock is further ahead than brokers allow."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.processes import wait_for
from tests.support.workers import Group
from tests.support.wrong_clock import HOURS_AHEAD

_CLOCK = f"""
import time
before = time.time_ns
time.time_ns = lambda: before() + {HOURS_AHEAD} * 3600 * 10**9
time.time = lambda: time.time_ns() / 10**9
"""
_NAMED = "the clock of this worker's machine is further from the broker's"


def test_a_leader_with_a_wrong_clock_names_it_and_does_not_spin(
    tmp_path: Path, bootstrap_servers: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sitecustomize.py").write_text(_CLOCK)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
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
