"""The leader's process stands still (SIGSTOP), and does not answer the requests that another worker forwards to it."""

from __future__ import annotations

import signal
from functools import partial
from pathlib import Path

import pytest

from fencepost.rest import app
from tests.support.local_workers import LocalWorkers
from tests.support.processes import wait_for
from tests.support.sequence_source import properties
from tests.support.topics import Topics, unique
from tests.support.workers import Group

_SECONDS = 3


def test_a_request_that_a_frozen_leader_does_not_answer_names_that_worker(
    tmp_path: Path, bootstrap_servers: str, topics: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    group, name = Group(tmp_path, bootstrap_servers, session_timeout_ms="60000"), unique("connector")
    config = properties(name, topics.create(), {"limit": 5})
    with group.worker() as leader, LocalWorkers(group) as workers:
        wait_for(leader.leads, what="the first worker leads")
        with monkeypatch.context() as hasty:
            hasty.setattr(app, "Gate", partial(app.Gate, timeout_seconds=_SECONDS))
            follower = workers.start()
        assert leader.request("POST", "/connectors", {"name": name, "config": config}).status == 201
        follower.wait_for_states(name, "RUNNING", "RUNNING")

        leader.process.signal(signal.SIGSTOP)
        for method, path, body in (
            ("POST", "/connectors", {"name": "another", "config": config | {"name": "another"}}),
            ("PUT", f"/connectors/{name}/config", config),
            ("PATCH", f"/connectors/{name}/offsets", {"offsets": [{"partition": {"a": 1}, "offset": {"b": 1}}]}),
        ):
            answer = follower.request(method, path, body)
            # Kafka Connect's workers answer a forwarded request that fails with this status, too.
            assert answer.status == 500, answer
            said = answer.body["message"]
            assert f"was not completed within {_SECONDS} s" in said
            assert f"the worker at {leader.url}/, to which it was forwarded, did not answer" in said
            assert "Check that worker, and restart it if its process hangs" in said
            assert "look before you send the request again" in said
        # A worker answers by itself what it knows.
        assert follower.get(f"/connectors/{name}/config") == config

        leader.process.signal(signal.SIGCONT)
        wait_for(
            lambda: follower.request("PUT", f"/connectors/{name}/config", config).status == 200,
            what="the leader does what is asked",
        )
