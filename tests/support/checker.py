"""The independent check: a topic's records, read with confluent-kafka, and whether each is there exactly once."""

from __future__ import annotations

import contextlib
import json
import time
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from tests.support.raw_kafka import RawKafka
from tests.support.topics import unique

_TIMEOUT_SECONDS = 120.0
_MARKERS_TIMEOUT_SECONDS = 20.0
# librdkafka waits until it has as many records as requested, or until this time is over.
_WAIT_SECONDS = 0.01
_PAUSE_SECONDS = 0.1
_WITHOUT_LEADER = (KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.LEADER_NOT_AVAILABLE)


@dataclass(frozen=True)
class Record:
    """A record as a consumer got it. `timestamp` is in milliseconds."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    timestamp: int


def read_topic(
    bootstrap_servers: str,
    topic: str,
    *,
    isolation: str = "read_committed",
    settings: Mapping[str, Any] | None = None,
    timeout: float = _TIMEOUT_SECONDS,
) -> list[Record]:
    """All records of a topic, partition by partition, in the order of their offsets.

    At read_committed this reads up to the last stable offset, and does not wait for records behind an open transaction.
    Records written meanwhile may be missing. On a secured broker, so may records committed just before.
    """
    if settings is None:
        _wait_for_markers(bootstrap_servers)
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": unique("checker"),
            "isolation.level": isolation,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            # Later records are not read, so a broker need not wait for them.
            "fetch.wait.max.ms": 10,
            "auto.offset.reset": "earliest",
            **(settings or {}),
        }
    )
    try:
        return _read_to_end(consumer, topic, timeout)
    finally:
        consumer.close()


def log_ends(bootstrap_servers: str, topic: str) -> tuple[list[int], list[int]]:
    """The end of each partition, and its last stable offset."""
    _wait_for_markers(bootstrap_servers)
    found = []
    for isolation in ("read_uncommitted", "read_committed"):
        consumer = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": "none", "isolation.level": isolation})
        partitions = consumer.list_topics(topic, _TIMEOUT_SECONDS).topics[topic].partitions
        places = [TopicPartition(topic, number) for number in sorted(partitions)]
        found.append([consumer.get_watermark_offsets(place, timeout=_TIMEOUT_SECONDS)[1] for place in places])
        consumer.close()
    return found[0], found[1]


def _wait_for_markers(bootstrap_servers: str) -> None:
    """Wait for the markers of ended transactions, which are written after the coordinator's answer.

    Gives up silently: a partition whose leader is dead gets its marker once it has another leader.
    """
    ending = _ending_transactions(bootstrap_servers)
    deadline = time.monotonic() + _MARKERS_TIMEOUT_SECONDS
    while ending and time.monotonic() < deadline:
        ending &= _ending_transactions(bootstrap_servers)


def _ending_transactions(bootstrap_servers: str) -> set[tuple[str, int]]:
    ending: set[tuple[str, int]] = set()
    for server in bootstrap_servers.split(","):
        with contextlib.suppress(OSError), contextlib.closing(RawKafka(server)) as broker:
            ending |= broker.ending_transactions()
    return ending


def _read_to_end(consumer: Consumer, topic: str, timeout: float) -> list[Record]:
    deadline = time.monotonic() + timeout
    partitions = consumer.list_topics(topic, timeout=timeout).topics[topic].partitions
    # The ends are fixed now, because a topic that is being written to has no final end.
    ends = {partition: _end(consumer, TopicPartition(topic, partition), deadline) for partition in partitions}
    consumer.assign([TopicPartition(topic, partition, 0) for partition in ends])
    records: list[Record] = []
    while ends:
        assert time.monotonic() < deadline, f"partitions {set(ends)} of {topic} not read to their end in {timeout} s"
        for message in consumer.consume(10_000, timeout=_WAIT_SECONDS):
            error = message.error()
            if error is None:
                records.append(_record(message))
            elif error.code() == KafkaError._PARTITION_EOF:
                ends.pop(message.partition(), None)
            else:
                raise AssertionError(f"{topic}: {error}")
        for position in consumer.position([TopicPartition(topic, partition) for partition in ends]):
            if position.offset >= ends[position.partition]:
                del ends[position.partition]
    return sorted(records, key=lambda record: (record.partition, record.offset))


def _end(consumer: Consumer, place: TopicPartition, deadline: float) -> int:
    """The end of a partition. A new partition may not have a leader yet, for which librdkafka does not wait."""
    while True:
        left = deadline - time.monotonic()
        try:
            return consumer.get_watermark_offsets(place, timeout=left)[1]
        except KafkaException as error:
            if error.args[0].code() not in _WITHOUT_LEADER or left <= 0:
                raise
            time.sleep(_PAUSE_SECONDS)


def _record(message: Message) -> Record:
    return Record(
        partition=message.partition(),
        offset=message.offset(),
        key=message.key(),
        value=message.value(),
        headers=tuple(message.headers() or ()),
        timestamp=message.timestamp()[1],
    )


def values(records: Iterable[Record]) -> list[bytes | None]:
    return [record.value for record in records]


def assert_exactly_once(found: Iterable[Hashable], expected: Iterable[Hashable]) -> None:
    """Fail unless each expected value was found as often as it is expected (usually once), and no other value."""
    have, want = Counter(found), Counter(expected)
    lost, doubled = want - have, have - want
    assert not lost, f"{lost.total()} lost of {want.total()}, first {list(lost)[:5]}"
    assert not doubled, f"{doubled.total()} too many besides {want.total()}, first {list(doubled)[:5]}"


def read_offsets(
    bootstrap_servers: str, topic: str, connector: str, *, settings: Mapping[str, Any] | None = None
) -> list[tuple[dict[str, Any], dict[str, Any] | None]]:
    """The committed source offsets of a connector: pairs of source partition and its latest offset."""
    latest: dict[str, tuple[dict[str, Any], dict[str, Any] | None]] = {}
    for record in read_topic(bootstrap_servers, topic, settings=settings):
        assert record.key is not None, "a record of an offsets topic has a key"
        name, partition = json.loads(record.key)
        if name == connector:
            offset = None if record.value is None else json.loads(record.value)
            latest[json.dumps(partition, sort_keys=True)] = (partition, offset)
    return list(latest.values())
