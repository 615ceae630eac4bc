"""Harmful Java code: its own task fails, or works as in Kafka Connect, and no other connector is affected."""

from __future__ import annotations

import contextlib
import re
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from fencepost.embedded.broker import EmbeddedBroker
from fencepost.embedded.jars import class_path
from fencepost.embedded.java import find_java
from fencepost.java.host_jar import CONNECT
from tests.support.checker import read_offsets, read_topic, values
from tests.support.java_connectors import Connectors, java_group_worker
from tests.support.java_plugins import WILD, plugin_path
from tests.support.java_worker import BEFORE_KIP_618
from tests.support.processes import wait_for
from tests.support.topics import Topics
from tests.support.workers import Group, Worker

NUMBERS = [b"1", b"2", b"3", b"4", b"5"]
REQUEST_SIZE = "producer.override.max.request.size"


@pytest.fixture(scope="module")
def group(tmp_path_factory: pytest.TempPathFactory, broker: EmbeddedBroker) -> Group:
    folder = tmp_path_factory.mktemp("java")
    plugins = plugin_path(folder, "file", "hostile")
    for jar in class_path(find_java(), BEFORE_KIP_618.jars):
        # These versions are older than those of our JVM host.
        if jar.name.startswith("jackson-"):
            (plugins / "hostile" / jar.name).symlink_to(jar)
    for jar in class_path(find_java(), CONNECT):
        # Many plugins bring these, whose classes have to be the JVM host's.
        if jar.name.startswith(("connect-api-", "kafka-clients-", "slf4j-api-")):
            (plugins / "hostile" / jar.name).symlink_to(jar)
    return Group(folder, broker.bootstrap_servers, plugin_path=str(plugins), task_shutdown_graceful_timeout_ms="2000")


@pytest.fixture(scope="module")
def worker(group: Group) -> Iterator[Worker]:
    with java_group_worker(group) as worker:
        yield worker


class Wild(Connectors):
    """Harmful connectors next to a good one, which has to go on."""

    def wild(self, topic: str, how: str, **more: str) -> str:
        return self.start({"connector.class": WILD, "topic": topic, "wild": how, **more})

    def fail(self, topic: str, how: str, state: str = "RUNNING", **more: str) -> str:
        """Start a connector, and return the trace of its task, which fails for good; `state` is the connector's."""
        name = self.wild(topic, how, **{"task.restart.policy": "never", **more})
        self.worker.wait_for_states(name, state, "FAILED")
        return self.trace(name)


@pytest.fixture(scope="module")
def good(worker: Worker, broker: EmbeddedBroker) -> Iterator[str]:
    """The topic of a connector that must go on counting whatever the others do."""
    bootstrap_servers = broker.bootstrap_servers
    topic = Topics(bootstrap_servers).create()
    with contextlib.closing(Wild(worker)) as connectors:
        name = connectors.wild(topic, "slow", limit="1000000")
        wait_for(lambda: len(read_topic(bootstrap_servers, topic)) > 0, what="the good connector's first number")
        yield topic
        worker.wait_for_states(name, "RUNNING", "RUNNING")
        assert worker.request("PUT", f"/connectors/{name}/stop").status == 204
        worker.wait_for_states(name, "STOPPED")
        found = values(read_topic(bootstrap_servers, topic))
        assert found == [b"%d" % number for number in range(1, len(found) + 1)]


@pytest.fixture
def connector(worker: Worker, good: str, bootstrap_servers: str) -> Iterator[Wild]:
    with contextlib.closing(Wild(worker)) as connectors:
        yield connectors
        seen = len(read_topic(bootstrap_servers, good))
        wait_for(lambda: len(read_topic(bootstrap_servers, good)) > seen, what="the good connector goes on")


def numbers(bootstrap_servers: str, topic: str) -> list[bytes | None]:
    return values(read_topic(bootstrap_servers, topic))


def remove_crash_reports(text: str) -> int:
    """Remove crash reports of JVMs that are named in the text, and return their number."""
    reports = set(re.findall(r"hs_err_pid\d+\.log", text))
    for report in reports:
        (Path(tempfile.gettempdir()) / report).unlink(missing_ok=True)
    return len(reports)


def test_a_native_crash_ends_its_own_jvm_alone_and_says_where_its_report_is(
    connector: Wild, topics: Topics, tmp_path: Path, bootstrap_servers: str
):
    topic = topics.create()
    trace = connector.fail(topic, "crash", "FAILED", marker=str(tmp_path / "one"))
    assert f"by signal {signal.SIGABRT.value}" in trace or f"by signal {signal.SIGSEGV.value}" in trace
    assert "SIGSEGV" in trace
    assert remove_crash_reports(trace) == 1
    # The task was asked for the third number while the worker wrote the second one, maybe before its commit.
    assert numbers(bootstrap_servers, topic) in (NUMBERS[:1], NUMBERS[:2])


def test_a_task_goes_on_after_a_native_crash_with_nothing_lost_or_doubled(
    connector: Wild, topics: Topics, tmp_path: Path, bootstrap_servers: str
):
    topic = topics.create()
    connector.wild(topic, "crash", marker=str(tmp_path / "one"), **{"task.restart.backoff.ms": "10"})
    wait_for(lambda: len(numbers(bootstrap_servers, topic)) >= 5, what="all numbers")
    assert numbers(bootstrap_servers, topic) == NUMBERS
    remove_crash_reports(connector.worker.process.output)


def test_threads_that_a_task_leaves_end_with_its_connector(connector: Wild, topics: Topics, bootstrap_servers: str):
    before = {one.pid for one in psutil.Process(connector.worker.process.pid).children(recursive=True)}
    topic = topics.create()
    name = connector.wild(topic, "threads")
    wait_for(lambda: numbers(bootstrap_servers, topic) == NUMBERS)

    def left() -> set[int]:
        return {one.pid for one in psutil.Process(connector.worker.process.pid).children(recursive=True)} - before

    assert left()
    assert connector.worker.request("DELETE", f"/connectors/{name}").status == 204
    wait_for(lambda: not left(), what="its JVM has gone")


def test_a_system_property_is_seen_by_no_other_connector(connector: Wild, topics: Topics, bootstrap_servers: str):
    first, second = topics.create(), topics.create()
    connector.wild(first, "property", **{"name.of.mine": "seen"})
    wait_for(lambda: numbers(bootstrap_servers, first) == NUMBERS)
    connector.wild(second, "read property")
    wait_for(lambda: numbers(bootstrap_servers, second) == [b"1", b"2", b"null", b"4", b"5"])


def test_an_offset_of_another_type_of_number_comes_back_as_kafka_connect_gives_it(
    connector: Wild, group: Group, topics: Topics, bootstrap_servers: str
):
    topic = topics.create()
    name = connector.wild(topic, "integers", limit="3")
    wait_for(lambda: numbers(bootstrap_servers, topic) == NUMBERS[:3])
    assert read_offsets(bootstrap_servers, f"{group.id}-offsets", name) == [({"counter": "c"}, {"number": 3})]
    config = connector.worker.get(f"/connectors/{name}/config")
    assert connector.worker.request("PUT", f"/connectors/{name}/config", {**config, "limit": "5"}).status == 200
    wait_for(lambda: len(numbers(bootstrap_servers, topic)) >= 5, what="all numbers")
    assert numbers(bootstrap_servers, topic) == NUMBERS


def test_nulls_in_a_list_of_records_are_left_out(connector: Wild, topics: Topics, bootstrap_servers: str):
    topic = topics.create()
    connector.wild(topic, "null")
    wait_for(lambda: len(numbers(bootstrap_servers, topic)) >= 5, what="all numbers")
    assert numbers(bootstrap_servers, topic) == NUMBERS


def test_a_record_for_a_partition_that_is_not_there_fails_the_task(
    connector: Wild, topics: Topics, bootstrap_servers: str
):
    topic = topics.create(partitions=2)
    trace = connector.fail(topic, "partition")
    assert f"A record is for partition 99 of topic {topic}, which has the partitions 0 to 1" in trace
    assert sorted(value or b"" for value in numbers(bootstrap_servers, topic)) == NUMBERS[:2]


@pytest.mark.parametrize(
    ("more", "message"),
    [({}, "max.request.size"), ({REQUEST_SIZE: "10000000"}, "max.message.bytes")],
    ids=["for the producer", "for the topic"],
)
def test_a_record_that_is_too_large_fails_the_task_and_says_which_limit(
    connector: Wild, topics: Topics, bootstrap_servers: str, more: dict[str, str], message: str
):
    topic = topics.create()
    trace = connector.fail(topic, "huge", size="2000000", **more)
    assert message in trace
    assert numbers(bootstrap_servers, topic) == NUMBERS[:2]


def test_a_large_record_that_the_topic_takes_arrives(connector: Wild, topics: Topics, bootstrap_servers: str):
    topic = topics.create(config={"max.message.bytes": "30000000"})
    connector.wild(topic, "huge", size="20000000", **{REQUEST_SIZE: "30000000"})
    wait_for(lambda: len(read_topic(bootstrap_servers, topic)) >= 5, what="all records")
    assert [len(value or b"") for value in numbers(bootstrap_servers, topic)] == [1, 1, 20_000_000, 1, 1]


@pytest.mark.parametrize("how", ["lines", "one line"])
def test_a_task_that_prints_without_end_keeps_nobody_from_working(
    connector: Wild, topics: Topics, bootstrap_servers: str, how: str
):
    topic = topics.create()
    connector.wild(topic, how)
    wait_for(lambda: len(numbers(bootstrap_servers, topic)) >= 5, what="all numbers")
    assert numbers(bootstrap_servers, topic) == NUMBERS


def test_an_error_of_megabytes_is_in_the_status_as_far_as_there_is_room(
    connector: Wild, topics: Topics, bootstrap_servers: str
):
    topic = topics.create()
    trace = connector.fail(topic, "long error")
    assert "java.lang.IllegalStateException: no no no" in trace
    assert "more characters)" in trace
    assert numbers(bootstrap_servers, topic) == NUMBERS[:2]


def test_an_error_that_cannot_say_what_it_is_fails_its_own_task_alone(
    connector: Wild, topics: Topics, bootstrap_servers: str
):
    topic = topics.create()
    trace = connector.fail(topic, "mute error")
    assert "hostile.WildTask$MuteException" in trace
    assert numbers(bootstrap_servers, topic) == NUMBERS[:2]


def test_a_connector_that_leaves_its_thread_interrupted_works(connector: Wild, topics: Topics, bootstrap_servers: str):
    topic = topics.create()
    connector.wild(topic, "interrupted", **{"task.restart.policy": "never"})
    wait_for(lambda: len(numbers(bootstrap_servers, topic)) >= 5, what="all numbers")
    assert numbers(bootstrap_servers, topic) == NUMBERS


@pytest.mark.parametrize("support", ["required", "disabled"])
def test_only_a_task_that_delivers_exactly_once_has_a_transaction_context(
    connector: Wild, topics: Topics, bootstrap_servers: str, support: str
):
    topic = topics.create()
    connector.wild(topic, "context", **{"transaction.boundary": "connector", "exactly.once.support": support})
    has = b"true" if support == "required" else b"false"

    def found() -> list[bytes | None]:
        # The task never requests a commit.
        return values(read_topic(bootstrap_servers, topic, isolation="read_uncommitted"))

    wait_for(lambda: len(found()) >= 5, what="all numbers")
    assert found() == [b"1", b"2", has, b"4", b"5"]


def test_a_plugin_has_the_jackson_of_its_own_folder(connector: Wild, topics: Topics, bootstrap_servers: str):
    topic = topics.create()
    # The converter is Kafka Connect's own, which needs the newer jackson.
    converter = {
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter.schemas.enable": "false",
    }
    connector.wild(topic, "jackson", **converter)
    wait_for(lambda: numbers(bootstrap_servers, topic) == [b'"1"', b'"2"', b'"2.13.3"', b'"4"', b'"5"'])


def test_a_plugin_with_an_slf4j_of_its_own_logs_into_the_workers_log(worker: Worker, topics: Topics):
    with contextlib.closing(Wild(worker)) as connectors:
        name = connectors.wild(topics.create(), "", limit="1")
        worker.process.wait_for_output(f"INFO    [{name}|task-0] begins after 0 (java.hostile.HostileTask)")


def test_a_plugin_finds_the_service_files_of_its_own_folder_first(
    connector: Wild, topics: Topics, bootstrap_servers: str
):
    topic = topics.create()
    connector.wild(topic, "resources")
    wait_for(lambda: len(numbers(bootstrap_servers, topic)) >= 5, what="all numbers")
    assert numbers(bootstrap_servers, topic)[2] == b"jackson-databind-2.13.3.jar"


@pytest.mark.parametrize(
    ("where", "states"),
    [
        ("task.start", ["FAILED", "FAILED"]),
        ("connector.start", ["FAILED"]),
        ("connector.taskConfigs", ["FAILED"]),
        ("connector.taskClass", ["FAILED"]),
    ],
)
def test_a_jvm_that_exits_at_a_start_fails_its_connector_with_its_status(
    connector: Wild, topics: Topics, where: str, states: list[str]
):
    name = connector.hostile(topics.create(), f"exit in {where}", **{"task.restart.policy": "never"})
    connector.worker.wait_for_states(name, *states)
    assert "exited with status 3" in connector.trace(name)


def test_an_error_that_a_connector_raises_itself_fails_it(connector: Wild, topics: Topics):
    name = connector.wild(topics.create(), "raise")
    wait_for(lambda: connector.worker.states(name)[:1] == ["FAILED"], what="the connector has failed")
    assert "java.lang.IllegalStateException: the database is gone" in connector.trace(name)


def test_records_of_a_dead_jvm_in_an_open_transaction_are_never_committed(
    connector: Wild, topics: Topics, bootstrap_servers: str
):
    """The connector's transaction would have ended after the number 4."""
    topic = topics.create()
    name = connector.hostile(
        topic,
        "exit in task.poll",
        boundaries="4",
        **{"task.restart.policy": "never", "transaction.boundary": "connector"},
    )
    connector.worker.wait_for_states(name, "FAILED", "FAILED")
    assert numbers(bootstrap_servers, topic) == []
    assert len(read_topic(bootstrap_servers, topic, isolation="read_uncommitted")) == 3
