"""Tasks whose converters use a schema registry: requests before the transaction, and a registry that is away."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from http.server import BaseHTTPRequestHandler
from typing import Any

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext

from fencepost import SourceRecord
from fencepost.converters.registry.registry import forget_registries
from fencepost.runtime.state import State
from fencepost.runtime.task.source_task import WorkerSourceTask
from tests.support.checker import Record, read_topic
from tests.support.fake_registry import FakeRegistry, fake_registry, send
from tests.support.processes import wait_for
from tests.support.sequence_source import Seen, SequenceTask
from tests.support.task_runner import TaskRunner, stop, wait_for_state
from tests.support.topics import unique

NARROW = "id BIGINT NOT NULL, name STRING"
WIDE = f"{NARROW}, note STRING"
AVRO = "io.confluent.connect.avro.AvroConverter"


@pytest.fixture
def registry() -> Iterator[FakeRegistry]:
    forget_registries()
    with fake_registry(with_guids=True) as found:
        yield found
    forget_registries()


def settings(registry: FakeRegistry, *roles: str, **others: str) -> dict[str, str]:
    found = {"limit": "1", "messages.per.poll": "1"}
    for role in roles or ("value",):
        found |= {
            f"{role}.converter": AVRO,
            f"{role}.converter.schema.registry.url": registry.address,
            f"{role}.converter.retries.wait.ms": "1",
            f"{role}.converter.max.retries": "1",
        } | {f"{role}.converter.{name.replace('__', '.')}": value for name, value in others.items()}
    return found


def rows(topic: str, *values: Mapping[str, Any] | None, schema: str = NARROW, **more: Any) -> list[SourceRecord]:
    return [SourceRecord({"p": 1}, {"saved": 1}, topic, value=value, value_schema=schema, **more) for value in values]


def polling(seen: Seen, *batches: Sequence[SourceRecord]) -> None:
    """Let a task's polls return these batches in turn."""
    left = list(batches)
    seen.on_poll = lambda _task, _records: left.pop(0) if left else []


def read(
    bootstrap_servers: str, registry: FakeRegistry, topic: str, field: MessageField = MessageField.VALUE
) -> list[Any]:
    """Read with confluent-kafka's own deserializer."""
    context = SerializationContext(topic, field)
    records = read_topic(bootstrap_servers, topic)
    with SchemaRegistryClient({"url": registry.address}) as client:
        deserialize = AvroDeserializer(client)
        return [deserialize(record.key if field is MessageField.KEY else record.value, context) for record in records]


def test_keys_values_and_headers_are_read_by_the_deserializer_of_confluent_kafka(
    runner: TaskRunner, bootstrap_servers: str, topic: str, name: str, registry: FakeRegistry
):
    task, seen = runner.task(name, topic, settings(registry, "key", "value", "header") | {"limit": "3"})
    values = [{"id": 7, "name": "ä"}, None, {"id": -1, "name": None}]
    key = {"key": {"id": 1}, "key_schema": "id INT NOT NULL", "headers": [("h", "text")]}
    polling(seen, rows(topic, *values, **key))
    task.start()
    wait_for(lambda: seen.commits)
    stop(task)
    assert read(bootstrap_servers, registry, topic) == values
    assert read(bootstrap_servers, registry, topic, MessageField.KEY) == [{"id": 1}] * 3
    context = SerializationContext(topic, MessageField.VALUE)
    with SchemaRegistryClient({"url": registry.address}) as client:
        deserialize = AvroDeserializer(client)
        for record in read_topic(bootstrap_servers, topic):
            assert deserialize(dict(record.headers)["h"], context)["string"] == "text"
    assert [record.value is None for record in read_topic(bootstrap_servers, topic)] == [False, True, False]


def test_the_schema_id_is_in_a_header_if_configured(
    runner: TaskRunner, bootstrap_servers: str, topic: str, name: str, registry: FakeRegistry
):
    config = settings(registry, value__schema__id__serializer="HeaderSchemaIdSerializer") | {"limit": "3"}
    task, seen = runner.task(name, topic, config)
    polling(seen, rows(topic, {"id": 7, "name": "x"}, None, headers=[("h", "text")]))
    task.start()
    wait_for(lambda: seen.commits)
    stop(task)
    first, second = read_topic(bootstrap_servers, topic)
    (h, (name_, guid)) = first.headers
    assert (h, name_, guid and guid[0], guid and len(guid)) == (("h", b"text"), "__value_schema_id", 1, 17)
    assert first.value == b"\x0e\x02\x02x"
    assert second == Record(0, 1, None, None, (("h", b"text"),), second.timestamp)


def test_a_new_optional_column_passes_while_the_connector_runs(
    runner: TaskRunner, bootstrap_servers: str, topic: str, name: str, registry: FakeRegistry
):
    task, seen = runner.task(name, topic, settings(registry))
    new = {"id": 2, "name": "b", "note": "c"}
    polling(seen, rows(topic, {"id": 1, "name": "a"}), rows(topic, new, schema=WIDE), rows(topic, new, schema=WIDE))
    task.start()
    wait_for(lambda: seen.commits >= 3)
    stop(task)
    assert registry.subjects == {f"{topic}-value": [1, 2]}
    assert len(registry.asked("POST", "/versions")) == 2
    assert read(bootstrap_servers, registry, topic) == [{"id": 1, "name": "a"}, new, new]


def test_a_task_waits_for_its_registry_without_a_transaction_and_continues(
    runner: TaskRunner, bootstrap_servers: str, topic: str, name: str, registry: FakeRegistry
):
    away = threading.Event()
    task, seen = runner.task(name, topic, settings(registry))
    away.set()
    registry.respond = lambda handler: away.is_set() and send(handler, 503, b"", "text/plain")
    polling(seen, rows(topic, {"id": 7, "name": "x"}))
    task.start()
    wait_for(lambda: len(registry.requests) >= 6)
    assert task.state is State.RUNNING
    assert task.transaction.state == "READY"
    assert task.transaction.open is None
    assert read_topic(bootstrap_servers, topic, isolation="read_uncommitted") == []
    away.clear()
    wait_for(lambda: seen.commits)
    stop(task)
    assert read(bootstrap_servers, registry, topic) == [{"id": 7, "name": "x"}]
    assert seen.starts == 1


def refuse_new(registry: FakeRegistry, away: threading.Event) -> None:
    """The registry answers 503 to any schema but the first one while `away` is set."""

    def respond(handler: BaseHTTPRequestHandler) -> bool:
        busy = away.is_set() and handler.command == "POST" and len(registry.schemas) == 1
        return busy and send(handler, 503, b"", "text/plain")

    registry.respond = respond


def test_an_open_transaction_is_committed_before_a_task_waits_for_its_registry(
    runner: TaskRunner, bootstrap_servers: str, topic: str, name: str, registry: FakeRegistry
):
    interval = {"transaction.boundary": "interval", "transaction.boundary.interval.ms": "600000"}
    task, seen = runner.task(name, topic, settings(registry) | interval)
    away = threading.Event()
    away.set()
    refuse_new(registry, away)
    first, second = {"id": 1, "name": "a"}, {"id": 2, "name": "b", "note": "c"}
    polling(seen, rows(topic, first), rows(topic, second, schema=WIDE))
    task.start()
    wait_for(lambda: len(registry.asked("POST", "/versions")) >= 7)
    assert task.state is State.RUNNING
    assert task.transaction.open is None
    assert read(bootstrap_servers, registry, topic) == [first]
    away.clear()
    wait_for(lambda: len(registry.schemas) == 2)
    stop(task)
    assert read(bootstrap_servers, registry, topic) == [first, second]
    assert seen.starts == 1


def test_a_transaction_without_boundary_is_aborted_once_while_a_task_waits(
    runner: TaskRunner, bootstrap_servers: str, topic: str, name: str, registry: FakeRegistry
):
    task, seen = runner.task(name, topic, settings(registry) | {"transaction.boundary": "connector"})
    away = threading.Event()
    away.set()
    refuse_new(registry, away)
    first, second = {"id": 1, "name": "a"}, {"id": 2, "name": "b", "note": "c"}
    polls: dict[int, int] = {}

    def poll(source: SequenceTask, _: object) -> list[SourceRecord]:
        # Each start reads both batches again, and ends its transaction after the second.
        at = polls[seen.starts] = polls.get(seen.starts, 0) + 1
        if at == 1:
            return rows(topic, first)
        if at == 2:
            assert source.context.transaction_context is not None
            source.context.transaction_context.commit_transaction()
            return rows(topic, second, schema=WIDE)
        return []

    seen.on_poll = poll
    task.start()
    wait_for(lambda: len(registry.asked("POST", "/versions")) >= 7)
    assert task.state is State.RUNNING
    assert task.transaction.open is None
    assert seen.starts == 1
    away.clear()
    wait_for(lambda: seen.commits)
    stop(task)
    assert seen.starts == 2
    assert read(bootstrap_servers, registry, topic) == [first, second]


def test_a_task_that_waits_for_its_registry_can_be_paused_and_stopped(
    runner: TaskRunner, topic: str, name: str, registry: FakeRegistry
):
    task, seen = runner.task(name, topic, settings(registry))
    registry.respond = lambda handler: send(handler, 429, b"", "text/plain")
    seen.on_poll = lambda _task, _records: rows(topic, {"id": 7, "name": "x"})
    task.start()
    wait_for(lambda: len(registry.requests) >= 2)
    task.pause()
    wait_for_state(task, State.PAUSED)
    task.resume()
    asked = len(registry.requests)
    wait_for(lambda: len(registry.requests) > asked)
    stop(task)
    assert task.state is State.STOPPED


@pytest.mark.parametrize("status", [401, 403, 404, 409, 422])
def test_a_refusal_by_the_registry_fails_the_task_even_if_errors_are_tolerated(
    runner: TaskRunner, bootstrap_servers: str, topic: str, registry: FakeRegistry, status: int
):
    name = unique("connector")
    task, seen = runner.task(name, topic, settings(registry) | {"errors.tolerance": "all"})
    polling(seen, rows(topic, {"id": 1, "name": "a"}), rows(topic, {"id": 2, "name": "b", "note": "c"}, schema=WIDE))

    def refuse(handler: Any) -> bool:
        body = b'{"error_code": 1, "message": "for this reason"}'
        return (
            handler.command == "POST" and len(registry.schemas) == 1 and send(handler, status, body, "application/json")
        )

    registry.respond = refuse
    _run_until_failed(task)
    message = str(task.error)
    for part in ("for this reason", f"{topic}-value", topic):
        assert part in message
    assert read(bootstrap_servers, registry, topic) == [{"id": 1, "name": "a"}]
    assert seen.commits == 1


def flood(handler: Any) -> bool:
    """An answer of two gigabytes, sent until the client stops reading."""
    handler.send_response(200)
    handler.send_header("Content-Length", str(2 * 1024**3))
    handler.end_headers()
    piece = b" " * 1024 * 1024
    try:
        for _ in range(2 * 1024):
            handler.wfile.write(piece)
    except OSError:
        handler.close_connection = True
    return True


def cut(handler: Any) -> bool:
    """Half of an answer, and then the connection ends, as when a registry is killed."""
    handler.send_response(200)
    handler.send_header("Content-Length", "1000")
    handler.end_headers()
    handler.wfile.write(b'{"id": 2')
    handler.close_connection = True
    return True


HOSTILE: Mapping[str, tuple[Callable[[BaseHTTPRequestHandler], bool], str]] = {
    "HTML": (
        lambda handler: send(handler, 200, b"<html>Log in</html>", "text/html"), "answered text/html where JSON was due"
    ),
    "the id of another schema": (
        lambda handler: send(handler, 200, b'{"id": 1}', "application/json"), "gave the id 1 to two schemas"
    ),
    "a text for an id": (lambda handler: send(handler, 200, b'{"id": "2"}', "application/json"), "with the id '2'"),
    "a redirect": (
        lambda handler: send(handler, 302, b"", "text/html", Location="http://127.0.0.1:1/"), "redirects are not followed"
    ),
    "two gigabytes": (flood, "which no registry does"),
}  # fmt: skip


@pytest.mark.parametrize("kind", HOSTILE)
def test_an_invalid_registry_answer_fails_the_task_despite_tolerance(
    runner: TaskRunner, bootstrap_servers: str, topic: str, registry: FakeRegistry, kind: str
):
    answer, told = HOSTILE[kind]
    task, seen = runner.task(unique("connector"), topic, settings(registry) | {"errors.tolerance": "all"})
    polling(seen, rows(topic, {"id": 1, "name": "a"}), rows(topic, {"id": 2, "name": "b", "note": "c"}, schema=WIDE))
    registry.respond = lambda handler: handler.command == "POST" and len(registry.schemas) == 1 and answer(handler)
    _run_until_failed(task)
    assert told in str(task.error)
    assert read(bootstrap_servers, registry, topic) == [{"id": 1, "name": "a"}]
    assert seen.commits == 1


def test_a_registry_that_ends_in_the_middle_of_an_answer_is_waited_for(
    runner: TaskRunner, bootstrap_servers: str, topic: str, name: str, registry: FakeRegistry
):
    task, seen = runner.task(name, topic, settings(registry))
    first, second = {"id": 1, "name": "a"}, {"id": 2, "name": "b", "note": "c"}
    polling(seen, rows(topic, first), rows(topic, second, schema=WIDE))
    away = threading.Event()
    away.set()
    registry.respond = lambda handler: (
        away.is_set() and handler.command == "POST" and len(registry.schemas) == 1 and cut(handler)
    )
    task.start()
    wait_for(lambda: len(registry.asked("POST", "/versions")) >= 5)
    assert task.state is State.RUNNING
    assert task.transaction.open is None
    assert read(bootstrap_servers, registry, topic) == [first]
    away.clear()
    wait_for(lambda: seen.commits >= 2)
    stop(task)
    assert read(bootstrap_servers, registry, topic) == [first, second]
    assert seen.starts == 1


def _run_until_failed(task: WorkerSourceTask) -> None:
    task.start()
    wait_for_state(task, State.FAILED)
