"""Requests to a worker that has just been started, and to one whose config topic was deleted."""

from __future__ import annotations

import contextlib
import http.client
from pathlib import Path

from tests.support.processes import wait_for
from tests.support.sequence_source import properties
from tests.support.topics import Topics, unique
from tests.support.workers import Answer, Group, Worker


def _first_answer(worker: Worker, method: str, path: str, body: object = None) -> Answer:
    """Retry until the worker listens; return its first answer."""

    def asked() -> Answer | None:
        with contextlib.suppress(OSError, http.client.HTTPException):
            return worker.request(method, path, body)
        return None

    return wait_for(asked, what="the worker listens")


def test_a_connector_is_created_by_the_first_request_at_every_start(
    tmp_path: Path, bootstrap_servers: str, topic: str
) -> None:
    group = Group(tmp_path, bootstrap_servers)
    names = [unique("connector") for _ in range(3)]
    port = None
    for number, name in enumerate(names):
        body = {"name": name, "config": properties(name, topic, {"limit": 1})}
        with group.starting(port) as worker:
            port = worker.port
            if number:
                # The answer has everything in the config topic, although the killed worker is still in the group.
                listed = _first_answer(worker, "GET", "/connectors")
                assert (listed.status, sorted(listed.body)) == (200, sorted(names[:number]))
            created = _first_answer(worker, "POST", "/connectors", body)
            assert created.status == 201, created
            worker.wait_for_states(name, "RUNNING", "RUNNING")
            worker.process.kill()


def test_a_status_omits_a_workers_tasks_from_before_its_restart(
    tmp_path: Path, bootstrap_servers: str, topic: str
) -> None:
    group = Group(tmp_path, bootstrap_servers)
    name = unique("connector")
    with group.worker() as worker:
        body = {"name": name, "config": properties(name, topic, {"limit": 1})}
        assert worker.request("POST", "/connectors", body).status == 201
        worker.wait_for_states(name, "RUNNING", "RUNNING")
        worker.process.kill()
    with group.starting(worker.port) as again:
        first = _first_answer(again, "GET", f"/connectors/{name}/status")
        assert first.status == 200
        assert {first.body["connector"]["state"], first.body["tasks"][0]["state"]} == {"UNASSIGNED"}
        again.wait_for_states(name, "RUNNING", "RUNNING")


def test_a_config_topic_that_was_deleted_is_named_by_each_request_that_fails_for_it(
    tmp_path: Path, bootstrap_servers: str, topic: str, topics: Topics
) -> None:
    group = Group(tmp_path, bootstrap_servers)
    name, other = unique("connector"), unique("connector")
    config = properties(name, topic, {"limit": 1})
    with group.worker() as worker:
        assert worker.request("POST", "/connectors", {"name": name, "config": config}).status == 201
        worker.wait_for_states(name, "RUNNING", "RUNNING")

        topics.delete(f"{group.id}-configs")
        told = f"The config topic {group.id}-configs was deleted"

        def is_told() -> bool:
            health = worker.request("GET", "/health")
            return health.status == 503 and told in health.body["message"]

        wait_for(is_told, what="the worker's health names the topic")
        requests = [
            ("GET", "/connectors", None),
            ("GET", f"/connectors/{name}", None),
            ("POST", "/connectors", {"name": other, "config": properties(other, topic, {"limit": 1})}),
            ("PUT", f"/connectors/{name}/config", config),
            ("PATCH", f"/connectors/{name}/config", {"tasks.max": "2"}),
            ("PUT", f"/connectors/{name}/pause", None),
            ("PUT", f"/connectors/{name}/stop", None),
            ("POST", f"/connectors/{name}/restart", None),
            ("POST", f"/connectors/{name}/restart?includeTasks=true", None),
            ("POST", f"/connectors/{name}/tasks/0/restart", None),
            ("DELETE", f"/connectors/{name}/offsets", None),
            ("DELETE", f"/connectors/{name}", None),
        ]
        for method, path, body in requests:
            answer = worker.request(method, path, body)
            assert (answer.status, told in answer.body["message"]) == (500, True), (method, path, answer)
        # Requests that do not need the config topic are answered as usual.
        assert worker.states(name) == ["RUNNING", "RUNNING"]
        assert worker.request("GET", "/").status == 200

        # The worker's state is outdated, as it is not from the new topic.
        topics.create(f"{group.id}-configs", config={"cleanup.policy": "compact"})
        told += " and created again"
        wait_for(is_told, what="the worker's health names the new topic")
        assert told in worker.request("GET", "/connectors").body["message"]
