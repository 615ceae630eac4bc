"""Java code's return values, requests and output: null results, errors, new tasks, secrets, metrics."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from fencepost.embedded.broker import EmbeddedBroker
from tests.support.checker import read_offsets, read_topic, values
from tests.support.java_connectors import Connectors, java_group_worker
from tests.support.java_pipeline import odd
from tests.support.java_plugins import HOSTILE, STUCK, STUCK_HEADERS, STUCK_TEST, WILD, plugin_path
from tests.support.java_runs import assert_hidden_from_other_processes
from tests.support.processes import wait_for
from tests.support.topics import Topics
from tests.support.workers import Group, Worker

SECRET = "hunter-7-java-retnuh"
PASSWORD = "gatherer-8-java-rerehtag"
"""Another value than SECRET: the log shows a hidden value by the name under which the worker saw it first."""
COUNTING = {
    **odd("drop"),
    "transforms.a.predicate": "p",
    "transforms.a.negate": "true",
    "predicates": "p",
    "predicates.p.type": STUCK_TEST,
    "predicates.p.where": "nowhere",
    **{f"{role}.converter": STUCK for role in ("key", "value")},
    "header.converter": STUCK_HEADERS,
    **{f"{role}.converter.where": "nowhere" for role in ("key", "value", "header")},
}
"""Plugins in all places of a pipeline, which have metrics."""


@pytest.fixture(scope="module")
def group(tmp_path_factory: pytest.TempPathFactory, broker: EmbeddedBroker) -> Group:
    folder = tmp_path_factory.mktemp("java")
    group = Group(folder, broker.bootstrap_servers, plugin_path=str(plugin_path(folder, "hostile", "transforms")))
    group.settings |= {"config.providers": "file", "config.providers.file.class": "FileConfigProvider"}
    (folder / "secrets.properties").write_text(f"told={SECRET}\n")
    return group


@pytest.fixture(scope="module")
def worker(group: Group) -> Iterator[Worker]:
    with java_group_worker(group) as worker:
        yield worker


@pytest.mark.parametrize(
    ("answer", "question", "message"),
    [
        ("null", "exactlyOnceSupport", "does not say whether it can deliver exactly once"),
        ("no", "exactlyOnceSupport", "says that it cannot deliver exactly once"),
        ("null", "canDefineTransactionBoundaries", "cannot define transaction boundaries"),
        ("no", "canDefineTransactionBoundaries", "cannot define transaction boundaries"),
    ],
)
def test_a_connector_is_refused_what_it_does_not_promise(
    connector: Connectors, answer: str, question: str, message: str
):
    name, value = {
        "exactlyOnceSupport": ("exactly.once.support", "required"),
        "canDefineTransactionBoundaries": ("transaction.boundary", "connector"),
    }[question]
    config = {"connector.class": HOSTILE, "topic": "t", name: value}
    assert connector.refusals(config) == {}
    errors = connector.refusals({**config, "behaviour": f"{answer} in connector.{question}"})
    assert list(errors) == [name]
    assert message in errors[name][0]


def test_a_validation_that_ends_its_jvm_is_answered_with_the_reason(connector: Connectors):
    config = {"connector.class": HOSTILE, "topic": "t", "name": "ending"}
    ending = {**config, "behaviour": "exit in connector.validate"}
    validate = f"/connector-plugins/{HOSTILE}/config/validate"
    for path, given in ((validate, ending), ("/connectors/ending/config", ending)):
        answer = connector.worker.request("PUT", path, given)
        assert answer.status == 400, answer
        # Its last words may begin with lines of earlier questions.
        assert "exited with status 3. Its last words: " in answer.body["message"]
        assert "printed before the end" in answer.body["message"]
    assert connector.worker.request("GET", "/connectors/ending").status == 404
    # The next question gets another JVM.
    assert connector.refusals(config) == {}


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


def test_a_connector_may_want_fewer_tasks_than_tasks_max(connector: Connectors, topics: Topics, bootstrap_servers: str):
    topic = topics.create()
    name = connector.hostile(topic, "", counters="a,b", limit="2", **{"tasks.max": "5"})
    connector.worker.wait_for_states(name, "RUNNING", "RUNNING", "RUNNING")
    wait_for(lambda: len(read_topic(bootstrap_servers, topic)) == 4)
    assert {record.key for record in read_topic(bootstrap_servers, topic)} == {b"a1", b"a2", b"b1", b"b2"}


def test_more_tasks_than_tasks_max_run_only_where_that_is_allowed(connector: Connectors, topics: Topics):
    name = connector.hostile(topics.create(), "", counters="a,b", **{"tasks.max": "1"})
    too_many = f"The connector {name} has generated 2 tasks, which is greater than 1, its tasks.max"
    wait_for(lambda: too_many in connector.trace(name), what="the reason why it has no tasks")
    assert connector.worker.states(name)[1:] == []
    config = {**connector.worker.get(f"/connectors/{name}/config"), "tasks.max.enforce": "false"}
    assert connector.worker.request("PUT", f"/connectors/{name}/config", config).status == 200
    connector.worker.wait_for_states(name, "RUNNING", "RUNNING", "RUNNING")


@pytest.mark.parametrize(("more", "states"), [({}, ["RUNNING", "FAILED"]), ({"exits": "true"}, ["FAILED", "FAILED"])])
def test_a_secret_that_java_code_prints_logs_and_throws_is_hidden(
    connector: Connectors, group: Group, topics: Topics, more: dict[str, str], states: list[str]
):
    """If the JVM exits, its last output is in the status."""
    told = f"${{file:{group.folder / 'secrets.properties'}:told}}"
    given = {"connector.class": WILD, "topic": topics.create(), "wild": "tell", "told": told, **more}
    name = connector.start({**given, "task.restart.policy": "never"})
    process = connector.worker.process
    connector.worker.wait_for_states(name, *states)
    # Where the log would have the secret, it has the placeholder.
    process.wait_for_output(f"it was printed: {told}")
    process.wait_for_output(f"it was logged: {told}")
    process.wait_for_output(f"it has {len(SECRET)} characters")
    assert f"it was {'printed' if more else 'thrown'}: {told}" in connector.trace(name)
    assert SECRET not in process.output + connector.trace(name)


@pytest.mark.parametrize("provided", [True, False], ids=["of a config provider", "a PASSWORD"])
def test_a_secret_of_a_connector_is_on_no_command_line_and_in_no_environment(
    connector: Connectors, group: Group, topics: Topics, bootstrap_servers: str, *, provided: bool
):
    topic = topics.create()
    secret = SECRET if provided else PASSWORD
    given = f"${{file:{group.folder / 'secrets.properties'}:told}}" if provided else secret
    name = connector.hostile(topic, "", limit="1", **{"told" if provided else "password": given})
    wait_for(lambda: read_topic(bootstrap_servers, topic), what="the record")
    assert_hidden_from_other_processes(secret, connector.worker.process.pid)
    assert secret not in str(connector.worker.get(f"/connectors/{name}/config"))


def plugin_metrics(worker: Worker, name: str) -> dict[str, float]:
    """The metrics that a connector's plugins added, each with its labels."""
    lines = worker.text("/metrics").splitlines()
    found = [line for line in lines if line.startswith("kafka_connect_plugins_") and f'connector="{name}"' in line]
    own = [line.replace(f'connector="{name}"', "").partition("kafka_connect_plugins_")[2] for line in found]
    return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in own}


def test_metrics_of_java_plugins_are_shown_with_the_names_and_labels_of_connect(connector: Connectors, topics: Topics):
    name = connector.hostile(topics.create(), "", limit="4", **COUNTING)
    wait_for(lambda: plugin_metrics(connector.worker, name).get('last_number{,counter="c",task="0"}') == 4)
    found = plugin_metrics(connector.worker, name)
    assert found.pop('polls_total{,counter="c",task="0"}') >= 4
    assert found == {
        "limit{}": 4,
        'last_number{,counter="c",task="0"}': 4,
        'seen{,task="0",transformation="a"}': 4,
        'seen{,predicate="p",task="0"}': 4,
        # The transform drops every second record.
        **{f'seen{{,converter="{role}",task="0"}}': 2 for role in ("key", "value", "header")},
    }
    assert connector.worker.request("PUT", f"/connectors/{name}/stop").status == 204
    connector.worker.wait_for_states(name, "STOPPED")
    wait_for(lambda: plugin_metrics(connector.worker, name) == {}, what="the end of its metrics")


def test_metrics_of_java_plugins_are_mbeans_of_their_jvm(connector: Connectors, topics: Topics, bootstrap_servers: str):
    topic, text = topics.create(), "org.apache.kafka.connect.storage.StringConverter"
    name = connector.start(
        {
            "connector.class": WILD,
            "topic": topic,
            "limit": "3",
            "wild": "beans",
            **COUNTING,
            "transforms.a.negate": "false",
            "value.converter": text,
        }
    )
    wait_for(lambda: len(read_topic(bootstrap_servers, topic)) == 3, what="the names of the beans")
    common = f"kafka.connect:type=plugins,connector={name}"
    assert (values(read_topic(bootstrap_servers, topic))[2] or b"").decode().splitlines() == sorted(
        [
            f"{common} limit",
            f"{common},task=0,counter=c last-number mood polls-total",
            f"{common},task=0,transformation=a seen",
            f"{common},task=0,predicate=p seen",
            *(f"{common},task=0,converter={role} seen" for role in ("key", "header")),
        ]
    )


def test_a_metric_in_java_that_hangs_keeps_no_other_from_being_shown(connector: Connectors, topics: Topics):
    name = connector.hostile(topics.create(), "mute", limit="2", **odd("drop"))
    connector.worker.wait_for_states(name, "RUNNING", "RUNNING")
    wait_for(lambda: "limit{}" in plugin_metrics(connector.worker, name))
    connector.worker.process.wait_for_output(f"The metrics of task {name}-0 did not come within")
    assert plugin_metrics(connector.worker, name) == {"limit{}": 2}
