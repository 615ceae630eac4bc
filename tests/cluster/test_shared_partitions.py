"""Tasks on two workers write the same source partition: the connector and the tasks fail, and name the partition."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.support.overlapping_source import OverlappingConnector
from tests.support.processes import wait_for
from tests.support.topics import unique
from tests.support.workers import Group, Worker


@pytest.fixture(scope="module")
def group(tmp_path_factory: pytest.TempPathFactory, broker: Any) -> Group:
    folder: Path = tmp_path_factory.mktemp("shared")
    return Group(folder, broker.bootstrap_servers, task_restart_policy="always")


@pytest.fixture(scope="module")
def workers(group: Group) -> Iterator[list[Worker]]:
    with ExitStack() as stack:
        yield [stack.enter_context(group.worker()) for _ in range(2)]


@pytest.fixture
def name(workers: list[Worker]) -> Iterator[str]:
    name = unique("connector")
    yield name
    workers[0].request("DELETE", f"/connectors/{name}")


def _config(topic: str, **extra: str) -> dict[str, str]:
    connector = f"{OverlappingConnector.__module__}.{OverlappingConnector.__qualname__}"
    return {"connector.class": connector, "topic": topic, "tasks.max": "2", **extra}


def test_tasks_that_share_a_source_partition_fail_with_the_connector(
    workers: list[Worker], group: Group, name: str, topic: str
) -> None:
    worker = workers[0]
    worker.request("PUT", f"/connectors/{name}/config", _config(topic))
    worker.wait_for_states(name, "FAILED", "FAILED", "FAILED")
    status = worker.get(f"/connectors/{name}/status")
    assert len({task["worker_id"] for task in status["tasks"]}) == 2
    for part in (status["connector"], *status["tasks"]):
        assert f'{{"file": "shared"}}: those with the transactional ids {group.id}-{name}-0 and' in part["trace"]
        assert f"{group.id}-{name}-1" in part["trace"]

    # Offsets that are already in the topic do not make the connector fail again.
    worker.request("PUT", f"/connectors/{name}/config", _config(topic, shared="false"))
    wait_for(lambda: len(worker.get(f"/connectors/{name}/offsets")["offsets"]) == 3, what="both tasks commit")
    worker.wait_for_states(name, "RUNNING", "RUNNING", "RUNNING")


def test_tasks_that_share_a_source_partition_fail_again_when_restarted(
    workers: list[Worker], name: str, topic: str
) -> None:
    worker = workers[0]
    worker.request("PUT", f"/connectors/{name}/config", _config(topic))
    worker.wait_for_states(name, "FAILED", "FAILED", "FAILED")
    answer = worker.request("POST", f"/connectors/{name}/restart?includeTasks=true&onlyFailed=true")
    assert answer.status == 202, answer
    wait_for(lambda: "RUNNING" in worker.states(name), what="they run again")
    worker.wait_for_states(name, "FAILED", "FAILED", "FAILED")
