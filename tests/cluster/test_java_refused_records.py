"""Records that the pipeline of a Java connector refuses: failures, dead letters, and what is tried again."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fencepost.embedded.broker import EmbeddedBroker
from tests.support.checker import read_topic
from tests.support.java_connectors import Connectors, java_group_worker
from tests.support.java_pipeline import LONGS, metrics, numbers, odd, transforms
from tests.support.java_plugins import ODD, plugin_path
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


@pytest.mark.parametrize("role", ["key", "value", "header"])
def test_the_stage_of_a_dead_letter_is_the_converter_that_refused(
    connector: Connectors, topics: Topics, bootstrap_servers: str, role: str
):
    topic, dead = topics.create(), topics.create()
    longs = {f"{one}.converter": LONGS for one in ("value", role)}
    text = {"key": {}, "value": transforms(ODD, a_how="text", a_every="1"), "header": {}}[role]
    if role == "header":
        # Headers are longs, which this takes for bytes.
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
    # What waited was neither skipped nor written.
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
