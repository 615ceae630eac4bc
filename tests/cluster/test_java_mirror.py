"""Kafka's MirrorSourceConnector, unmodified: it copies topics exactly once, and its offset syncs are right."""

from __future__ import annotations

import random
import struct
from pathlib import Path
from typing import NamedTuple

import pytest
from confluent_kafka import Producer

from tests.support.checker import Record, assert_exactly_once, read_topic
from tests.support.java_plugins import MIRROR
from tests.support.java_runs import JavaRuns, kill_jvms
from tests.support.processes import wait_for
from tests.support.topics import Topics, unique

PARTITIONS = 3
BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"


class Sync(NamedTuple):
    """A record of MirrorMaker's topic of offset syncs."""

    topic: str
    partition: int
    upstream: int
    downstream: int


def sync(record: Record) -> Sync:
    """Decode it: an int16 length, the topic and an int32 as the key, two int64 as the value."""
    assert record.key is not None
    assert record.value is not None
    (size,) = struct.unpack_from(">h", record.key)
    (partition,) = struct.unpack_from(">i", record.key, 2 + size)
    return Sync(record.key[2 : 2 + size].decode(), partition, *struct.unpack(">qq", record.value))


def content(record: Record) -> tuple[object, ...]:
    return record.partition, record.key, record.value, record.headers, record.timestamp


@pytest.fixture
def source(topics: Topics) -> str:
    return topics.create(partitions=PARTITIONS)


@pytest.fixture
def runs(tmp_path: Path, bootstrap_servers: str, source: str) -> JavaRuns:
    return JavaRuns(
        tmp_path,
        bootstrap_servers,
        ["mirror"],
        {
            "name": "mirror",
            "connector.class": MIRROR,
            "tasks.max": "2",
            # One broker is both the source and the target cluster.
            "source.cluster.alias": unique("east"),
            "target.cluster.alias": unique("west"),
            "source.cluster.bootstrap.servers": bootstrap_servers,
            "target.cluster.bootstrap.servers": bootstrap_servers,
            "topics": source,
            "source.consumer.isolation.level": "read_committed",
            "consumer.isolation.level": "read_committed",
            "replication.factor": "1",
            "offset-syncs.topic.replication.factor": "1",
            "sync.topic.acls.enabled": "false",
            **{f"{part}.converter": BYTES for part in ("key", "value", "header")},
        },
    )


def produce(bootstrap_servers: str, topic: str, numbers: range) -> None:
    producer = Producer({"bootstrap.servers": bootstrap_servers, "log_level": 0})
    for number in numbers:
        value = None if number % 10 == 0 else b"v%d" % number
        producer.produce(
            topic, value, key=b"k%d" % number, partition=number % PARTITIONS, headers={"n": b"%d" % number}
        )
    producer.flush()


def test_topics_are_mirrored_exactly_once_with_true_offset_syncs(runs: JavaRuns, bootstrap_servers: str, source: str):
    copy = f"{runs.config['source.cluster.alias']}.{source}"
    syncs_topic = f"mm2-offset-syncs.{runs.config['target.cluster.alias']}.internal"
    count = 0

    def copied() -> int:
        try:
            return len(read_topic(bootstrap_servers, copy))
        except KeyError:
            return 0

    def produce_and_wait() -> None:
        nonlocal count
        produce(bootstrap_servers, source, range(count, count + 300))
        count += 300
        wait_for(lambda: copied() > count - 300, what="progress")

    with runs.running() as worker:
        produce_and_wait()
        kill_jvms(worker.pid)
        produce_and_wait()
        worker.kill()
    with runs.running(transaction_boundary="interval", transaction_boundary_interval_ms="50"):
        produce_and_wait()
        wait_for(lambda: copied() >= count, what="all records")
        upstream, downstream = read_topic(bootstrap_servers, source), read_topic(bootstrap_servers, copy)
        assert_exactly_once(map(content, downstream), map(content, upstream))
        found = {(one.partition, one.offset): content(one) for one in downstream}
        # A producer of the connector's own sends an offset sync after the commit.
        wait_for(
            lambda: (
                {one.partition for one in map(sync, read_topic(bootstrap_servers, syncs_topic))}
                == set(range(PARTITIONS))
            ),
            what="offset syncs of each partition",
        )
    syncs = [sync(record) for record in read_topic(bootstrap_servers, syncs_topic)]
    sent = {(one.partition, one.offset): content(one) for one in upstream}
    for one in random.sample(syncs, len(syncs)):
        assert found[one.partition, one.downstream] == sent[one.partition, one.upstream], one
