"""Java code that does not return: its JVM is killed once its connector has to stop, and other connectors go on."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from fencepost.embedded.broker import EmbeddedBroker
from fencepost.java import jvm
from tests.support.checker import read_offsets, read_topic, values
from tests.support.java_connectors import Connectors, java_group_worker, with_java
from tests.support.java_plugins import FILE_STREAM, HOSTILE, NOTED, ODD, STUCK, STUCK_HEADERS, STUCK_TEST, plugin_path
from tests.support.java_runs import jvms
from tests.support.local_workers import LocalWorkers
from tests.support.processes import wait_for
from tests.support.topics import Topics, unique
from tests.support.workers import Group, Worker

PLACES = (
    "connector.start", "connector.taskClass", "connector.taskConfigs", "connector.stop",
    "task.start", "task.poll", "task.commit", "task.commitRecord", "task.stop",
)  # fmt: skip
_ODD = {"transforms": "odd", "transforms.odd.type": ODD}
_PREDICATE = {
    **_ODD,
    "transforms.odd.how": "drop",
    "transforms.odd.predicate": "p",
    "predicates": "p",
    "predicates.p.type": STUCK_TEST,
}


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
    """The JVMs of a worker's connectors."""
    return connector_jvms(worker.process.pid)


def connector_jvms(process: int) -> set[int]:
    """The JVMs of connectors, without the JVM for validation, which has no optimizing compiler."""
    found = set()
    for one in jvms(process):
        with contextlib.suppress(psutil.Error):
            if "-XX:TieredStopAtLevel=1" not in one.cmdline():
                found.add(one.pid)
    return found


class Hanging(Connectors):
    """Connectors whose Java code does not return."""

    def hang(self, topic: str, where: str, notes: Path, **more: str) -> str:
        """Start a connector, and wait until it hangs. If it hangs in its stop, wait until it is RUNNING."""
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
    if where.endswith("stop"):
        # The worker has a time-out for the connector, too, which may be over first.
        reason = (
            rf"The JVM of (connector|task) {name}\S* is killed: (stop\(\) of|Java code) .*did not return within 2 s"
        )
        wait_for(lambda: re.search(reason, worker.process.output), what="the reason why it was killed")


@pytest.mark.parametrize(
    "pipeline",
    [
        # This task hangs before its start.
        pytest.param({**_ODD, "transforms.odd.how": "hang in configure"}, id="configure"),
        pytest.param({"value.converter": STUCK, "value.converter.where": "configure"}, id="configure a converter"),
        pytest.param(
            {"header.converter": STUCK_HEADERS, "header.converter.where": "configure"}, id="configure headers"
        ),
        pytest.param({**_PREDICATE, "predicates.p.where": "configure"}, id="configure a predicate"),
        pytest.param({**_ODD, "transforms.odd.how": "hang in apply"}, id="apply"),
        pytest.param(_PREDICATE, id="test"),
        pytest.param({"value.converter": STUCK}, id="convert"),
        pytest.param({"header.converter": STUCK_HEADERS}, id="convert headers"),
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


@pytest.mark.parametrize(
    "pipeline",
    [
        pytest.param({**_ODD, "transforms.odd.how": "hang in close"}, id="a transform"),
        pytest.param({"value.converter": STUCK, "value.converter.where": "close"}, id="a converter"),
        pytest.param({"header.converter": STUCK_HEADERS, "header.converter.where": "close"}, id="a header converter"),
        pytest.param({**_PREDICATE, "predicates.p.where": "close"}, id="a predicate"),
    ],
)
def test_a_jvm_whose_pipeline_hangs_in_its_end_is_killed_with_its_connector(
    hanging: Hanging, topics: Topics, tmp_path: Path, bootstrap_servers: str, pipeline: dict[str, str]
):
    worker, topic = hanging.worker, topics.create()
    before = pids(worker)
    name = hanging.hang(topic, "stop", tmp_path / "notes", limit="1", **pipeline)
    wait_for(lambda: read_topic(bootstrap_servers, topic), what="the record")
    assert worker.request("DELETE", f"/connectors/{name}").status == 204
    wait_for(lambda: pids(worker) <= before, what="its JVM has gone")


def test_a_jvm_that_stands_still_is_killed_when_its_connector_is_deleted(hanging: Hanging, topics: Topics):
    worker = hanging.worker
    before = pids(worker)
    name = hanging.hostile(topics.create(), "")
    worker.wait_for_states(name, "RUNNING", "RUNNING")
    (silent,) = pids(worker) - before
    os.kill(silent, signal.SIGSTOP)
    assert worker.request("DELETE", f"/connectors/{name}").status == 204
    wait_for(lambda: silent not in pids(worker), what="its JVM has gone")


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


def test_a_connector_whose_jvm_stands_still_is_started_again_with_nothing_lost(
    topics: Topics,
    tmp_path: Path,
    bootstrap_servers: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
):
    monkeypatch.setattr(jvm, "_WATCH_S", 0.1)
    monkeypatch.setattr(jvm, "_SILENT_S", 3.0)
    topic, gate, name = topics.create(), tmp_path / "gate", unique("silent")
    own = Group(tmp_path, bootstrap_servers, plugin_path=str(plugin_path(tmp_path, "hostile")))
    with LocalWorkers(own, java=True) as workers:
        worker = workers.start()
        config = {"connector.class": HOSTILE, "topic": topic, "limit": "10", "gate": str(gate)}
        config |= {"exactly.once.support": "required", "task.restart.backoff.ms": "10"}
        assert worker.request("PUT", f"/connectors/{name}/config", config).status == 201
        wait_for(lambda: len(read_topic(bootstrap_servers, topic)) == 3, what="the numbers before the gate")
        (silent,) = connector_jvms(os.getpid())
        os.kill(silent, signal.SIGSTOP)
        gate.touch()
        wait_for(lambda: len(read_topic(bootstrap_servers, topic)) >= 10, what="all numbers")
        worker.wait_for_states(name, "RUNNING", "RUNNING")
        assert silent not in connector_jvms(os.getpid())
        assert worker.request("DELETE", f"/connectors/{name}").status == 204
    assert f"The JVM of connector {name} is killed: it gave no sign of life for 3 s" in caplog.text
    assert values(read_topic(bootstrap_servers, topic)) == [b"%d" % number for number in range(1, 11)]
    assert read_offsets(bootstrap_servers, f"{own.id}-offsets", name) == [({"counter": "c"}, {"number": 10})]


def test_a_jvm_that_stands_still_fails_its_tasks_and_a_call_that_hangs_does_not(
    topics: Topics,
    tmp_path: Path,
    bootstrap_servers: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
):
    caplog.set_level("INFO", "java")
    monkeypatch.setattr(jvm, "_WATCH_S", 0.1)
    monkeypatch.setattr(jvm, "_SILENT_S", 3.0)
    own = Group(
        tmp_path,
        bootstrap_servers,
        plugin_path=str(plugin_path(tmp_path, "hostile")),
        task_shutdown_graceful_timeout_ms="2000",
    )
    never = {"task.restart.policy": "never"}
    with LocalWorkers(own, java=True) as workers, contextlib.closing(Connectors(workers.start())) as connectors:
        worker = connectors.worker
        hanging = connectors.hostile(topics.create(), "hang in task.start", **never)
        wait_for(lambda: "hangs" in caplog.text, what="its task hangs")
        assert worker.states(hanging) == ["RUNNING"]
        (busy,) = connector_jvms(os.getpid())
        silent = connectors.hostile(topics.create(), "", **never)
        worker.wait_for_states(silent, "RUNNING", "RUNNING")
        (still,) = connector_jvms(os.getpid()) - {busy}
        os.kill(still, signal.SIGSTOP)
        worker.wait_for_states(silent, "FAILED", "FAILED")
        status = worker.get(f"/connectors/{silent}/status")
        for trace in (status["connector"]["trace"], status["tasks"][0]["trace"]):
            assert "has ended: it gave no sign of life for 3 s. Its last words:" in trace
            assert "begins after 0" in trace
            assert "printed by the task" in trace
        # The call that hangs is older than the silence.
        assert worker.states(hanging) == ["RUNNING"]
        assert len(worker.get(f"/connectors/{hanging}/tasks")) == 1
        assert connector_jvms(os.getpid()) == {busy}


def ask(worker: Worker, method: str, path: str, body: Any = None) -> None:
    """Send a request that is not answered until the worker ends."""

    def send() -> None:
        with contextlib.suppress(OSError):
            worker.request(method, path, body)

    threading.Thread(target=send, daemon=True).start()


def assert_others_go_on(worker: Worker, topics: Topics, folder: Path, bootstrap_servers: str) -> None:
    """Other Java connectors start and write, and the worker stops as usual."""
    topic, file = topics.create(), folder / "in.txt"
    file.write_text("one\n")
    Connectors(worker).start({"connector.class": FILE_STREAM, "file": str(file), "topic": topic})
    wait_for(lambda: values(read_topic(bootstrap_servers, topic)) == [b"one"])
    worker.process.signal(signal.SIGTERM)
    assert worker.process.wait(30) == 0


def test_validations_that_hang_block_no_other_connector_and_no_worker(
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


@pytest.mark.parametrize("question", ["static", "constructor", "version", "config", "transform.config"])
def test_a_class_that_hangs_blocks_no_other_connector_and_no_worker(
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
        config = {"connector.class": HOSTILE, "topic": topics.create(), **_ODD, "transforms.odd.how": "drop"}
        ask(worker, "PUT", "/connectors/hanging/config", config)
        worker.process.wait_for_output("hangs (java.output)")
        assert_others_go_on(worker, topics, tmp_path, bootstrap_servers)


@pytest.mark.parametrize(
    "call", ["static", "constructor", "initialize", "task.static", "task.constructor", "task.initialize"]
)
def test_a_connector_that_hangs_before_its_start_blocks_no_other_and_no_worker(
    group: Group, topics: Topics, tmp_path: Path, bootstrap_servers: str, call: str
):
    """Its classes answer all questions, and hang once their own JVM loads them."""
    gate, name = tmp_path / "gate", unique("hanging")
    own = Group(
        tmp_path,
        bootstrap_servers,
        plugin_path=group.settings["plugin.path"],
        task_shutdown_graceful_timeout_ms="2000",
        fencepost_java_options=f"-Dhostile.hangs={call} -Dhostile.gate={gate}",
    )
    with with_java(own) as worker:
        worker.wait_until_healthy()
        config: Any = {"connector.class": HOSTILE, "topic": topics.create()}
        body = {"name": name, "config": config, "initial_state": "STOPPED"}
        assert worker.request("POST", "/connectors", body).status == 201
        worker.wait_for_states(name, "STOPPED")
        gate.touch()
        assert worker.request("PUT", f"/connectors/{name}/resume").status == 202
        worker.process.wait_for_output("hangs (java.output)")
        assert pids(worker)
        assert worker.request("DELETE", f"/connectors/{name}").status == 204
        wait_for(lambda: not pids(worker), what="its JVM has gone")
        assert_others_go_on(worker, topics, tmp_path, bootstrap_servers)


def test_connectors_that_share_a_jvm_go_on_after_one_that_hung(
    group: Group, topics: Topics, tmp_path: Path, bootstrap_servers: str
):
    """All connectors share the JVM that is killed, so all of them start again."""
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
