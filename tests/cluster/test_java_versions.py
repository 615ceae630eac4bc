"""Several versions of one plugin in folders of plugin.path, and the choice of one by configuration (KIP-891)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fencepost.config.java_plugins import CONNECT
from fencepost.embedded.broker import EmbeddedBroker
from tests.support.checker import read_topic, values
from tests.support.java_connectors import Connectors, java_group_worker
from tests.support.java_plugins import VERSIONED, install_versions, plugin_path
from tests.support.processes import wait_for
from tests.support.topics import Topics
from tests.support.workers import Group, Worker

OLD, NEW = "1.9.0.Final", "1.10.0.Final"
SMT, IS_NEW, CONVERTER = "versioned.Stamp", "versioned.Last", "versioned.StampConverter"
VERSION = "connector.plugin.version"


@pytest.fixture(scope="module")
def group(tmp_path_factory: pytest.TempPathFactory, broker: EmbeddedBroker) -> Group:
    folder = tmp_path_factory.mktemp("java")
    plugins = plugin_path(folder, "hostile")
    install_versions(plugins, NEW, OLD)
    return Group(folder, broker.bootstrap_servers, plugin_path=str(plugins))


@pytest.fixture(scope="module")
def worker(group: Group) -> Iterator[Worker]:
    with java_group_worker(group) as worker:
        yield worker


def stamps(old: bool) -> dict[str, str]:
    """A pipeline of plugins with versions: transforms are all old or all new, and the converter is the reverse."""
    asked = "[1.0,1.10)" if old else "[1.10,)"
    return {
        "transforms": "a,b",
        "transforms.a.type": SMT,
        "transforms.a.plugin.version": asked,
        "transforms.b.type": SMT,
        "transforms.b.predicate": "p",
        "transforms.b.negate": str(old).lower(),
        "predicates": "p",
        "predicates.p.type": IS_NEW,
        "predicates.p.plugin.version": asked,
        "value.converter": CONVERTER,
        "value.converter.plugin.version": NEW if old else OLD,
    }


@pytest.mark.parametrize(
    ("asked", "version"),
    [
        ({}, NEW),
        ({VERSION: "latest"}, NEW),
        ({VERSION: "[1.9,1.10)"}, OLD),
        ({VERSION: OLD}, OLD),
        ({VERSION: "1.9"}, OLD),
        ({VERSION: "(,1.0),(1.9,)"}, NEW),
    ],
    ids=["none", "latest", "a range", "a version", "the same version, shorter", "ranges"],
)
def test_the_newest_version_that_is_asked_for_runs(
    connector: Connectors, topics: Topics, bootstrap_servers: str, asked: dict[str, str], version: str
):
    topic = topics.create()
    name = connector.start({"connector.class": VERSIONED, "topic": topic, **asked})
    wait_for(lambda: values(read_topic(bootstrap_servers, topic)) == [f"connector {version}".encode()])
    connector.worker.wait_for_states(name, "RUNNING", "RUNNING")
    status = connector.worker.get(f"/connectors/{name}/status")
    assert {status["connector"]["version"], status["tasks"][0]["version"]} == {version}


@pytest.mark.parametrize("old", [True, False], ids=["old", "new"])
def test_each_part_of_a_pipeline_has_the_version_that_is_asked_for(
    connector: Connectors, topics: Topics, bootstrap_servers: str, old: bool
):
    topic, of_parts, others = topics.create(), *((OLD, NEW) if old else (NEW, OLD))
    connector.start({"connector.class": VERSIONED, "topic": topic, VERSION: others, **stamps(old)})
    wait_for(lambda: read_topic(bootstrap_servers, topic), what="the record")
    # Without a version in the configuration, the plugin in the connector's own folder is used.
    expected = f"connector {others}, transform {of_parts}, transform {others}, converter {others}"
    assert values(read_topic(bootstrap_servers, topic)) == [expected.encode()]


def test_a_part_without_a_version_is_the_connectors_own_or_the_newest(
    connector: Connectors, topics: Topics, bootstrap_servers: str
):
    own, elsewhere = topics.create(), topics.create()
    parts = {"transforms": "a", "transforms.a.type": SMT, "value.converter": CONVERTER}
    connector.start({"connector.class": VERSIONED, "topic": own, VERSION: OLD, **parts})
    connector.hostile(elsewhere, "", limit="1", **parts)
    wait_for(lambda: read_topic(bootstrap_servers, own) and read_topic(bootstrap_servers, elsewhere))
    assert values(read_topic(bootstrap_servers, own)) == [f"connector {OLD}, transform {OLD}, converter {OLD}".encode()]
    assert values(read_topic(bootstrap_servers, elsewhere)) == [f"1, transform {NEW}, converter {NEW}".encode()]


@pytest.mark.parametrize(
    "name", [VERSION, "transforms.a.plugin.version", "predicates.p.plugin.version", "value.converter.plugin.version"]
)
def test_a_version_that_is_not_there_is_refused_with_those_that_are(connector: Connectors, name: str):
    config = {"connector.class": VERSIONED, "topic": "t", **stamps(old=False), name: "[2,)"}
    errors = connector.refusals(config)
    assert list(errors) == [name]
    assert f"The property {name} asks for version [2,), but {NEW} and {OLD} are installed" in errors[name][0]


def test_each_version_is_listed_and_has_its_own_definitions(worker: Worker):
    listed = worker.get("/connector-plugins?connectorsOnly=false")
    for name in (VERSIONED, SMT, IS_NEW, CONVERTER):
        assert {one["version"] for one in listed if one["class"] == name} == {OLD, NEW}

    def of(query: str) -> str | None:
        keys = worker.get(f"/connector-plugins/{VERSIONED}/config{query}") or ()
        return next((key["default_value"] for key in keys if key["name"] == "of"), None)

    assert (of(""), of(f"?version={OLD}"), of("?version=%5B1.9,1.10)"), of("?version=latest")) == (NEW, OLD, OLD, NEW)
    refused = worker.request("GET", f"/connector-plugins/{VERSIONED}/config?version=7")
    assert refused.status == 400
    assert f"{NEW}, {OLD}" in refused.body["message"]


def test_validation_recommends_the_classes_and_versions_that_kafka_connect_does(worker: Worker):
    config = {"name": "c", "connector.class": VERSIONED, "topic": "t", VERSION: OLD, **stamps(old=True)}
    answer = worker.request("PUT", f"/connector-plugins/{VERSIONED}/config/validate", config)
    found = {one["value"]["name"]: one["value"] for one in answer.body["configs"]}
    assert found["of"]["value"] == OLD
    parts = ("transforms.a", "predicates.p", "value.converter")
    for name in (VERSION, *(f"{part}.plugin.version" for part in parts)):
        assert found[name]["recommended_values"] == [OLD, NEW]
    numbers = [f"{CONNECT}converters.{kind}Converter" for kind in ("Boolean", "ByteArray", "Double", "Float")]
    numbers += [f"{CONNECT}converters.{kind}Converter" for kind in ("Integer", "Long", "Short")]
    text, json = f"{CONNECT}storage.StringConverter", f"{CONNECT}json.JsonConverter"
    for name in ("key.converter", "value.converter"):
        assert found[name]["recommended_values"] == [*numbers, json, text, CONVERTER]
    header = [*numbers, json, f"{CONNECT}storage.SimpleHeaderConverter", text]
    assert found["header.converter"]["recommended_values"] == header
    own = [
        f"{CONNECT}transforms.predicates.{name}" for name in ("HasHeaderKey", "RecordIsTombstone", "TopicNameMatches")
    ]
    assert found["predicates.p.type"]["recommended_values"] == [*own, IS_NEW]
    transforms = found["transforms.a.type"]["recommended_values"]
    assert transforms[:2] == [f"{CONNECT}transforms.Cast$Key", f"{CONNECT}transforms.Cast$Value"]
    assert transforms[-2:] == [f"{CONNECT}transforms.ValueToKey", SMT]


def test_a_connector_changes_its_version(connector: Connectors, topics: Topics, bootstrap_servers: str):
    first, second = topics.create(), topics.create()
    config = {"connector.class": VERSIONED, "topic": first, VERSION: OLD}
    name = connector.start(config)
    wait_for(lambda: values(read_topic(bootstrap_servers, first)) == [f"connector {OLD}".encode()])
    worker = connector.worker
    assert worker.request("PUT", f"/connectors/{name}/stop").status == 204
    worker.wait_for_states(name, "STOPPED")
    assert worker.request("DELETE", f"/connectors/{name}/offsets").status == 200
    changed = worker.request("PUT", f"/connectors/{name}/config", {**config, "topic": second, VERSION: NEW})
    assert changed.status == 200, changed
    assert worker.request("PUT", f"/connectors/{name}/resume").status == 202
    wait_for(lambda: values(read_topic(bootstrap_servers, second)) == [f"connector {NEW}".encode()])
