"""Another client's writes to topics, and changes of topics."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator

from confluent_kafka import Producer

from tests.hostile.brokers import Kafka
from tests.hostile.programs import unique

_LARGE = b"x" * 900_000
_DEEP = b"[" * 50_000

ANY_KEYS: tuple[bytes | None, ...] = (
    *(None, b"", b"\xff\xfe", b"null", b"5", b"NaN", b"[]", b"{}", b'""', b"[null]", b"[null,null]", b'["stranger"]'),
    *(b'["stranger",null]', b'["stranger",{"task":"0"},1]', b'[5,{"task":"0"}]', b'["stranger",5]', b'{"a":1}', _DEEP),
    *(b'["stranger",{"task":NaN}]', b'["stranger",{"\\ud800":1}]', b'[["stranger"],{}]', b" ", b"\x00"),
)

CONFIG_KEYS = tuple(
    key.encode()
    for key in (
        *("connector-", "connector-stranger", "task-", "task-stranger", "task-stranger-", "task-stranger-x"),
        *("task-stranger--1", "task-stranger-99999999999999999999", "task-stranger-0", "commit-", "commit-stranger"),
        *("target-state-", "target-state-stranger", "tasks-fencing-", "tasks-fencing-stranger", "session-key"),
        *("restart-connector-", "restart-connector-stranger", "logger-cluster-", "logger-cluster-root", "unknown"),
        "connector-\ud7ff/../%00",
    )
)

STATUS_KEYS = tuple(
    key.encode()
    for key in (
        *("status-connector-", "status-connector-stranger", "status-task-", "status-task-stranger", "status-topic-"),
        *("status-task-stranger-x", "status-task-stranger-99999999999999999999", "status-topic-x", "status-topic-:"),
        *("status-topic-x:connector-stranger", "status-task-stranger-0", "status-", "unknown"),
    )
)

VALUES: tuple[bytes | None, ...] = (
    *(None, b"", b"\xff\xfe", b"null", b"5", b"NaN", b"[]", b"{}", b'""', b"{", b"[1,", _DEEP, _LARGE),
    *(b'{"properties":5}', b'{"properties":null}', b'{"properties":{"a":5}}', b'{"properties":{"name":null}}'),
    *(b'{"tasks":-1}', b'{"tasks":1e400}', b'{"tasks":"two"}', b'{"tasks":99999999999999999999}', b'{"tasks":null}'),
    *(b'{"state":"DANCING"}', b'{"state":null}', b'{"state":5}', b'{"state":"RUNNING","state.v2":[]}'),
    *(b'{"state":"RUNNING","worker_id":5,"generation":"x"}', b'{"state":"FAILED","worker_id":"w","generation":1e400}'),
    *(b'{"key":"!","algorithm":"none","creation-timestamp":"x"}', b'{"key":5}', b'{"level":"LOUD","modified":"x"}'),
    *(b'{"include-tasks":"x","only-failed":5}', b'{"topic":{"name":5}}', b'{"\\ud800":"\\ud800"}'),
)

# Values that replace a good connector's own records: none of them is valid.
BROKEN = (b"", b"\xff\xfe", b"5", b"[]", b"{", b'"text"', _DEEP)


def records(keys: tuple[bytes | None, ...]) -> Iterator[tuple[bytes | None, bytes | None]]:
    """Each key with each value. Records without a key are left out, because compacted topics refuse them."""
    large = itertools.count()
    for key, value in itertools.product(keys, VALUES):
        if key is not None and (value is not _LARGE or next(large) == 0):
            yield key, value


def write_nonsense(kafka: Kafka, topics: dict[str, str], *, connector: str, tasks: int) -> None:
    """Write invalid records to the worker's topics (`offsets`, `configs`, `status`), some with valid keys."""
    kafka.send(topics["configs"], *records(ANY_KEYS + CONFIG_KEYS))
    kafka.send(topics["status"], *records(ANY_KEYS + STATUS_KEYS))
    kafka.send(topics["offsets"], *records(ANY_KEYS))
    own = [f"task-{connector}-{number}" for number in range(tasks)]
    config_keys = [f"connector-{connector}", f"commit-{connector}", f"target-state-{connector}", *own]
    status_keys = [f"status-connector-{connector}", *(f"status-{key}" for key in own)]
    offset_keys = [json.dumps([connector, {"task": str(number)}], separators=(",", ":")) for number in range(tasks)]
    for topic, keys in ((topics["configs"], config_keys), (topics["status"], status_keys)):
        kafka.send(topic, *((key.encode(), value) for key in keys for value in BROKEN))
    for partition in range(kafka.partitions(topics["offsets"])):
        broken = ((key.encode(), value) for key in offset_keys for value in BROKEN)
        kafka.send(topics["offsets"], *broken, partition=partition)


def write_aborted_lies(kafka: Kafka, offsets_topic: str, *, connector: str, tasks: int) -> None:
    """Write well-formed offsets of a connector in a transaction that is aborted, so they must have no effect."""
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "transactional.id": unique("stranger")})
    producer.init_transactions(30)
    producer.begin_transaction()
    for number in range(tasks):
        key = json.dumps([connector, {"task": str(number)}], separators=(",", ":"))
        for partition in range(kafka.partitions(offsets_topic)):
            producer.produce(offsets_topic, b'{"seq":1}', key.encode(), partition=partition)
    producer.flush(30)
    producer.abort_transaction(30)
