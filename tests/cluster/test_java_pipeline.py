"""The pipeline of a Java connector: transforms, predicates and converters in its JVM, and what they refuse."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer

from fencepost.embedded.broker import EmbeddedBroker
from fencepost.embedded.registry import EmbeddedRegistry
from tests.support.checker import read_topic, values
from tests.support.java_connectors import Connectors, java_group_worker
from tests.support.java_pipeline import LONGS, TRANSFORMS, numbers, odd, transforms
from tests.support.java_plugins import APICURIO_AVRO, FILE_STREAM, HOSTILE, NOTED, ODD, install_avro, plugin_path
from tests.support.processes import wait_for
from tests.support.topics import Topics
from tests.support.workers import Group, Worker

JSON = "org.apache.kafka.connect.json.JsonConverter"


@pytest.fixture(scope="module")
def group(tmp_path_factory: pytest.TempPathFactory, broker: EmbeddedBroker) -> Group:
    folder = tmp_path_factory.mktemp("java")
    plugins = plugin_path(folder)
    install_avro(plugins)
    return Group(
        folder,
        broker.bootstrap_servers,
        plugin_path=str(plugins),
        value_converter="io.confluent.connect.avro.AvroConverter",
        value_converter_schema_registry_url="http://127.0.0.1:1",
    )


@pytest.fixture(scope="module")
def worker(group: Group) -> Iterator[Worker]:
    with java_group_worker(group) as worker:
        yield worker


def plugin_metrics(worker: Worker, name: str) -> dict[str, float]:
    """The metrics that the plugins of a connector added, each with its labels."""
    lines = worker.text("/metrics").splitlines()
    found = [line for line in lines if line.startswith("kafka_connect_plugins_") and f'connector="{name}"' in line]
    own = [line.replace(f'connector="{name}"', "").partition("kafka_connect_plugins_")[2] for line in found]
    return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in own}


def test_metrics_of_java_plugins_are_shown_with_the_names_and_labels_of_connect(connector: Connectors, topics: Topics):
    name = connector.hostile(topics.create(), "", limit="4", **odd("drop"))
    wait_for(lambda: plugin_metrics(connector.worker, name).get('last_number{,counter="c",task="0"}') == 4)
    found = plugin_metrics(connector.worker, name)
    assert found.pop('polls_total{,counter="c",task="0"}') >= 4
    assert found == {
        "limit{}": 4,
        'last_number{,counter="c",task="0"}': 4,
        'seen{,task="0",transformation="a"}': 4,
    }


def test_a_metric_in_java_that_hangs_keeps_no_other_from_being_shown(connector: Connectors, topics: Topics):
    name = connector.hostile(topics.create(), "mute", limit="2", **odd("drop"))
    connector.worker.wait_for_states(name, "RUNNING", "RUNNING")
    wait_for(lambda: "limit{}" in plugin_metrics(connector.worker, name))
    connector.worker.process.wait_for_output(f"The metrics of task {name}-0 did not come within")
    assert plugin_metrics(connector.worker, name) == {"limit{}": 2}


def test_a_chain_of_connects_own_transforms_runs_in_the_jvm(
    connector: Connectors, topics: Topics, tmp_path: Path, bootstrap_servers: str
):
    topic, other = topics.create(), topics.create()
    file = tmp_path / "in.txt"
    file.write_text("one\ntwo\n")
    chain = transforms(
        f"{TRANSFORMS}HoistField$Value", "InsertField$Value", f"{TRANSFORMS}ValueToKey", "ExtractField$Key",
        f"{TRANSFORMS}RegexRouter", f"{TRANSFORMS}InsertHeader",
        a_field="line", b_static_field="source", b_static_value="file", c_fields="line", d_field="line",
        e_regex=topic, e_replacement=other, f_header="seen", f_value_literal="true", f_predicate="is", f_negate="true",
    )  # fmt: skip
    predicate = {
        "predicates": "is",
        "predicates.is.type": f"{TRANSFORMS}predicates.TopicNameMatches",
        "predicates.is.pattern": "nothing",
    }
    connector.start(
        {
            "connector.class": FILE_STREAM, "file": str(file), "topic": topic, "value.converter": JSON,
            "value.converter.schemas.enable": "false", **chain, **predicate,
        }
    )  # fmt: skip
    wait_for(lambda: len(read_topic(bootstrap_servers, other)) == 2, what="both lines")
    records = read_topic(bootstrap_servers, other)
    assert [json.loads(record.value or b"") for record in records] == [
        {"line": "one", "source": "file"},
        {"line": "two", "source": "file"},
    ]
    assert [record.key for record in records] == [b"one", b"two"]
    assert records[0].headers == (("seen", b"true"),)
    assert read_topic(bootstrap_servers, topic) == []


def test_records_that_a_transform_of_another_folder_drops_have_offsets(
    connector: Connectors, topics: Topics, group: Group, bootstrap_servers: str
):
    topic = topics.create()
    name = connector.hostile(topic, "", limit="6", **odd("drop"))
    wait_for(lambda: numbers(bootstrap_servers, topic) == [1, 3, 5], what="the odd numbers")

    def last() -> list[bytes | None]:
        offsets = read_topic(bootstrap_servers, f"{group.id}-offsets")
        return [one.value for one in offsets if name.encode() in (one.key or b"")][-1:]

    wait_for(lambda: last() == [b'{"number":6}'], what="the offset of the dropped record")


def test_transforms_in_python_that_need_no_values_run_after_the_jvm(
    connector: Connectors, topics: Topics, bootstrap_servers: str, notes: dict[str, str]
):
    topic, other = topics.create(), topics.create()
    chain = transforms(
        ODD, "fencepost:RegexRouter", "fencepost:Filter",
        a_how="drop", b_regex=topic, b_replacement=other, c_predicate="p",
    )  # fmt: skip
    predicate = {"predicates": "p", "predicates.p.type": "fencepost:HasHeaderKey", "predicates.p.name": "nothing"}
    connector.hostile(topic, "", limit="4", **{"value.converter": LONGS, **chain, **predicate, **notes})
    wait_for(lambda: numbers(bootstrap_servers, other) == [1, 3], what="the odd numbers")
    assert [(one.key, one.headers) for one in read_topic(bootstrap_servers, other)] == [
        (b"k1", (("number", b"1"),)),
        (b"k3", (("number", b"3"),)),
    ]
    assert read_topic(bootstrap_servers, topic) == []


def test_a_record_that_a_transform_in_python_drops_is_committed_without_a_place(
    connector: Connectors, topics: Topics, tmp_path: Path
):
    topic, notes = topics.create(), tmp_path / "notes"
    chain = transforms(ODD, "fencepost:Filter", a_how="drop", a_every="3", b_predicate="p")
    predicate = {"predicates": "p", "predicates.p.type": "fencepost:HasHeaderKey", "predicates.p.name": "number"}
    noted = {"connector.class": NOTED, "notes": str(notes)}
    more = {"value.converter": LONGS, **noted, **chain, **predicate}
    connector.hostile(topic, "", limit="4", **more)
    wait_for(lambda: notes.exists() and len(notes.read_text().splitlines()) == 4, what="all numbers")
    assert notes.read_text() == "1 null\n2 null\n3 null\n4 null\n"


def test_a_record_that_a_transform_in_java_drops_is_committed_without_a_place(
    connector: Connectors, topics: Topics, tmp_path: Path
):
    topic, notes = topics.create(), tmp_path / "notes"
    noted = {"connector.class": NOTED, "notes": str(notes)}
    # Of an interval, so that dropped and written records are in one transaction.
    interval = {"transaction.boundary": "interval", "transaction.boundary.interval.ms": "500"}
    connector.hostile(topic, "sizes", limit="11", **odd("drop"), **noted, **interval)
    wait_for(lambda: notes.exists() and len(notes.read_text().splitlines()) == 11, what="all numbers")
    # The sizes of keys such as k1 and k11, and of longs.
    written = {number: f"{topic} {1 + len(str(number))} 8" for number in range(1, 12, 2)}
    assert notes.read_text() == "".join(f"{number} {written.get(number, 'null')}\n" for number in range(1, 12))


@pytest.mark.parametrize("how", ["throw", "error"])
def test_a_commit_record_that_fails_leaves_out_no_other_record(
    connector: Connectors, topics: Topics, tmp_path: Path, how: str
):
    topic, notes = topics.create(), tmp_path / "notes"
    interval = {"transaction.boundary": "interval", "transaction.boundary.interval.ms": "1000"}
    more = {"value.converter": LONGS, "connector.class": NOTED, "notes": str(notes), **interval}
    connector.hostile(topic, f"{how} in task.commitRecord", limit="4", **more)
    wait_for(lambda: notes.exists() and len(notes.read_text().splitlines()) == 4, what="all numbers")
    assert notes.read_text() == "".join(f"{number} {topic}\n" for number in range(1, 5))


def test_a_transform_has_the_class_loader_of_its_own_folder(
    connector: Connectors, topics: Topics, bootstrap_servers: str
):
    topic = topics.create()
    given = {**odd("loader", 1), "value.converter": "org.apache.kafka.connect.storage.StringConverter"}
    connector.hostile(topic, "", limit="1", **given)
    wait_for(lambda: values(read_topic(bootstrap_servers, topic)) == [b"true"])


@pytest.mark.parametrize(
    ("given", "name", "message"),
    [
        (transforms(ODD), "transforms.a.how", 'Missing required configuration "how" which has no default value.'),
        (odd("drop", 0), "transforms.a.every", "Invalid value 0 for configuration every: Value must be at least 1"),
        (transforms("gone.Smt"), "transforms.a.type", "There is no transform named 'gone.Smt'"),
        (transforms("java:Sql"), "transforms.a.type", "names java:Sql, no jar in plugin.path has it"),
        (transforms("fencepost:HoistField$Value", a_field="f"), "transforms", "HoistField cannot be used: the connector returns"),
        (
            {**transforms("fencepost:RegexRouter", "HoistField$Value", a_regex="a", a_replacement="b", b_field="f")},
            "transforms",
            "it cannot follow a, which is in Python",
        ),
        (
            {**odd("drop"), "transforms.a.predicate": "p", "predicates": "p", "predicates.p.type": "TopicNameMatches"},
            "predicates.p.pattern",
            'Missing required configuration "pattern" which has no default value.',
        ),
        ({"value.converter": "gone.Converter"}, "value.converter", "which no jar in plugin.path has"),
        ({}, "value.converter", "which is in Python here"),
        ({**odd("drop"), "transforms.a.plugin.version": "9"}, "transforms.a.plugin.version", "but 1.2.3 is installed"),
    ],
    ids=[
        "a property is missing", "a validator of java", "an unknown transform", "a java one that is not there", "one in python that needs values",
        "one in python before one in java",
        "a predicate", "an unknown converter", "the converter of the worker", "another version",
    ],
)  # fmt: skip
def test_validation_names_the_property_of_the_part(
    connector: Connectors, given: dict[str, str], name: str, message: str
):
    own = {"value.converter": LONGS, **given} if given else {}
    found = connector.refusals({"connector.class": HOSTILE, "topic": "t", **own})
    assert list(found) == [name], found
    assert message in found[name][0]


def test_a_password_of_a_transform_in_java_is_hidden(connector: Connectors, topics: Topics):
    name = connector.hostile(topics.create(), "", **odd("drop"), **{"transforms.a.pin": "s3cret-of-odd"})
    connector.worker.wait_for_states(name, "RUNNING", "RUNNING")
    for process in psutil.Process(connector.worker.process.pid).children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            assert "s3cret-of-odd" not in "".join((*process.cmdline(), *process.environ().values()))
    config = connector.worker.get(f"/connectors/{name}/config")
    assert "s3cret-of-odd" not in json.dumps(config)


def test_a_converter_of_a_jar_writes_avro_with_a_registry(
    connector: Connectors,
    topics: Topics,
    tmp_path: Path,
    bootstrap_servers: str,
    schema_registry: EmbeddedRegistry,
):
    topic, file = topics.create(), tmp_path / "in.txt"
    file.write_text("one\ntwo\n")
    avro = {
        "apicurio.registry.url": schema_registry.url.replace("/ccompat/v7", "/registry/v2"),
        "apicurio.registry.auto-register": "true",
        "apicurio.registry.headers.enabled": "false",
        "apicurio.registry.as-confluent": "true",
        "apicurio.registry.use-id": "contentId",
    }
    roles = dict.fromkeys(("key.converter", "value.converter"), APICURIO_AVRO)
    roles |= {f"{role}.{name}": value for role in list(roles) for name, value in avro.items()}
    chain = transforms("HoistField$Value", "ValueToKey", a_field="line", b_fields="line")
    connector.start({"connector.class": FILE_STREAM, "file": str(file), "topic": topic, **roles, **chain})
    wait_for(lambda: len(read_topic(bootstrap_servers, topic)) == 2, what="both lines")
    with SchemaRegistryClient({"url": schema_registry.url}) as client:
        deserialize = AvroDeserializer(client)
        found = [
            (deserialize(record.key, None), deserialize(record.value, None))
            for record in read_topic(bootstrap_servers, topic)
        ]
    assert found == [({"line": text}, {"line": text}) for text in ("one", "two")]


def test_plugins_of_jars_are_listed_with_their_properties(worker: Worker):
    listed = {
        (one["class"], one["type"]): one.get("version") for one in worker.get("/connector-plugins?connectorsOnly=false")
    }
    assert listed[ODD, "transformation"] == "1.2.3"
    assert (ODD, "source") not in listed
    keys = {key["name"]: key for key in worker.get(f"/connector-plugins/{ODD}/config")}
    assert (keys["every"]["default_value"], keys["pin"]["type"]) == ("2", "PASSWORD")
    assert (APICURIO_AVRO, "converter") in listed
    assert ODD not in {one["class"] for one in worker.get("/connector-plugins")}


def test_a_level_that_is_set_for_a_logger_of_java_reaches_the_jvm(connector: Connectors, topics: Topics):
    connector.hostile(topics.create(), "", limit="1", **{"value.converter": LONGS})
    worker = connector.worker
    try:
        assert worker.request("PUT", "/admin/loggers/java.hostile", {"level": "DEBUG"}).status == 200
        worker.process.wait_for_output("is polled after 1 (java.hostile.HostileTask)")
    finally:
        worker.request("PUT", "/admin/loggers/java.hostile", {"level": "INFO"})
