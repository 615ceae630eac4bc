"""The last records of a topic that confluent-kafka wrote."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from fencepost.kafka.config.client_config import ClientConfig
from fencepost.kafka.consumer.last_records import LastRecords, ReadLimits, last_records
from fencepost.kafka.consumer.partition_requests import EARLIEST, LATEST
from fencepost.kafka.consumer.read_to_end import TopicReader
from fencepost.kafka.deadline import Deadline
from tests.support.confluent import transactional_producer
from tests.support.processes import wait_for
from tests.support.topics import Topics, unique

_SECONDS = 60
_MINUTE_MS = 60_000

Read = Callable[..., LastRecords]


@pytest.fixture
def topic(bootstrap_servers: str) -> str:
    return Topics(bootstrap_servers).create(partitions=2)


@pytest.fixture
def producer(bootstrap_servers: str) -> Producer:
    return transactional_producer(bootstrap_servers, unique("last"))


@pytest.fixture
def read(bootstrap_servers: str, topic: str) -> Iterator[Read]:
    """Reads the last records; the first read goes back 2 offsets."""
    with TopicReader(ClientConfig(bootstrap_servers=(bootstrap_servers,)), topic) as reader:

        def run(count: int, held_bytes: int = 1_000_000, deadline: Deadline | None = None) -> LastRecords:
            # A commit is answered before its transaction markers are written.
            wait_for(lambda: _ends(bootstrap_servers, topic, "read_committed") == _ends(bootstrap_servers, topic))
            ends, first = reader.committed_offsets(LATEST), reader.committed_offsets(EARLIEST)
            limits = ReadLimits(held_bytes, deadline or Deadline.after(_MINUTE_MS))
            return last_records(reader, count, first, ends, poll=reader.poll, span=2, limits=limits)

        yield run


def _ends(bootstrap_servers: str, topic: str, isolation: str = "read_uncommitted") -> list[int]:
    settings = {"bootstrap.servers": bootstrap_servers, "group.id": "ends", "isolation.level": isolation}
    with closing(Consumer(settings)) as consumer:
        return [consumer.get_watermark_offsets(TopicPartition(topic, number), _SECONDS)[1] for number in range(2)]


def _write(producer: Producer, topic: str, values: list[bytes], *, commit: bool = True, partition: int = 0) -> None:
    producer.begin_transaction()
    for value in values:
        producer.produce(topic, value, partition=partition)
    assert producer.flush(_SECONDS) == 0
    (producer.commit_transaction if commit else producer.abort_transaction)(_SECONDS)


def _values(found: LastRecords) -> list[bytes | None]:
    return [record.value for record in found.records]


def test_the_last_records_of_all_partitions_are_found(read: Read, producer: Producer, topic: str) -> None:
    _write(producer, topic, [b"%d" % number for number in range(20)])
    _write(producer, topic, [b"other"], partition=1)

    assert _values(read(3)) == [b"18", b"19", b"other"]
    assert len(read(100).records) == 21
    assert read(100).complete


def test_aborted_records_and_markers_are_looked_past(read: Read, producer: Producer, topic: str) -> None:
    _write(producer, topic, [b"kept"])
    for _ in range(10):
        _write(producer, topic, [b"aborted"] * 5, commit=False)

    assert _values(read(1)) == [b"kept"]


def test_a_limit_of_bytes_leaves_the_newest_records(read: Read, producer: Producer, topic: str) -> None:
    _write(producer, topic, [bytes([number]) * 1_000 for number in range(50)])

    found = read(50, held_bytes=20_000)

    assert not found.complete
    assert 1 <= len(found.records) <= 20
    assert found.records[-1].value == bytes([49]) * 1_000


def test_a_record_beyond_the_limit_is_left_out(read: Read, producer: Producer, topic: str) -> None:
    _write(producer, topic, [b"older", b"x" * 30_000, b"newer"])
    _write(producer, topic, [b"other"], partition=1)

    found = read(3, held_bytes=20_000)

    assert not found.complete
    assert _values(found) == [b"older", b"newer", b"other"]


def test_a_deadline_ends_the_search_early(read: Read, producer: Producer, topic: str) -> None:
    _write(producer, topic, [b"one"])

    assert read(1, deadline=Deadline.after(0)) == LastRecords([], complete=False)


def test_a_topic_without_records_has_none(read: Read) -> None:
    assert read(5) == LastRecords([], complete=True)
