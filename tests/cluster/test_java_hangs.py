"""Java code that does not return: its JVM is killed once its connector has to stop, and everything else goes on."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from fencepost.embedded.broker import EmbeddedBroker
from tests.support.checker import read_topic, values
from tests.support.java_connectors import Connectors, java_group_worker, with_java
from tests.support.java_plugins import FILE_STREAM, HOSTILE, NOTED, ODD, STUCK, plugin_path
from tests.support.java_runs import jvms
from tests.support.processes import wait_for
from tests.support.topics import Topics
from tests.support.workers import Group, Worker

PLACES = (
    "connector.start", "connector.taskConfigs", "connector.stop",
    "task.start", "task.poll", "task.commit", "task.commitRecord", "task.stop",
)  # fmt: skip
_ODD = {"transforms": "odd", "transforms.odd.type": ODD}


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


@pytest.mark.parametrize(
    "pipeline",
    [
        # The task has not got as far as a start.
        pytest.param({**_ODD, "transforms.odd.how": "hang in configure"}, id="configure"),
        pytest.param({**_ODD, "transforms.odd.how": "hang in apply"}, id="apply"),
        pytest.param({"value.converter": STUCK}, id="convert"),
    ],
)
def test_a_jvm_whose_pipeline_hangs_is_killed_when_its_connector_is_deleted(
    hanging: Hanging, topics: Topics, tmp_path: Path, pipeline: dict[str, str]
):
    worker = hanging.worker
    before = pids(worker)
    name = hanging.hang(topics.create(), "nothing", tmp_path / "notes", **pipeline)
    assert worker.request("DELETE", f"/connectors/{name}").status == 204
    wait_for(lambda: pids(worker) <= before, what="its JVM has gone")


def test_a_jvm_that_stands_still_is_killed_when_its_connector_is_deleted(hanging: Hanging, topics: Topics):
    worker = hanging.worker
    before = pids(worker)
    name = hanging.hostile(topics.create(), "")
    worker.wait_for_states(name, "RUNNING", "RUNNING")
    (jvm,) = pids(worker) - before
    os.kill(jvm, signal.SIGSTOP)
    assert worker.request("DELETE", f"/connectors/{name}").status == 204
    wait_for(lambda: jvm not in pids(worker), what="its JVM has gone")


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


def ask(worker: Worker, method: str, path: str, body: Any = None) -> None:
    """Send a request that is not answered, until the worker ends."""

    def send() -> None:
        with contextlib.suppress(OSError):
            worker.request(method, path, body)

    threading.Thread(target=send, daemon=True).start()


def assert_others_go_on(worker: Worker, topics: Topics, folder: Path, bootstrap_servers: str) -> None:
    """Other Java connectors start and write; and the worker stops as if nothing hung."""
    topic, file = topics.create(), folder / "in.txt"
    file.write_text("one\n")
    Connectors(worker).start({"connector.class": FILE_STREAM, "file": str(file), "topic": topic})
    wait_for(lambda: values(read_topic(bootstrap_servers, topic)) == [b"one"])
    worker.process.signal(signal.SIGTERM)
    assert worker.process.wait(30) == 0


def test_questions_that_hang_keep_no_other_connector_and_no_worker(
    group: Group, topics: Topics, tmp_path: Path, bootstrap_servers: str
):
    places = ["validate", "exactlyOnceSupport", "canDefineTransactionBoundaries", "alterOffsets"]
    own = Group(tmp_path, bootstrap_servers, plugin_path=group.settings["plugin.path"])
    with with_java(own) as worker:
        worker.wait_until_healthy()
        config = {"connector.class": HOSTILE, "topic": topics.create()}
        stopped = Connectors(worker).start({**config, "behaviour": "hang in connector.alterOffsets"})
        assert worker.request("PUT", f"/connectors/{stopped}/stop").status == 204
        worker.wait_for_states(stopped, "STOPPED")
        offsets = {"offsets": [{"partition": {"counter": "c"}, "offset": {"number": 2}}]}
        ask(worker, "PATCH", f"/connectors/{stopped}/offsets", offsets)
        for place in places[:-1]:
            wanted = {"exactly.once.support": "required", "transaction.boundary": "connector"}
            hanging = {**config, **wanted, "behaviour": f"hang in connector.{place}"}
            ask(worker, "PUT", f"/connectors/{place}/config", hanging)
        wait_for(lambda: worker.process.output.count("hangs (java.output)") == len(places), what="all hang")
        assert_others_go_on(worker, topics, tmp_path, bootstrap_servers)


@pytest.mark.parametrize("question", ["version", "config"])
def test_a_class_that_hangs_keeps_no_other_connector_and_no_worker(
    group: Group, topics: Topics, tmp_path: Path, bootstrap_servers: str, question: str
):
    own = Group(
        tmp_path,
        bootstrap_servers,
        plugin_path=group.settings["plugin.path"],
        fencepost_java_options=f"-Dhostile.hangs={question}",
    )
    with with_java(own) as worker:
        worker.wait_until_healthy()
        ask(worker, "PUT", "/connectors/hanging/config", {"connector.class": HOSTILE, "topic": topics.create()})
        worker.process.wait_for_output("hangs (java.output)")
        assert_others_go_on(worker, topics, tmp_path, bootstrap_servers)


def test_connectors_that_share_a_jvm_go_on_after_one_that_hung(
    group: Group, topics: Topics, tmp_path: Path, bootstrap_servers: str
):
    """They start again: the JVM is the one of all."""
    topic, file = topics.create(), tmp_path / "in.txt"
    file.write_text("one\n")
    own = Group(
        tmp_path,
        bootstrap_servers,
        plugin_path=group.settings["plugin.path"],
        task_shutdown_graceful_timeout_ms="2000",
        fencepost_java_isolation="worker",
    )
    with with_java(own) as worker:
        worker.wait_until_healthy()
        hanging = Hanging(worker)
        good = hanging.start({"connector.class": FILE_STREAM, "file": str(file), "topic": topic})
        wait_for(lambda: values(read_topic(bootstrap_servers, topic)) == [b"one"])
        name = hanging.hostile(topics.create(), "hang in task.start")
        worker.process.wait_for_output("hangs (java.output)")
        before = pids(worker)
        assert worker.request("DELETE", f"/connectors/{name}").status == 204
        wait_for(lambda: not before & pids(worker), what="the JVM has gone")
        with file.open("a") as more:
            more.write("two\n")
        wait_for(lambda: len(read_topic(bootstrap_servers, topic)) > 1, what="the line after the kill")
        worker.wait_for_states(good, "RUNNING", "RUNNING")
    assert values(read_topic(bootstrap_servers, topic)) == [b"one", b"two"]
