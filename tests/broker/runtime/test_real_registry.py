"""Avro and Protobuf with a real schema registry, Apicurio, read back by confluent-kafka's deserializers."""

from __future__ import annotations

import datetime as dt
import threading
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from pathlib import Path
from typing import Any

from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext

from fencepost import SourceRecord
from fencepost.converters.avro.converter import AvroConverter
from fencepost.converters.protobuf.parser import parsed_file
from fencepost.converters.registry.client import RegistryClient
from fencepost.converters.registry.registry import Registry
from fencepost.converters.registry.schemas import RegistrySchema
from fencepost.converters.registry.settings import RegistrySettings
from fencepost.embedded.registry import EmbeddedRegistry
from fencepost.runtime.state import State
from tests.support.checker import read_topic
from tests.support.processes import wait_for
from tests.support.protobuf_messages import message_class
from tests.support.sequence_source import Seen
from tests.support.task_runner import TaskRunner, stop, wait_for_state
from tests.support.topics import unique

NARROW = "id BIGINT NOT NULL, name STRING"
ALL = (
    "b TINYINT, s SMALLINT, i INT, l BIGINT NOT NULL, f FLOAT, d DOUBLE, t BOOLEAN, text STRING, raw BINARY, day DATE, "
    "at TIMESTAMP, price DECIMAL(20, 2), tags ARRAY<STRING>, sizes MAP<STRING, INT>, codes MAP<INT, STRING>, "
    "inner STRUCT<x: INT NOT NULL, y: ARRAY<STRUCT<z: STRING>>>"
)
ROW = {
    "b": -1, "s": 300, "i": 2**31 - 1, "l": -(2**63), "f": 1.5, "d": 0.1, "t": True, "text": "ä€", "raw": b"\0\1",
    "day": dt.date(2026, 11, 24), "at": dt.datetime(2026, 11, 24, 12, 30, 0, 123000, dt.UTC), "price": Decimal("-1.28"),
    "tags": ["a", None], "sizes": {"k": 1}, "codes": {7: "seven"}, "inner": {"x": 1, "y": [{"z": "deep"}, {"z": None}]},
}  # fmt: skip


def settings(registry: EmbeddedRegistry) -> dict[str, str]:
    return {
        "limit": "1", "messages.per.poll": "1", "value.converter": "AvroConverter",
        "value.converter.schema.registry.url": registry.url,
    }  # fmt: skip


def poll(seen: Seen, topic: str, *polls: tuple[str, dict[str, Any]]) -> None:
    left = [[SourceRecord({"p": 1}, {"saved": 1}, topic, value=value, value_schema=schema)] for schema, value in polls]
    seen.on_poll = lambda _task, _records: left.pop(0) if left else []


def read(bootstrap_servers: str, registry: EmbeddedRegistry, topic: str) -> list[Any]:
    context = SerializationContext(topic, MessageField.VALUE)
    with SchemaRegistryClient({"url": registry.url}) as client:
        deserialize = AvroDeserializer(client)
        return [deserialize(record.value, context) for record in read_topic(bootstrap_servers, topic)]


def test_rows_of_all_types_are_read_back(
    runner: TaskRunner, bootstrap_servers: str, topic: str, name: str, schema_registry: EmbeddedRegistry
):
    task, seen = runner.task(name, topic, settings(schema_registry))
    nothing = dict.fromkeys(ROW) | {"l": 0}
    poll(seen, topic, (ALL, ROW), (ALL, nothing))
    task.start()
    wait_for(lambda: seen.commits >= 2)
    stop(task)
    found, empty = read(bootstrap_servers, schema_registry, topic)
    assert found == ROW | {"codes": [{"key": 7, "value": "seven"}]}
    assert empty == nothing


def test_rows_of_all_types_are_read_back_by_the_protobuf_schema_of_their_id(
    runner: TaskRunner, bootstrap_servers: str, topic: str, name: str, schema_registry: EmbeddedRegistry
):
    chosen = {
        "value.converter": "io.confluent.connect.protobuf.ProtobufConverter", "key.converter": "ProtobufConverter",
        "key.converter.schema.registry.url": schema_registry.url, "value.converter.optional.for.nullables": "true",
    }  # fmt: skip
    task, seen = runner.task(name, topic, settings(schema_registry) | chosen)
    row = ROW | {"tags": ["a", ""]}
    left = [[SourceRecord({"p": 1}, {"saved": 1}, topic, key=7, key_schema="INT", value=row, value_schema=ALL)]]
    seen.on_poll = lambda _task, _records: left.pop(0) if left else []
    task.start()
    wait_for(lambda: seen.commits)
    stop(task)
    (record,) = read_topic(bootstrap_servers, topic)
    with SchemaRegistryClient({"url": schema_registry.url}) as client:
        registered = {
            field: client.get_schema(int.from_bytes(data[1:5], "big"))
            for field, data in ((MessageField.KEY, record.key), (MessageField.VALUE, record.value))
        }
        assert client.get_latest_version(f"{topic}-value").schema_id == int.from_bytes(record.value[1:5], "big")
    assert registered[MessageField.KEY].schema_type == registered[MessageField.VALUE].schema_type == "PROTOBUF"
    assert record.key[5:] == b"\2\x08\x08\7"
    file = parsed_file(registered[MessageField.VALUE].schema_str)
    deserialize = ProtobufDeserializer(message_class(file), {"use.deprecated.format": False})
    found = deserialize(record.value, SerializationContext(topic, MessageField.VALUE))
    assert (found.b, found.l, found.text, found.price.value) == (-1, -(2**63), "ä€", b"\x80")
    assert [(entry.key, entry.value) for entry in found.codes] == [(7, "seven")]
    assert [part.z for part in found.inner.y] == ["deep", ""]


def test_a_compatible_column_passes_and_another_one_fails_the_task(
    runner: TaskRunner, bootstrap_servers: str, topic: str, name: str, schema_registry: EmbeddedRegistry
):
    with SchemaRegistryClient({"url": schema_registry.url}) as client:
        client.set_compatibility(f"{topic}-value", level="BACKWARD")
    task, seen = runner.task(name, topic, settings(schema_registry) | {"errors.tolerance": "all"})
    wide, strict = f"{NARROW}, note STRING", f"{NARROW}, code INT NOT NULL"
    first, second, third = (
        {"id": 1, "name": "a"},
        {"id": 2, "name": "b", "note": "c"},
        {"id": 3, "name": "d", "code": 1},
    )
    poll(seen, topic, (NARROW, first), (wide, second), (strict, third))
    task.start()
    wait_for_state(task, State.FAILED)
    assert f"incompatible with those of subject {topic}-value (newest version: 2)" in str(task.error)
    assert read(bootstrap_servers, schema_registry, topic) == [first, second]


def test_two_workers_that_register_at_once_get_one_id(schema_registry: EmbeddedRegistry):
    subject = unique("subject")
    properties = {"schema.registry.url": schema_registry.url}
    found = RegistrySettings.of(AvroConverter().config().parse(properties), properties)

    def register(_: int) -> int:
        # Each registration has a client of its own, as in separate processes.
        worker = Registry(RegistryClient(found))
        try:
            return worker.registered(subject, RegistrySchema('{"type":"long","x":"y"}', "AVRO"), normalize=False).id
        finally:
            worker.client.close()

    with ThreadPoolExecutor(8) as threads:
        assert len(set(threads.map(register, range(8)))) == 1


def test_a_task_continues_by_itself_after_its_registry_was_killed(
    runner: TaskRunner, bootstrap_servers: str, topic: str, name: str, tmp_path: Path
):
    registry = EmbeddedRegistry(tmp_path)
    with registry:
        task, seen = runner.task(name, topic, settings(registry) | {"value.converter.retries.max.wait.ms": "50"})
        registry.kill()
        poll(seen, topic, (NARROW, {"id": 1, "name": "a"}))
        task.start()
        wait_for(lambda: task.error is not None)
        assert "is called again" in str(task.error)
        assert task.transaction.open is None
        registry.start()
        wait_for(lambda: seen.commits)
        stop(task)
        assert seen.starts == 1
        assert read(bootstrap_servers, registry, topic) == [{"id": 1, "name": "a"}]


def test_a_registry_killed_in_mid_run_is_waited_for_and_its_lost_ids_are_refused(
    runner: TaskRunner, bootstrap_servers: str, topic: str, name: str, tmp_path: Path
):
    """The registry keeps its schemas in memory, so after its restart another schema may get the first one's id."""
    registry = EmbeddedRegistry(tmp_path)
    with registry:
        task, seen = runner.task(name, topic, settings(registry) | {"value.converter.retries.max.wait.ms": "50"})
        killed = threading.Event()
        left = [(NARROW, {"id": 1, "name": "a"}), (f"{NARROW}, note STRING", {"id": 2, "name": "b", "note": "c"})]

        def polled(_task: object, _records: object) -> list[SourceRecord]:
            if not left or (len(left) == 1 and not killed.is_set()):
                return []
            schema, value = left.pop(0)
            return [SourceRecord({"p": 1}, {"saved": 1}, topic, value=value, value_schema=schema)]

        seen.on_poll = polled
        task.start()
        # Each empty poll commits, too.
        wait_for(lambda: seen.commits)
        before = read(bootstrap_servers, registry, topic)
        registry.kill()
        killed.set()
        wait_for(lambda: task.error is not None)
        assert "could not be asked for" in str(task.error)
        assert task.state is State.RUNNING
        assert task.transaction.open is None
        registry.start()
        wait_for_state(task, State.FAILED)
        assert "to two schemas" in str(task.error)
        assert before == [{"id": 1, "name": "a"}]
        assert len(read_topic(bootstrap_servers, topic)) == 1
