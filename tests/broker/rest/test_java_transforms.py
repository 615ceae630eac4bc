"""A worker accepts each transform under its Java name with a minimal configuration, and runs some of each vendor."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from fencepost.config.plugins import PluginKind, plugin_entry_points
from tests.broker.rest.test_standalone_rest import Standalone
from tests.support.checker import read_topic, values
from tests.support.processes import Process, wait_for
from tests.support.standalone import standalone_properties
from tests.support.topics import unique

AIVEN: Final = "io.aiven.kafka.connect.transforms"
APACHE: Final = "org.apache.kafka.connect.transforms"
CONFLUENT: Final = "io.confluent.connect.transforms"
DEBEZIUM: Final = "io.debezium.transforms"
ROUTER: Final = {"regex": "(.*)", "replacement": "$1"}
SCRIPT: Final = {"language": "sql"}
HEADERS: Final = {"fields": "name", "headers": "h", "operation": "copy"}
HASH: Final = {"field.name": "name", "function": "md5"}

OF_PARTS: Final[dict[str, dict[str, str]]] = {
    f"{APACHE}.Cast": {"spec": "string"},
    f"{APACHE}.ExtractField": {"field": "name"},
    f"{APACHE}.Flatten": {},
    f"{APACHE}.HoistField": {"field": "all"},
    f"{APACHE}.InsertField": {"static.field": "more", "static.value": "x"},
    f"{APACHE}.MaskField": {"fields": "name"},
    f"{APACHE}.ReplaceField": {"exclude": "id"},
    f"{APACHE}.HeaderFrom": HEADERS,
    f"{APACHE}.SetSchemaMetadata": {"schema.name": "named"},
    f"{APACHE}.TimestampConverter": {"target.type": "unix"},
    f"{CONFLUENT}.ExtractTopic": {"field": "name"},
    f"{CONFLUENT}.Drop": {},
    f"{CONFLUENT}.ExtractTimestamp": {"field.name": "at"},
    f"{CONFLUENT}.ToJSON": {},
    f"{CONFLUENT}.BytesToString": {},
    f"{AIVEN}.ExtractTopic": {"field.name": "name"},
    f"{AIVEN}.ExtractTimestamp": {"field.name": "at"},
    f"{AIVEN}.Hash": HASH,
}
"""Properties of the classes that have a variant for keys and one for values."""

OF_RECORDS: Final[dict[str, dict[str, str]]] = {
    f"{APACHE}.Filter": {},
    f"{APACHE}.DropHeaders": {"headers": "h"},
    f"{APACHE}.InsertHeader": {"header": "h", "value.literal": "x"},
    f"{APACHE}.RegexRouter": ROUTER,
    f"{APACHE}.TimestampRouter": {},
    f"{APACHE}.ValueToKey": {"fields": "id"},
    f"{CONFLUENT}.ChangeTopicCase": {"from": "LOWER_HYPHEN", "to": "UPPER_UNDERSCORE"},
    f"{CONFLUENT}.TombstoneHandler": {},
    f"{CONFLUENT}.TopicRegexRouter": ROUTER,
    "io.confluent.connect.cloud.transforms.TopicRegexRouter": ROUTER,
    f"{AIVEN}.FilterByFieldValue": {"field.name": "name", "field.value": "ada"},
    f"{AIVEN}.FilterByFieldValue$Value": {"field.name": "name", "field.value": "ada"},
    f"{AIVEN}.MakeTombstone": {},
    f"{AIVEN}.TombstoneHandler": {},
    f"{DEBEZIUM}.ExtractNewRecordState": {},
    f"{DEBEZIUM}.outbox.EventRouter": {},
    f"{DEBEZIUM}.Filter": {**SCRIPT, "condition": "value.id = 7"},
    f"{DEBEZIUM}.ContentBasedRouter": {**SCRIPT, "topic.expression": "topic"},
    f"{DEBEZIUM}.ByLogicalTableRouter": {"topic.regex": "(.*)", "topic.replacement": "$1"},
    f"{DEBEZIUM}.partitions.PartitionRouting": {"partition.payload.fields": "change.id", "partition.topic.num": "1"},
    f"{DEBEZIUM}.ExtractChangedRecordState": {},
    f"{DEBEZIUM}.HeaderToValue": HEADERS,
    f"{DEBEZIUM}.EnforceRecordSize": {"max.bytes": "1000"},
    f"{DEBEZIUM}.TimezoneConverter": {"converted.timezone": "Europe/Berlin"},
}
MINIMAL: Final = {
    **{f"{name}${part}": given for name, given in OF_PARTS.items() for part in ("Key", "Value")},
    **OF_RECORDS,
}

ROW: Final = {"id": 7, "name": "ada"}
RUNNING: Final[dict[str, object]] = {
    f"{APACHE}.MaskField$Value": {"id": 7, "name": ""},
    f"{APACHE}.ReplaceField$Value": {"name": "ada"},
    f"{APACHE}.ExtractField$Value": "ada",
    f"{CONFLUENT}.Drop$Value": None,
    f"{CONFLUENT}.ToJSON$Value": '{"id":7,"name":"ada"}',
    f"{AIVEN}.Hash$Value": {"id": 7, "name": "8c8d357b5e872bbacd45197626bd5759"},
    f"{AIVEN}.FilterByFieldValue": ROW,
    f"{DEBEZIUM}.Filter": ROW,
    f"{DEBEZIUM}.EnforceRecordSize": ROW,
}
"""The row that each transform makes of ROW, by the transform's name."""


@pytest.fixture
def worker(tmp_path: Path, bootstrap_servers: str) -> Iterator[Standalone]:
    folder = tmp_path
    settings = {
        **standalone_properties(bootstrap_servers, unique("group")),
        "fencepost.files.allowed.paths": str(folder),
    }
    filed = {"name": "filed", "connector.class": "FileStreamSource", "file": str(folder / "lines"), "topic": "filed"}
    for file, given in (("worker", settings), ("filed", filed)):
        (folder / file).write_text("".join(f"{name}={text}\n" for name, text in given.items()))
    (folder / "lines").touch()
    (folder / "rows").write_text(f"{json.dumps(ROW)}\n")
    (folder / "log").touch()
    arguments = ("standalone", str(folder / "worker"), str(folder / "filed"))
    with Process.forked(*arguments, log_file=folder / "log") as process:
        yield Standalone(process, folder)


def configuration(folder: Path, transform: str, topic: str) -> dict[str, str]:
    given = {f"transforms.t.{name}": text for name, text in MINIMAL[transform].items()}
    return {
        "connector.class": "FileSource", "files": str(folder / "rows"), "format": "jsonl", "topic": topic,
        "schema": "id BIGINT, name STRING", "transforms": "t", "transforms.t.type": transform,
        "value.converter": "org.apache.kafka.connect.json.JsonConverter", "value.converter.schemas.enable": "false",
        **given,
    }  # fmt: skip


def test_each_java_name_has_a_configuration_here() -> None:
    names = {entry.name for entry in plugin_entry_points(PluginKind.TRANSFORMATION)}
    assert {name for name in names if name.startswith(("org.", "io."))} == set(MINIMAL)


def test_each_java_name_is_accepted_and_some_of_each_vendor_run(worker: Standalone, bootstrap_servers: str) -> None:
    refused = {}
    for name in MINIMAL:
        given = {"name": "v", **configuration(worker.folder, name, "t")}
        answer = worker.request("PUT", "/connector-plugins/FileSource/config/validate", given)
        errors = [one["value"]["errors"] for one in answer.body["configs"] if one["value"]["errors"]]
        if answer.body["error_count"] or errors:
            refused[name] = errors
    assert not refused
    topics = {name: unique("transformed") for name in RUNNING}
    for name, topic in topics.items():
        given = configuration(worker.folder, name, topic)
        assert worker.request("PUT", f"/connectors/{topic}/config", given).status == 201
    for name, topic in topics.items():
        worker.wait_for_states(topic, "RUNNING", "RUNNING")
        wait_for(lambda topic=topic: read_topic(bootstrap_servers, topic), what=f"{name} has written")
        (value,) = values(read_topic(bootstrap_servers, topic))
        assert (None if value is None else json.loads(value)) == RUNNING[name], name
