"""The page at /ui shows a topic's last records, decoded as their connector writes them, and no topics of others."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from tests.broker.rest.test_standalone_rest import Standalone, Start, start
from tests.support.fake_registry import FakeRegistry
from tests.support.processes import wait_for
from tests.support.topics import Topics, unique
from tests.support.workers import Answer

__all__ = ["start"]

_SECONDS = 60
_JSON = {"value_converter": "org.apache.kafka.connect.json.JsonConverter", "value_converter_schemas_enable": "false"}
_HOSTILE = "</td><script>alert(1)</script><img src=x onerror=alert(2)>\u202e\x1b[2J"


def _records(worker: Standalone, topic: str, query: str = "") -> Answer:
    return worker.request("GET", f"/ui/api/topics/{topic}/records{query}")


def _shown(worker: Standalone, topic: str, count: int = 1) -> list[dict[str, Any]]:
    """Wait until the page shows this many records; return them."""
    found: list[dict[str, Any]] = wait_for(
        lambda: (
            (answer := _records(worker, topic)).status == 200
            and len(answer.body["records"]) >= count
            and answer.body["records"]
        ),
        what=f"{count} records are shown",
    )
    return found


def _produce(bootstrap_servers: str, topic: str, value: bytes | None, **more: Any) -> None:
    producer = Producer({"bootstrap.servers": bootstrap_servers})
    producer.produce(topic, value, **more)
    assert producer.flush(_SECONDS) == 0


def test_numbers_keep_their_digits_and_hostile_texts_are_text(start: Start, bootstrap_servers: str, topic: str) -> None:
    exact = '{"id": 9007199254740993, "amount": 0.10000000000000000555, "far": 1E+400}'
    with start(**_JSON) as worker:
        _shown(worker, topic)
        _produce(bootstrap_servers, topic, exact.encode(), key=b"k", headers=[("h", b"12"), ("none", None)])
        _produce(bootstrap_servers, topic, None, key=_HOSTILE.encode())
        _produce(bootstrap_servers, topic, b"null", key=b"[" * 100_000)
        deep, tombstone, numbers, line = _shown(worker, topic, 4)
        answer = worker.text(f"/ui/api/topics/{topic}/records")
        limited = _records(worker, topic, "?count=2").body["records"]

    assert line["value"] == '"filed 1"'
    assert (numbers["value"], numbers["key"]) == (exact, '"k"')
    assert numbers["headers"] == [["h", "12"], ["none", None]]
    # Characters that reverse the direction of the text after them are left out.
    assert json.loads(tombstone["key"]) == _HOSTILE
    assert "\u202e" not in tombstone["key"]
    assert tombstone["value"] is None
    assert (deep["value"], deep["cut"], len(deep["key"])) == ("null", ["key"], 8_192)
    assert [record["offset"] for record in limited] == [deep["offset"], tombstone["offset"]]
    assert "\u202e" not in answer


def test_only_topics_that_a_connector_writes_are_shown(
    start: Start, bootstrap_servers: str, topic: str, tmp_path: Path
) -> None:
    other = Topics(bootstrap_servers).create()
    with start(fencepost_files_allowed_paths=str(tmp_path)) as worker:
        _shown(worker, topic)
        group = worker.request("GET", "/ui/api/overview").body["group_id"]
        refused = {
            name: _records(worker, name)
            for name in (other, unique("missing"), "__consumer_offsets", f"{group}-offsets", f"{group}-configs")
        }
        wrong = [
            _records(worker, topic, f"?count={count}").status for count in ("0", "101", "x", "1e3", "-1", "%D9%A1")
        ]
        by_other = _records(worker, topic, "?connector=nobody").status
        body = {
            "name": "writer",
            "config": {"connector.class": "FileStreamSource", "file": str(worker.folder / "lines")},
        }
        body["config"]["topic"] = f"{group}-offsets"
        created = worker.request("POST", "/connectors", body).status
        own = _records(worker, f"{group}-offsets")
        of_site = worker.request("GET", f"/ui/api/topics/{topic}/records", headers={"Origin": "https://evil.example"})

    assert {name: answer.status for name, answer in refused.items()} == dict.fromkeys(refused, 403)
    assert f"is known to have written to {other}" in refused[other].body["message"]
    assert f"fencepost tail {other}" in refused[other].body["message"]
    assert (wrong, by_other, created, own.status, of_site.status) == ([400] * 6, 404, 201, 403, 403)
    assert "internal topic" in own.body["message"]


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_a_record_that_grows_when_decompressed_is_skipped_with_the_reason(
    start: Start, bootstrap_servers: str, codec: str
) -> None:
    size = 64 * 1024 * 1024
    topic = Topics(bootstrap_servers).create(config={"max.message.bytes": "10000000"})
    with start(fencepost_files_allowed_paths="/") as worker:
        _write_lines(worker, topic)
        settings: dict[str, Any] = {"bootstrap.servers": bootstrap_servers, "compression.type": codec}
        producer = Producer({**settings, "message.max.bytes": 2 * size})
        before = _peak_kb(worker)
        for value in (b"older", b"a" * size, b"newer"):
            producer.produce(topic, value)
            assert producer.flush(_SECONDS) == 0
        _shown(worker, topic, 3)
        answer = _records(worker, topic).body
        grown = _peak_kb(worker) - before

    assert [record["value"] for record in answer["records"]] == ['"newer"', '"older"', '"line"']
    (skipped,) = answer["skipped"]
    newer, older, _ = (record["offset"] for record in answer["records"])
    assert (skipped["partition"], older < skipped["first_offset"] == skipped["last_offset"] < newer) == (0, True)
    assert "more than 32 MiB once it is decompressed" in skipped["reason"]
    assert answer["complete"]
    assert grown < 3 * size / 1024, "the record was never in memory, where it took seven times its size"


def _write_lines(worker: Standalone, topic: str) -> None:
    """Let a connector write to the topic, so that the page shows the topic's records."""
    file = worker.folder / "others"
    file.write_text("line\n")
    config = {"connector.class": "FileStreamSource", "file": str(file), "topic": topic}
    assert worker.request("POST", "/connectors", {"name": "other", "config": config}).status == 201
    _shown(worker, topic)


def _peak_kb(worker: Standalone) -> int:
    """The worker process's peak resident memory."""
    status = Path(f"/proc/{worker.process.pid}/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmHWM:")).split()[1])


def test_passwords_in_records_are_hidden(start: Start, topic: str, tmp_path: Path) -> None:
    with start(fencepost_files_allowed_paths=str(tmp_path)) as worker:
        _shown(worker, topic)
        config = {**worker.request("GET", "/connectors/filed").body["config"], "my.password": "correct-horse"}
        assert worker.request("PUT", "/connectors/filed/config", config).status == 200
        with (worker.folder / "lines").open("a") as file:
            file.write("the password is correct-horse\n")
        record = _shown(worker, topic, 2)[0]

    assert record["value"] == '"the password is [hidden]"'


def test_dead_letters_are_shown_beside_what_a_registry_decodes(
    start: Start, bootstrap_servers: str, topic: str, registry: FakeRegistry, tmp_path: Path
) -> None:
    letters = Topics(bootstrap_servers).create()
    avro = {"value_converter": "AvroConverter", "value_converter_schema_registry_url": registry.address}
    with start(**avro, fencepost_files_allowed_paths=str(tmp_path)) as worker:
        config = {
            **worker.request("GET", "/connectors/filed").body["config"],
            "errors.tolerance": "all",
            "errors.deadletterqueue.topic.name": letters,
            "errors.deadletterqueue.topic.replication.factor": "1",
        }
        assert worker.request("PUT", "/connectors/filed/config", config).status == 200
        (record,) = _shown(worker, topic)
        none = _records(worker, letters).body["records"]
        _produce(bootstrap_servers, letters, b"refused", headers=[("__connect.errors.topic", topic.encode())])
        (letter,) = _shown(worker, letters)
        registry.respond = _silent
        (away,) = _shown(worker, topic)

    assert record["value"] == '"filed 1"'
    assert none == []
    assert (letter["value"], letter["headers"]) == ('"refused"', [["__connect.errors.topic", json.dumps(topic)]])
    assert "base64" in away["value"]
    assert "error" in away["value"]


def test_many_looks_at_once_are_all_answered(start: Start, topic: str) -> None:
    with start() as worker:
        _shown(worker, topic)
        with ThreadPoolExecutor(20) as threads:
            answers = list(threads.map(lambda _: _records(worker, topic).status, range(40)))

    assert set(answers) <= {200, 503}
    assert answers.count(200) >= 8


def _silent(handler: Any) -> bool:
    handler.close_connection = True
    return True
