"""What Java code answers, asks and prints: null where it has no answer, errors, new tasks, secrets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from fencepost.embedded.broker import EmbeddedBroker
from tests.support.checker import read_offsets, read_topic
from tests.support.java_connectors import Connectors, java_group_worker
from tests.support.java_plugins import HOSTILE, WILD, plugin_path
from tests.support.processes import wait_for
from tests.support.topics import Topics
from tests.support.workers import Group, Worker

SECRET = "hunter-7-java-retnuh"


@pytest.fixture(scope="module")
def group(tmp_path_factory: pytest.TempPathFactory, broker: EmbeddedBroker) -> Group:
    folder = tmp_path_factory.mktemp("java")
    group = Group(folder, broker.bootstrap_servers, plugin_path=str(plugin_path(folder, "hostile")))
    group.settings |= {"config.providers": "file", "config.providers.file.class": "FileConfigProvider"}
    (folder / "secrets.properties").write_text(f"told={SECRET}\n")
    return group


@pytest.fixture(scope="module")
def worker(group: Group) -> Iterator[Worker]:
    with java_group_worker(group) as worker:
        yield worker


@pytest.mark.parametrize(
    ("question", "name", "value", "message"),
    [
        ("exactlyOnceSupport", "exactly.once.support", "required", "does not say whether it can deliver exactly once"),
        ("canDefineTransactionBoundaries", "transaction.boundary", "connector", "cannot define transaction boundaries"),
    ],
)
def test_a_connector_that_answers_null_is_refused_what_it_does_not_promise(
    connector: Connectors, question: str, name: str, value: str, message: str
):
    config = {"connector.class": HOSTILE, "topic": "t", name: value}
    assert connector.refusals(config) == {}
    errors = connector.refusals({**config, "behaviour": f"null in connector.{question}"})
    assert list(errors) == [name]
    assert message in errors[name][0]


def test_offsets_that_a_connector_refuses_are_not_altered(
    connector: Connectors, group: Group, topics: Topics, bootstrap_servers: str
):
    worker, topic = connector.worker, topics.create()
    name = connector.hostile(topic, "throw in connector.alterOffsets", limit="4")
    wait_for(lambda: len(read_topic(bootstrap_servers, topic)) == 4)
    assert worker.request("PUT", f"/connectors/{name}/stop").status == 204
    worker.wait_for_states(name, "STOPPED")
    offsets: Any = {"offsets": [{"partition": {"counter": "c"}, "offset": {"number": 2}}]}
    for answer in (
        worker.request("PATCH", f"/connectors/{name}/offsets", offsets),
        worker.request("DELETE", f"/connectors/{name}/offsets"),
    ):
        assert answer.status == 500
        assert "java.lang.IllegalStateException: the source is gone" in answer.body["message"]
    assert read_offsets(bootstrap_servers, f"{group.id}-offsets", name) == [({"counter": "c"}, {"number": 4})]


def test_a_connector_that_asks_for_it_gets_more_tasks(connector: Connectors, topics: Topics):
    name = connector.start({"connector.class": WILD, "topic": topics.create(), "wild": "grow", "tasks.max": "3"})
    connector.worker.wait_for_states(name, "RUNNING", "RUNNING", "RUNNING", "RUNNING")


@pytest.mark.parametrize(("more", "states"), [({}, ["RUNNING", "FAILED"]), ({"exits": "true"}, ["FAILED", "FAILED"])])
def test_a_secret_that_java_code_prints_logs_and_throws_is_hidden(
    connector: Connectors, group: Group, topics: Topics, more: dict[str, str], states: list[str]
):
    """Where the JVM exits, its last words are in the status."""
    told = f"${{file:{group.folder / 'secrets.properties'}:told}}"
    given = {"connector.class": WILD, "topic": topics.create(), "wild": "tell", "told": told, **more}
    name = connector.start({**given, "task.restart.policy": "never"})
    process = connector.worker.process
    connector.worker.wait_for_states(name, *states)
    # Where the configuration has it, its text shows.
    process.wait_for_output(f"it was printed: {told}")
    process.wait_for_output(f"it was logged: {told}")
    process.wait_for_output(f"it has {len(SECRET)} characters")
    assert f"it was {'printed' if more else 'thrown'}: {told}" in connector.trace(name)
    assert SECRET not in process.output + connector.trace(name)
