"""Jars of other vendors: Debezium's transforms with another vendor's connector; its MongoDB connector, no server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from fencepost.embedded.broker import EmbeddedBroker
from tests.support.checker import read_topic, values
from tests.support.java_connectors import Connectors, java_group_worker
from tests.support.java_pipeline import TRANSFORMS, transforms
from tests.support.java_plugins import DEBEZIUM_MONGODB, FILE_STREAM, plugin_path
from tests.support.processes import wait_for
from tests.support.topics import Topics
from tests.support.workers import Group, Worker

JSON = {"value.converter": "org.apache.kafka.connect.json.JsonConverter", "value.converter.schemas.enable": "false"}
HEADER_TO_VALUE = "io.debezium.transforms.HeaderToValue"


@pytest.fixture(scope="module")
def group(tmp_path_factory: pytest.TempPathFactory, broker: EmbeddedBroker) -> Group:
    folder = tmp_path_factory.mktemp("java")
    plugins = plugin_path(folder, "file", "debezium-postgres", "debezium-mongodb")
    return Group(folder, broker.bootstrap_servers, plugin_path=str(plugins))


@pytest.fixture(scope="module")
def worker(group: Group) -> Iterator[Worker]:
    with java_group_worker(group) as worker:
        yield worker


def test_a_transform_of_debezium_runs_with_a_connector_of_apache(
    connector: Connectors, topics: Topics, tmp_path: Path, bootstrap_servers: str
):
    """Two folders of plugin.path have the transform, in different versions."""
    topic, file = topics.create(), tmp_path / "in.txt"
    file.write_text("one\ntwo\n")
    chain = transforms(
        f"{TRANSFORMS}HoistField$Value", f"{TRANSFORMS}InsertHeader", HEADER_TO_VALUE,
        a_field="line", b_header="number", b_value_literal="7",
        c_plugin_version="[3.7,3.8)", c_headers="number", c_fields="from_header", c_operation="move",
    )  # fmt: skip
    connector.start({"connector.class": FILE_STREAM, "file": str(file), "topic": topic, **JSON, **chain})
    wait_for(lambda: len(read_topic(bootstrap_servers, topic)) == 2, what="both lines")
    found = [json.loads(value or b"{}") for value in values(read_topic(bootstrap_servers, topic))]
    assert found == [{"line": line, "from_header": 7} for line in ("one", "two")]
    assert [record.headers for record in read_topic(bootstrap_servers, topic)] == [()] * 2


def test_a_transform_of_debezium_is_listed_with_both_versions_and_its_properties(worker: Worker):
    listed = worker.get("/connector-plugins?connectorsOnly=false")
    assert {one["version"] for one in listed if one["class"] == HEADER_TO_VALUE} == {"3.6.1.Final", "3.7.0.Final"}
    keys = {key["name"] for key in worker.get(f"/connector-plugins/{HEADER_TO_VALUE}/config?version=3.7.0.Final")}
    assert {"headers", "fields", "operation"} <= keys


def test_debeziums_connector_for_mongodb_is_listed_with_its_definitions_and_checks(
    connector: Connectors, worker: Worker
):
    listed = {one["class"]: one for one in worker.get("/connector-plugins")}
    assert listed[DEBEZIUM_MONGODB]["version"] == "3.6.1.Final"
    keys = {key["name"]: key for key in worker.get(f"/connector-plugins/{DEBEZIUM_MONGODB}/config")}
    assert keys["mongodb.connection.string"]["type"] == "STRING"
    assert keys["mongodb.password"]["type"] == "PASSWORD"
    config = {"connector.class": DEBEZIUM_MONGODB, "snapshot.mode": "sometimes", **JSON}
    found = connector.refusals(config)
    assert {"mongodb.connection.string", "topic.prefix", "snapshot.mode"} <= set(found)


def test_debeziums_own_recommendations_are_in_a_validation(worker: Worker):
    config = {"name": "c", "connector.class": DEBEZIUM_MONGODB, "topic.prefix": "p", **JSON}
    answer = worker.request("PUT", f"/connector-plugins/{DEBEZIUM_MONGODB}/config/validate", config)
    found = {one["value"]["name"]: one["value"]["recommended_values"] for one in answer.body["configs"]}
    assert {"always", "initial", "no_data"} <= set(found["snapshot.mode"])
    assert found["topic.prefix"] == []
