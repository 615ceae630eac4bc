"""Unmodified Java connectors on a worker of a group: from their jars to records and offsets in Kafka."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from fencepost.config.java_settings import JavaSettings
from fencepost.embedded.broker import EmbeddedBroker
from fencepost.embedded.java import find_java
from fencepost.java.jvm import Jvm
from tests.support.checker import assert_exactly_once, read_offsets, read_topic, values
from tests.support.java_connectors import JSON, Connectors, java_group_worker
from tests.support.java_plugins import FILE_STREAM, HOSTILE, plugin_path
from tests.support.processes import wait_for
from tests.support.running_tasks import RunningTasks
from tests.support.topics import Topics
from tests.support.workers import Group, Worker


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


def jvms(worker: Worker) -> list[psutil.Process]:
    children = psutil.Process(worker.process.pid).children(recursive=True)
    return [one for one in children if one.status() != psutil.STATUS_ZOMBIE and "fencepost.host.Host" in one.cmdline()]


def test_a_file_goes_to_kafka_with_the_offsets_of_java(
    connector: Connectors, group: Group, topics: Topics, tmp_path: Path, bootstrap_servers: str
):
    topic, lines = topics.create(partitions=3), [f"line {number}" for number in range(5_000)]
    file = tmp_path / "in.txt"
    file.write_text("".join(f"{line}\n" for line in lines))
    name = connector.start(
        {"connector.class": FILE_STREAM, "file": str(file), "topic": topic, "exactly.once.support": "required"}
    )
    wait_for(lambda: len(read_topic(bootstrap_servers, topic)) >= len(lines), what="all lines")
    assert_exactly_once(values(read_topic(bootstrap_servers, topic)), [line.encode() for line in lines])
    offsets = read_topic(bootstrap_servers, f"{group.id}-offsets")
    last = {record.key: record.value for record in offsets if name.encode() in (record.key or b"")}
    # The bytes are equal to the ones that Java's worker stores.
    assert last == {f'["{name}",{{"filename":"{file}"}}]'.encode(): b'{"position":%d}' % file.stat().st_size}


def test_records_of_java_connectors_are_converted_in_the_jvm(
    connector: Connectors, topics: Topics, bootstrap_servers: str
):
    topic, now = topics.create(), time.time_ns() // 1_000_000
    connector.hostile(
        topic, "", limit="1", timestamp=str(now), **{"value.converter": JSON, "value.converter.schemas.enable": "true"}
    )
    wait_for(lambda: read_topic(bootstrap_servers, topic), what="the record")
    (record,) = read_topic(bootstrap_servers, topic)
    assert (record.key, record.timestamp, record.headers) == (b"k1", now + 1, (("number", b"1"),))
    assert record.value == b'{"schema":{"type":"int64","optional":false},"payload":1}'


@pytest.mark.parametrize("how", ["ask", "interrupted"])
def test_the_context_can_be_used_once_the_worker_has_its_connection(tmp_path: Path, how: str):
    """A plugin's start() may call its context as soon as the worker has the connection for these calls.

    The call may come from an interrupted thread.
    """
    jars = [str(jar) for jar in (plugin_path(tmp_path) / "hostile").iterdir()]
    session, asking = {"session": "s"}, {"topic": "t", "behaviour": f"{how} in connector.start"}
    jvm = Jvm("asking", JavaSettings())
    with contextlib.ExitStack() as stack:
        stack.callback(jvm.kill, "the test ends")
        first, events, later = (stack.enter_context(contextlib.closing(jvm.channel())) for _ in range(3))
        first.call("open", "open", **session, jars=jars, kind="connector", name="c", **{"class": HOSTILE})
        first.call("attach", "attach", **session)
        events.call("events", "events", **session)
        first.send({"op": "start", "config": asking})
        # Until this call is answered, other calls use its connection.
        assert events.receive()[0] == {"event": "reconfigure"}
        later.limit(0.5)
        with pytest.raises(TimeoutError):
            later.call("events", "events", **session)
        events.send({})
        assert first.receive()[0] == {}


@pytest.mark.parametrize(
    ("heap", "options"), [("512m", ()), ("256m", ()), ("32m", ()), ("512m", ("-Xmx96m",)), ("1g", ("-Xmn16m",))]
)
def test_a_jvm_starts_with_each_size_of_its_heap(heap: str, options: tuple[str, ...]):
    jvm = Jvm("sized", JavaSettings(heap=heap, options=options))
    jvm.kill("the test ends")
    # If the JVM had printed a warning, it would be in this message.
    assert str(jvm.ended()) == "The JVM of connector sized has ended: the test ends"


def test_java_connectors_are_listed_with_their_versions(worker: Worker):
    listed = {plugin["class"]: plugin.get("version") for plugin in worker.get("/connector-plugins")}
    assert listed[FILE_STREAM] == "4.1.1"
    assert listed[HOSTILE] == "6.6.6"
    # Our own class of the same name is listed under its Python name.
    assert "fencepost.connectors.files.stream_source.FileStreamSourceConnector" in listed
    keys = {key["name"]: key for key in worker.get(f"/connector-plugins/{FILE_STREAM}/config")}
    assert keys["batch.size"]["default_value"] == "2000"


def test_a_configuration_is_checked_by_the_java_connector(connector: Connectors):
    wrong = {"connector.class": HOSTILE, "topic": "t", "limit": "0"}
    assert connector.refusals(wrong) == {"limit": ["Invalid value 0 for configuration limit: Value must be at least 1"]}
    assert list(connector.refusals({"connector.class": FILE_STREAM})) == ["topic"]


def test_a_client_property_that_the_worker_does_not_allow_is_named(connector: Connectors, tmp_path: Path):
    refused, allowed = "producer.override.bootstrap.servers", "producer.override.linger.ms"
    config = {"connector.class": FILE_STREAM, "file": str(tmp_path / "in.txt"), "topic": "t", allowed: "5"}
    assert connector.refusals(config) == {}
    config[refused] = "127.0.0.1:9"
    reason = (
        f"The worker's override policy Allowlist does not let a connector set {refused}: remove the property or add "
        "bootstrap.servers to connector.client.config.override.allowlist in the worker's configuration"
    )
    assert connector.refusals(config) == {refused: [reason]}
    answer = connector.worker.request("POST", "/connectors", {"name": "refused", "config": config})
    assert answer.status == 400
    assert reason in answer.body["message"]
    assert connector.worker.request("GET", "/connectors/refused").status == 404


@pytest.mark.parametrize("prefix", ["java:", "fencepost:"])
def test_a_prefix_chooses_the_java_connector(
    connector: Connectors, topics: Topics, tmp_path: Path, bootstrap_servers: str, prefix: str
):
    topic, file = topics.create(), tmp_path / "in.txt"
    file.write_text("one\n")
    name = connector.start({"connector.class": prefix + FILE_STREAM, "file": str(file), "topic": topic})
    wait_for(lambda: values(read_topic(bootstrap_servers, topic)) == [b"one"])
    connector.worker.wait_for_states(name, "RUNNING", "RUNNING")
    version = connector.worker.get(f"/connectors/{name}/status")["connector"]["version"]
    assert (version == "4.1.1") == (prefix == "java:")


@pytest.mark.parametrize("how", ["exit", "leak"])
def test_a_jvm_that_ends_is_started_again_with_nothing_lost(
    connector: Connectors, topics: Topics, tmp_path: Path, bootstrap_servers: str, how: str
):
    topic = topics.create()
    connector.hostile(topic, f"{how} in task.poll", marker=str(tmp_path / "marker"))
    wait_for(lambda: len(read_topic(bootstrap_servers, topic)) == 10, what="all numbers")
    assert [record.key for record in read_topic(bootstrap_servers, topic)] == [b"k%d" % n for n in range(1, 11)]
    assert (tmp_path / "marker").exists()


def test_a_jvm_that_ends_at_each_start_is_started_as_often_as_configured(connector: Connectors, topics: Topics):
    restarts = {"task.restart.max": "2", "task.restart.backoff.ms": "10"}
    name = connector.hostile(topics.create(), "exit in task.start", **restarts)
    connector.worker.wait_for_states(name, "FAILED", "FAILED")
    assert connector.worker.process.output.count(f"[{name}|worker] printed by the task (java.output)") == 3


@pytest.mark.parametrize(
    ("how", "words"),
    [("exit", "printed by the task"), ("leak", "Terminating due to java.lang.OutOfMemoryError: Java heap space")],
    ids=["exit", "leak"],
)
def test_the_last_words_of_a_jvm_are_in_the_status(connector: Connectors, topics: Topics, how: str, words: str):
    name = connector.hostile(topics.create(), f"{how} in task.poll", **{"task.restart.policy": "never"})
    # The connector and its task end with the JVM.
    connector.worker.wait_for_states(name, "FAILED", "FAILED")
    (task,) = connector.worker.get(f"/connectors/{name}/status")["tasks"]
    assert "exited with status 3. Its last words:" in task["trace"]
    assert words in task["trace"]


def test_a_connector_in_python_goes_on_beside_a_jvm_that_exits(
    connector: Connectors, group: Group, topics: Topics, bootstrap_servers: str
):
    worker, python = connector.worker, RunningTasks(group, bootstrap_servers, count=1)
    python.create(worker)
    python.wait_until_shared(worker)
    name = connector.hostile(topics.create(), "exit in task.poll", **{"task.restart.policy": "never"})
    worker.wait_for_states(name, "FAILED", "FAILED")
    # It sends more.
    python.wait_until_shared(worker)
    assert worker.process.output.count(f"Task {python.name}-0 is RUNNING") == 1
    python.assert_exactly_once(worker)
    assert worker.request("DELETE", f"/connectors/{python.name}").status == 204


def test_a_java_tasks_exception_is_in_its_status_with_its_trace(connector: Connectors, topics: Topics):
    name = connector.hostile(topics.create(), "throw in task.poll")
    connector.worker.wait_for_states(name, "RUNNING", "FAILED")
    assert "java.lang.IllegalStateException: the source is gone" in connector.trace(name)
    assert "at hostile.HostileTask.poll" in connector.trace(name)


@pytest.mark.parametrize(
    ("behaviour", "message"),
    [
        ("lists", "gave number a value of java.util.ImmutableCollections$List12"),
        ("topicless", "a record without a topic"),
    ],
)
def test_a_record_that_cannot_be_stored_fails_the_task(
    connector: Connectors, topics: Topics, behaviour: str, message: str
):
    name = connector.hostile(topics.create(), behaviour)
    connector.worker.wait_for_states(name, "RUNNING", "FAILED")
    assert message in connector.trace(name)


@pytest.mark.parametrize(("how", "returned"), [("null", "null"), ("empty", "[null]")])
def test_null_task_configurations_are_an_error_that_says_so(
    connector: Connectors, topics: Topics, how: str, returned: str
):
    name = connector.hostile(topics.create(), f"{how} in connector.taskConfigs")
    connector.worker.process.wait_for_output(f"taskConfigs() returned {returned}, and no tasks can be made of null")
    # The log says so before the status is in the status topic.
    wait_for(lambda: (connector.worker.get(f"/connectors/{name}/status") or {}).get("tasks") == [])


@pytest.mark.parametrize("behaviour", ["retry", "retry-of-clients"])
def test_a_retriable_exception_is_polled_again(
    connector: Connectors, topics: Topics, bootstrap_servers: str, behaviour: str
):
    topic = topics.create()
    connector.hostile(topic, behaviour, **{"task.restart.policy": "never"})
    wait_for(lambda: len(read_topic(bootstrap_servers, topic)) == 10)


@pytest.mark.parametrize(("limit", "keys"), [(8, [b"k3", b"k4", b"k7", b"k8"]), (6, [b"k3", b"k4"])])
@pytest.mark.parametrize("behaviour", ["boundaries", "batches"], ids=["after a record", "after a batch"])
def test_a_task_ends_its_own_transactions(
    connector: Connectors,
    *,
    group: Group,
    topics: Topics,
    bootstrap_servers: str,
    behaviour: str,
    limit: int,
    keys: list[bytes],
):
    """Records of aborted transactions are not read again, as in Kafka Connect: their offsets are committed."""
    topic = topics.create()
    name = connector.hostile(topic, behaviour, limit=str(limit), **{"transaction.boundary": "connector"})
    end = [({"counter": "c"}, {"number": limit})]
    wait_for(lambda: read_offsets(bootstrap_servers, f"{group.id}-offsets", name) == end, what="all offsets")
    assert [record.key for record in read_topic(bootstrap_servers, topic)] == keys


@pytest.mark.parametrize("behaviour", ["late in task.poll", "late"], ids=["an empty list", "null"])
def test_a_task_ends_its_transaction_with_a_poll_without_records(
    connector: Connectors, topics: Topics, bootstrap_servers: str, behaviour: str
):
    topic = topics.create()
    connector.hostile(topic, behaviour, limit="3", **{"transaction.boundary": "connector"})
    wait_for(lambda: [record.key for record in read_topic(bootstrap_servers, topic)] == [b"k1", b"k2", b"k3"])


@pytest.mark.parametrize("named", ["java", 'a] "b" [c'])
def test_log_lines_of_java_code_are_in_the_workers_log(connector: Connectors, topics: Topics, named: str):
    name = connector.start({"connector.class": HOSTILE, "topic": topics.create(), "behaviour": ""}, named)
    connector.worker.process.wait_for_output(f"INFO    [{name}|task-0] begins after 0 (java.hostile.HostileTask)")
    connector.worker.process.wait_for_output(f"[{name}|worker] printed by the task (java.output)")


def test_a_connector_resumes_at_its_offset_after_its_jvm_was_killed(
    connector: Connectors, topics: Topics, tmp_path: Path, bootstrap_servers: str
):
    topic, file = topics.create(), tmp_path / "in.txt"
    file.write_text("one\n")
    before = {one.pid for one in jvms(connector.worker)}
    connector.start({"connector.class": FILE_STREAM, "file": str(file), "topic": topic})
    wait_for(lambda: values(read_topic(bootstrap_servers, topic)) == [b"one"])
    for one in jvms(connector.worker):
        if one.pid not in before:
            os.kill(one.pid, signal.SIGKILL)
    with file.open("a") as more:
        more.write("two\n")
    wait_for(lambda: len(read_topic(bootstrap_servers, topic)) > 1)
    assert values(read_topic(bootstrap_servers, topic)) == [b"one", b"two"]


def test_all_connectors_share_a_jvm_if_configured(group: Group, topics: Topics, tmp_path: Path, bootstrap_servers: str):
    (tmp_path / "in.txt").write_text("one\n")
    first, second = topics.create(), topics.create()
    own = Group(tmp_path, bootstrap_servers, plugin_path=group.settings["plugin.path"])
    java = {"JAVA_HOME": str(find_java().home)}
    with own.starting(
        environment=java, fencepost_java_isolation="worker", fencepost_java_directory=str(tmp_path)
    ) as worker:
        worker.wait_until_healthy()
        connectors = Connectors(worker)
        connectors.hostile(first, "", limit="10")
        connectors.start({"connector.class": FILE_STREAM, "file": "in.txt", "topic": second})
        wait_for(
            lambda: (len(read_topic(bootstrap_servers, first)), len(read_topic(bootstrap_servers, second))) == (10, 1)
        )
        (jvm,) = jvms(worker)
        jvm.kill()
        with (tmp_path / "in.txt").open("a") as more:
            more.write("two\n")
        wait_for(lambda: len(read_topic(bootstrap_servers, second)) > 1, what="the line after the kill")
    assert values(read_topic(bootstrap_servers, second)) == [b"one", b"two"]
    assert len(read_topic(bootstrap_servers, first)) == 10


def test_offsets_can_be_reset_and_altered(connector: Connectors, topics: Topics, bootstrap_servers: str):
    topic = topics.create()
    name = connector.hostile(topic, "", limit="4")
    wait_for(lambda: len(read_topic(bootstrap_servers, topic)) == 4)
    worker = connector.worker
    assert worker.request("PUT", f"/connectors/{name}/stop").status == 204
    worker.wait_for_states(name, "STOPPED")
    offsets: Any = {"offsets": [{"partition": {"counter": "c"}, "offset": {"number": 2}}]}
    assert worker.request("PATCH", f"/connectors/{name}/offsets", offsets).status == 200
    assert worker.request("PUT", f"/connectors/{name}/resume").status == 202
    wait_for(lambda: len(read_topic(bootstrap_servers, topic)) == 6)
    assert [record.key for record in read_topic(bootstrap_servers, topic)][4:] == [b"k3", b"k4"]
