"""A Java connector's pipeline: transforms, predicates and converters in its JVM, and records that they refuse."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer

from fencepost.embedded.broker import EmbeddedBroker
from fencepost.embedded.registry import EmbeddedRegistry
from tests.support.checker import read_offsets, read_topic, values
from tests.support.java_connectors import Connectors, java_group_worker
from tests.support.java_pipeline import LONGS, TRANSFORMS, numbers, odd, transforms
from tests.support.java_plugins import APICURIO_AVRO, FILE_STREAM, HOSTILE, NOTED, ODD, install_avro, plugin_path
from tests.support.java_runs import assert_hidden_from_other_processes
from tests.support.processes import wait_for
from tests.support.topics import Topics
from tests.support.workers import Group, Worker

JSON = "org.apache.kafka.connect.json.JsonConverter"
LAST_OF_A_DAY = 1_709_337_599_999
"""The last millisecond of 1 March 2024, in UTC."""


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


@pytest.mark.parametrize(
    ("chain", "predicate", "places"),
    [
        # The timestamps of records 1 and 2 are at the ends of a day.
        (
            transforms("fencepost:TimestampRouter", a_topic_format="${topic}-${timestamp}"),
            {},
            {"-20240301": [1], "-20240302": [2]},
        ),
        (transforms("fencepost:DropHeaders", a_headers="number"), {}, {"": [1, 2]}),
        (
            transforms("fencepost:Filter", a_predicate="p"),
            {"p.type": "fencepost:TopicNameMatches", "p.pattern": ".*"},
            {"": []},
        ),
        (
            transforms("fencepost:Filter", a_predicate="p", a_negate="true"),
            {"p.type": "fencepost:RecordIsTombstone"},
            {"": []},
        ),
    ],
    ids=["TimestampRouter", "DropHeaders", "TopicNameMatches", "RecordIsTombstone"],
)
def test_each_transform_in_python_of_metadata_runs_after_the_jvm(
    connector: Connectors,
    *,
    topics: Topics,
    group: Group,
    bootstrap_servers: str,
    chain: dict[str, str],
    predicate: dict[str, str],
    places: dict[str, list[int]],
):
    topic = topics.create()
    for end in filter(None, places):
        topics.create(topic + end)
    predicates = {"predicates": "p"} | {f"predicates.{key}": value for key, value in predicate.items()}
    more = {"value.converter": LONGS, **chain, **(predicates if predicate else {})}
    name = connector.hostile(topic, "", limit="2", timestamp=str(LAST_OF_A_DAY - 1), **more)
    last = [({"counter": "c"}, {"number": 2})]
    wait_for(lambda: read_offsets(bootstrap_servers, f"{group.id}-offsets", name) == last, what="all offsets")
    assert {end: numbers(bootstrap_servers, topic + end) for end in places} == places
    if "DropHeaders" in chain["transforms.a.type"]:
        assert [one.headers for one in read_topic(bootstrap_servers, topic)] == [(), ()]


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
    connector: Connectors, topics: Topics, tmp_path: Path, bootstrap_servers: str
):
    topic, notes = topics.create(partitions=2), tmp_path / "notes"
    noted = {"connector.class": NOTED, "notes": str(notes)}
    # With boundaries at an interval, dropped and written records are in one transaction.
    interval = {"transaction.boundary": "interval", "transaction.boundary.interval.ms": "500"}
    connector.hostile(topic, "details", limit="11", **odd("drop"), **noted, **interval)
    wait_for(lambda: notes.exists() and len(notes.read_text().splitlines()) == 11, what="all numbers")
    # The serialized sizes of keys such as k1 and k11, and of longs.
    sizes = {number: f"{1 + len(str(number))} 8" for number in range(1, 12, 2)}
    places = {
        int.from_bytes(one.value or b""): f"{one.partition} {one.offset} {one.timestamp}"
        for one in read_topic(bootstrap_servers, topic)
    }
    assert {one.partition for one in read_topic(bootstrap_servers, topic)} == {0, 1}
    written = {number: f"{topic} {sizes[number]} {places[number]}" for number in range(1, 12, 2)}
    assert notes.read_text() == "".join(f"{number} {written.get(number, 'null')}\n" for number in range(1, 12))


def test_records_are_committed_in_the_order_of_kafka_connect(connector: Connectors, topics: Topics, tmp_path: Path):
    """Each poll is a transaction here. A task reads its own committed offsets while it is told of a commit."""
    topic, notes = topics.create(), tmp_path / "notes"
    noted = {"connector.class": NOTED, "notes": str(notes)}
    connector.hostile(topic, "calls", limit="4", **odd("drop"), **noted)
    calls = []
    for number in range(1, 5):
        place = topic if number % 2 else "null"
        calls += [f"poll after {number - 1}", f"{number} {place}", f"commit at {number}"]
    calls.append("poll after 4")
    wait_for(lambda: notes.exists() and calls[-1] in notes.read_text().splitlines(), what="the poll after all numbers")
    assert notes.read_text().splitlines()[: len(calls)] == calls


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


def test_a_prefix_chooses_java_plugins_in_each_place_and_is_not_in_their_names(
    connector: Connectors, topics: Topics, bootstrap_servers: str
):
    topic = topics.create()
    chain = transforms(f"java:{ODD}", a_how="type", a_every="1", a_predicate="p")
    chain |= {"predicates": "p", "predicates.p.type": "java:TopicNameMatches", "predicates.p.pattern": topic}
    text = "java:org.apache.kafka.connect.storage.StringConverter"
    chain |= {"key.converter": text, "value.converter": text, "header.converter": "java:SimpleHeaderConverter"}
    name = connector.start({"connector.class": f"java:{HOSTILE}", "topic": topic, "limit": "1", **chain})
    wait_for(lambda: values(read_topic(bootstrap_servers, topic)) == [ODD.encode()], what="the type of the transform")
    (task,) = connector.worker.get(f"/connectors/{name}/tasks")
    # HostileConnector gives the configuration that it has to its task.
    plain = {"connector.class": HOSTILE, "transforms.a.type": ODD, "predicates.p.type": "TopicNameMatches"}
    plain |= {"value.converter": text.removeprefix("java:"), "header.converter": "SimpleHeaderConverter"}
    assert {key: task["config"][key] for key in plain} == plain


@pytest.mark.parametrize(
    ("given", "name", "message"),
    [
        (transforms(ODD), "transforms.a.how", 'Missing required configuration "how" which has no default value.'),
        (odd("drop", 0), "transforms.a.every", "Invalid value 0 for configuration every: Value must be at least 1"),
        (transforms("gone.Smt"), "transforms.a.type", "There is no transform named 'gone.Smt'"),
        (transforms("java:Sql"), "transforms.a.type", "names java:Sql, no jar in plugin.path has it"),
        (transforms("fencepost:HoistField$Value", a_field="f"), "transforms.a.type", "HoistField cannot be used: the connector returns"),
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
    assert_hidden_from_other_processes("s3cret-of-odd", connector.worker.process.pid)
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


@pytest.mark.parametrize("logger", ["java.hostile", "java"])
def test_a_level_that_is_set_for_a_logger_of_java_reaches_the_jvm(connector: Connectors, topics: Topics, logger: str):
    name = connector.hostile(topics.create(), "", limit="1", **{"value.converter": LONGS})
    worker = connector.worker
    try:
        assert worker.request("PUT", f"/admin/loggers/{logger}", {"level": "DEBUG"}).status == 200
        worker.process.wait_for_output(f"[{name}|task-0] is polled after 1 (java.hostile.HostileTask)")
    finally:
        worker.request("PUT", f"/admin/loggers/{logger}", {"level": "INFO"})
