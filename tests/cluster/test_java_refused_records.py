"""Records that a Java connector's pipeline refuses: failures, dead letters, and retries."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterator

import pytest

from fencepost.embedded.broker import EmbeddedBroker
from fencepost.embedded.jars import class_path
from fencepost.embedded.java import find_java
from fencepost.java.host_jar import CONNECT
from tests.support.checker import read_topic, values
from tests.support.java_connectors import Connectors, java_group_worker
from tests.support.java_pipeline import LONGS, metrics, numbers, odd, transforms
from tests.support.java_plugins import ODD, WILD, plugin_path
from tests.support.processes import wait_for
from tests.support.topics import Topics
from tests.support.workers import Group, Worker

DEAD = "errors.deadletterqueue.topic.name"


@pytest.fixture(scope="module")
def worker(tmp_path_factory: pytest.TempPathFactory, broker: EmbeddedBroker) -> Iterator[Worker]:
    folder = tmp_path_factory.mktemp("java")
    group = Group(folder, broker.bootstrap_servers, plugin_path=str(plugin_path(folder)))
    with java_group_worker(group) as worker:
        yield worker


def test_an_exception_of_a_transform_fails_the_task_with_its_trace(
    connector: Connectors, topics: Topics, notes: dict[str, str]
):
    name = connector.hostile(topics.create(), "", **odd("throw", 3), **notes)
    connector.worker.wait_for_states(name, "RUNNING", "FAILED")
    trace = connector.trace(name)
    assert "failed in the stage TRANSFORMATION (transforms.Odd): " in trace
    assert "DataException: number 3 is refused" in trace
    assert "at transforms.Odd.apply" in trace


def test_a_negative_partition_fails_the_task_as_in_kafka_connect(
    connector: Connectors, topics: Topics, bootstrap_servers: str
):
    topic = topics.create()
    name = connector.hostile(topic, "", **odd("partition", 3))
    connector.worker.wait_for_states(name, "RUNNING", "FAILED")
    assert f"A record for topic {topic} has the partition -1" in connector.trace(name)
    assert numbers(bootstrap_servers, topic) == [1, 2]


def test_a_refused_record_is_skipped_counted_and_written_as_a_dead_letter(
    connector: Connectors, topics: Topics, bootstrap_servers: str, notes: dict[str, str]
):
    topic, dead = topics.create(), topics.create()
    more = {"errors.tolerance": "all", DEAD: dead, "errors.log.enable": "true"}
    name = connector.hostile(topic, "", limit="5", **odd("throw"), **more, **notes)
    wait_for(lambda: numbers(bootstrap_servers, topic) == [1, 3, 5], what="the others")
    first, second = read_topic(bootstrap_servers, dead)
    assert (first.key, first.value, second.value) == (b"k2", b"2", b"4")
    headers = {key.removeprefix("__connect.errors."): (value or b"").decode() for key, value in first.headers}
    assert "at transforms.Odd.apply" in headers.pop("exception.stacktrace")
    assert headers == {
        "connector.name": name,
        "task.id": "0",
        "topic": topic,
        "stage": "TRANSFORMATION",
        "class.name": "transforms.Odd",
        "exception.class.name": "org.apache.kafka.connect.errors.DataException",
        "exception.message": "number 2 is refused",
        "source.partition": '{"counter":"c"}',
        "source.offset": '{"number":2}',
    }
    connector.worker.process.wait_for_output("failed in the stage TRANSFORMATION (transforms.Odd)")
    assert metrics(connector.worker, name)["task_error_total_records_skipped"] == 2
    assert metrics(connector.worker, name)["source_task_source_record_poll_total"] == 5


def connects_class(name: str) -> bytes:
    """A class of Kafka Connect's, which handles errors. A text in it has its length before it."""
    (jar,) = [path for path in class_path(find_java(), CONNECT) if path.name.startswith("connect-runtime-")]
    with zipfile.ZipFile(jar) as classes:
        return classes.read(f"org/apache/kafka/connect/runtime/errors/{name}.class")


def test_the_headers_of_a_dead_letter_have_the_names_of_kafka_connect(
    connector: Connectors, topics: Topics, bootstrap_servers: str
):
    topic, dead = topics.create(), topics.create()
    connector.hostile(topic, "", limit="3", **odd("throw"), **{"errors.tolerance": "all", DEAD: dead})
    wait_for(lambda: read_topic(bootstrap_servers, dead), what="the dead letter")
    (letter,) = read_topic(bootstrap_servers, dead)
    ours = {name.removeprefix("__connect.errors.") for name, _ in letter.headers}
    names = re.findall(rb"__connect\.errors\.([a-z.]+)", connects_class("DeadLetterQueueReporter"))
    # Connect's records come from a topic, and a source connector's from a source.
    assert ours == {name.decode() for name in names} - {"partition", "offset"} | {"source.partition", "source.offset"}
    stage = dict(letter.headers)["__connect.errors.stage"] or b""
    assert len(stage).to_bytes(2) + stage in connects_class("Stage")


def test_a_dead_letter_has_values_of_each_kind_without_their_converter(
    connector: Connectors, topics: Topics, bootstrap_servers: str
):
    topic, dead = topics.create(), topics.create()
    more = {"errors.tolerance": "all", DEAD: dead, "value.converter": LONGS}
    connector.start({"connector.class": WILD, "topic": topic, "wild": "values", "limit": "3", **more})
    wait_for(lambda: len(read_topic(bootstrap_servers, dead)) >= 6, what="the dead letters")
    assert values(read_topic(bootstrap_servers, dead)) == [b"1", b"2", b"\x00\xff", b"\x01\xfe", b'{"a":1}', b"strange"]
    assert read_topic(bootstrap_servers, topic) == []


@pytest.mark.parametrize("shown", ["true", "false"])
def test_a_refused_record_is_in_the_log_if_that_is_configured(connector: Connectors, topics: Topics, shown: str):
    """The words of SourceRecord are Kafka's."""
    topic = topics.create()
    more = {"errors.tolerance": "all", "errors.log.enable": "true", "errors.log.include.messages": shown}
    name = connector.hostile(topic, "", limit="4", **odd("throw"), **more)
    wait_for(lambda: metrics(connector.worker, name).get("task_error_total_errors_logged") == 2, what="both log lines")
    records = re.findall(rf"The record: SourceRecord.*topic='{topic}'.*value=(\d)", connector.worker.process.output)
    assert records == (["2", "4"] if shown == "true" else [])


@pytest.mark.parametrize("role", ["key", "value", "header"])
def test_the_stage_of_a_dead_letter_is_the_converter_that_refused(
    connector: Connectors, topics: Topics, bootstrap_servers: str, role: str
):
    topic, dead = topics.create(), topics.create()
    longs = {f"{one}.converter": LONGS for one in ("value", role)}
    text = {"key": {}, "value": transforms(ODD, a_how="text", a_every="1"), "header": {}}[role]
    if role == "header":
        # ByteArrayConverter refuses the headers, which are longs.
        longs["header.converter"] = "org.apache.kafka.connect.converters.ByteArrayConverter"
    connector.hostile(topic, "", limit="2", **longs, **text, **{"errors.tolerance": "all", DEAD: dead})
    wait_for(lambda: len(read_topic(bootstrap_servers, dead)) == 2, what="the dead letters")
    stages = {dict(letter.headers)["__connect.errors.stage"] for letter in read_topic(bootstrap_servers, dead)}
    assert stages == {f"{role.upper()}_CONVERTER".encode()}
    assert read_topic(bootstrap_servers, topic) == []


def test_a_retriable_exception_of_a_transform_is_tried_again(
    connector: Connectors, topics: Topics, bootstrap_servers: str
):
    topic = topics.create()
    more = {"errors.retry.timeout": "60000", "errors.retry.delay.max.ms": "10"}
    name = connector.hostile(topic, "", limit="2", **odd("retry"), **more)
    wait_for(lambda: numbers(bootstrap_servers, topic) == [1, 2], what="both numbers")
    assert metrics(connector.worker, name)["task_error_total_retries"] == 2


def test_a_thread_that_is_interrupted_during_a_retry_goes_on(
    connector: Connectors, topics: Topics, bootstrap_servers: str
):
    topic = topics.create()
    more = {"errors.retry.timeout": "60000", "errors.retry.delay.max.ms": "10"}
    connector.hostile(topic, "", limit="3", **odd("interrupted"), **more)
    wait_for(lambda: numbers(bootstrap_servers, topic) == [1, 2, 3], what="all numbers")


def test_an_exception_that_cannot_say_what_it_is_refuses_its_record_alone(
    connector: Connectors, topics: Topics, bootstrap_servers: str
):
    topic, dead = topics.create(), topics.create()
    more = {"errors.tolerance": "all", DEAD: dead, "errors.deadletterqueue.context.headers.enable": "true"}
    connector.hostile(topic, "", limit="3", **odd("mute"), **more)
    wait_for(lambda: numbers(bootstrap_servers, topic) == [1, 3], what="the others")
    (letter,) = read_topic(bootstrap_servers, dead)
    assert dict(letter.headers)["__connect.errors.exception.class.name"] == b"transforms.Odd$Mute"


@pytest.mark.parametrize(("timeout", "retries"), [("300", True), ("0", False)])
def test_a_record_is_refused_once_its_retries_have_ended(
    connector: Connectors, topics: Topics, bootstrap_servers: str, timeout: str, retries: bool
):
    topic = topics.create()
    more = {"errors.tolerance": "all", "errors.retry.timeout": timeout, "errors.retry.delay.max.ms": "10"}
    name = connector.hostile(topic, "", limit="3", **odd("wait"), **more)
    wait_for(lambda: numbers(bootstrap_servers, topic) == [1, 3], what="the numbers that are not refused")
    wait_for(lambda: metrics(connector.worker, name)["task_error_total_records_skipped"] == 1, what="the refused one")
    assert (metrics(connector.worker, name)["task_error_total_retries"] > 0) == retries


def test_a_task_stops_while_a_transform_is_tried_again_for_ever(
    connector: Connectors, topics: Topics, bootstrap_servers: str
):
    topic, dead = topics.create(), topics.create()
    more = {"errors.retry.timeout": "-1", "errors.tolerance": "all", DEAD: dead}
    name = connector.hostile(topic, "", limit="2", **odd("wait"), **more)
    wait_for(lambda: numbers(bootstrap_servers, topic) == [1], what="the first number")
    stopped = connector.worker.request("PUT", f"/connectors/{name}/stop")
    assert stopped.status == 204, stopped
    connector.worker.wait_for_states(name, "STOPPED")
    # The record that was being retried was neither skipped nor written.
    offsets = connector.worker.request("GET", f"/connectors/{name}/offsets")
    assert offsets.body == {"offsets": [{"partition": {"counter": "c"}, "offset": {"number": 1}}]}, offsets
    assert read_topic(bootstrap_servers, dead) == []


def test_an_error_is_never_tolerated(connector: Connectors, topics: Topics, bootstrap_servers: str):
    topic = topics.create()
    more = {"errors.tolerance": "all", "task.restart.policy": "never"}
    name = connector.hostile(topic, "", limit="2", **odd("error"), **more)
    connector.worker.wait_for_states(name, "RUNNING", "FAILED")
    assert "java.lang.StackOverflowError: too deep" in connector.trace(name)
    assert numbers(bootstrap_servers, topic) == [1]
