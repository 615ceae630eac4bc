"""Java code that does not return: its JVM is killed once its connector has to stop, and everything else goes on."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from fencepost.embedded.broker import EmbeddedBroker
from tests.support.checker import read_topic, values
from tests.support.java_connectors import Connectors, java_group_worker
from tests.support.java_plugins import NOTED, ODD, plugin_path
from tests.support.java_runs import jvms
from tests.support.processes import wait_for
from tests.support.topics import Topics
from tests.support.workers import Group, Worker

PLACES = (
    "connector.start", "connector.taskConfigs", "connector.stop",
    "task.start", "task.poll", "task.commit", "task.commitRecord", "task.stop",
)  # fmt: skip


@pytest.fixture(scope="module")
def group(tmp_path_factory: pytest.TempPathFactory, broker: EmbeddedBroker) -> Group:
    folder = tmp_path_factory.mktemp("java")
    return Group(
        folder, broker.bootstrap_servers, plugin_path=str(plugin_path(folder)), task_shutdown_graceful_timeout_ms="2000"
    )


@pytest.fixture(scope="module")
def worker(group: Group) -> Iterator[Worker]:
    with java_group_worker(group) as worker:
        yield worker


def pids(worker: Worker) -> set[int]:
    """The JVMs of connectors, without the one for questions, which has no optimizing compiler."""
    found = set()
    for one in jvms(worker.process.pid):
        with contextlib.suppress(psutil.Error):
            if "-XX:TieredStopAtLevel=1" not in one.cmdline():
                found.add(one.pid)
    return found


class Hanging(Connectors):
    """Connectors whose Java code does not return."""

    def hang(self, topic: str, where: str, notes: Path, **more: str) -> str:
        """Start one, and wait until it hangs, which those do at their stop only that hang there."""
        name = self.hostile(topic, f"hang in {where}", notes=str(notes), **{"connector.class": NOTED, **more})
        if where.endswith("stop"):
            self.worker.wait_for_states(name, "RUNNING", "RUNNING")
        else:
            self.wait_until_it_hangs(name)
        return name

    def wait_until_it_hangs(self, name: str) -> None:
        self.worker.process.wait_for_output(f"[{name}|worker] hangs")


@pytest.fixture
def hanging(worker: Worker) -> Iterator[Hanging]:
    with contextlib.closing(Hanging(worker)) as connectors:
        yield connectors


@pytest.mark.parametrize("where", PLACES)
def test_a_jvm_that_hangs_is_killed_when_its_connector_is_deleted(
    hanging: Hanging, topics: Topics, tmp_path: Path, where: str
):
    worker = hanging.worker
    before = pids(worker)
    name = hanging.hang(topics.create(), where, tmp_path / "notes")
    assert pids(worker) - before
    assert worker.request("DELETE", f"/connectors/{name}").status == 204
    wait_for(lambda: pids(worker) <= before, what="its JVM has gone")


def test_a_jvm_whose_transform_hangs_is_killed_when_its_connector_is_deleted(
    hanging: Hanging, topics: Topics, tmp_path: Path
):
    """The task has not got as far as a start."""
    worker = hanging.worker
    before = pids(worker)
    transform = {"transforms": "odd", "transforms.odd.type": ODD, "transforms.odd.how": "hang"}
    name = hanging.hang(topics.create(), "nothing", tmp_path / "notes", **transform)
    assert worker.request("DELETE", f"/connectors/{name}").status == 204
    wait_for(lambda: pids(worker) <= before, what="its JVM has gone")


@pytest.mark.parametrize("where", ["connector.start", "connector.taskConfigs", "task.start", "task.poll"])
def test_a_connector_that_hung_runs_once_it_is_mended(
    hanging: Hanging, topics: Topics, tmp_path: Path, bootstrap_servers: str, where: str
):
    worker, topic = hanging.worker, topics.create()
    name = hanging.hang(topic, where, tmp_path / "notes", limit="5")
    config = worker.get(f"/connectors/{name}/config")
    assert worker.request("PUT", f"/connectors/{name}/config", {**config, "behaviour": ""}).status == 200
    wait_for(lambda: len(read_topic(bootstrap_servers, topic)) >= 5, what="all numbers")
    assert values(read_topic(bootstrap_servers, topic)) == [b"1", b"2", b"3", b"4", b"5"]
    worker.wait_for_states(name, "RUNNING", "RUNNING")
