"""Reading a topic to its end: no committed record is missed, no aborted record is returned."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Producer

from fencepost.api.errors import IllegalStateError
from fencepost.embedded.broker import EmbeddedBroker
from fencepost.kafka.config.client_config import ClientConfig
from fencepost.kafka.consumer.read_to_end import ConsumedRecord, TopicReader, TopicReadTimeoutError, read_to_end
from fencepost.kafka.errors import BrokerUnavailableError, TopicNotFoundError
from tests.support.checker import read_topic
from tests.support.confluent import transactional_producer
from tests.support.fault_proxy import FaultProxy
from tests.support.processes import wait_for
from tests.support.topics import Topics, unique

_MILLISECONDS_OF_A_WAIT = 1_000
_JOIN_SECONDS = 120


@pytest.fixture
def config(bootstrap_servers: str) -> ClientConfig:
    return ClientConfig(bootstrap_servers=(bootstrap_servers,))


@pytest.fixture
def transactional(bootstrap_servers: str) -> Iterator[Callable[..., Producer]]:
    """Makes initialized transactional producers."""

    def make(name: str = "", **settings: Any) -> Producer:
        return transactional_producer(bootstrap_servers, name or unique("writer"), **settings)

    return make


def _send(producer: Producer, topic: str, values: list[bytes], partition: int = 0) -> None:
    for value in values:
        producer.produce(topic, value, partition=partition)
    assert producer.flush(_JOIN_SECONDS) == 0


def _transaction(producer: Producer, topic: str, values: list[bytes], *, commit: bool, partition: int = 0) -> None:
    producer.begin_transaction()
    _send(producer, topic, values, partition)
    if commit:
        producer.commit_transaction(_JOIN_SECONDS)
    else:
        producer.abort_transaction(_JOIN_SECONDS)


def _values(records: list[ConsumedRecord]) -> list[bytes | None]:
    return [record.value for record in records]


def test_an_empty_topic_is_at_its_end(config: ClientConfig, topic: str):
    assert list(read_to_end(config, topic)) == []


def test_records_come_with_all_that_they_hold(config: ClientConfig, bootstrap_servers: str, topic: str):
    producer = Producer({"bootstrap.servers": bootstrap_servers})
    producer.produce(topic, b"v", key=b"k", timestamp=1234, headers=[("h", b"1"), ("n", None)])
    producer.produce(topic, None, key=b"gone")
    producer.produce(topic, b"", key=None)
    assert producer.flush(_JOIN_SECONDS) == 0
    first, second, third = read_to_end(config, topic)
    assert first == ConsumedRecord(topic, 0, 0, 1234, b"k", b"v", [("h", b"1"), ("n", None)])
    assert (second.key, second.value) == (b"gone", None)
    assert (third.key, third.value, third.offset) == (None, b"", 2)


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_every_codec_is_read(config: ClientConfig, bootstrap_servers: str, topic: str, codec: str):
    producer = Producer({"bootstrap.servers": bootstrap_servers, "compression.type": codec, "linger.ms": 50})
    values = [b"value %d " % number * 20 for number in range(500)]
    _send(producer, topic, values)
    assert _values(list(read_to_end(config, topic))) == values


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_batches_that_the_broker_compressed_are_read(
    config: ClientConfig, bootstrap_servers: str, topics: Topics, codec: str
):
    """The broker's Java libraries frame compressed blocks differently from C clients."""
    topic = topics.create(config={"compression.type": codec})
    values = [b"value %d " % number * 20 for number in range(5000)]
    _send(Producer({"bootstrap.servers": bootstrap_servers, "linger.ms": 50}), topic, values)
    assert _values(list(read_to_end(config, topic))) == values


def test_all_partitions_are_read_in_their_order(config: ClientConfig, bootstrap_servers: str, topics: Topics):
    topic = topics.create(partitions=5)
    producer = Producer({"bootstrap.servers": bootstrap_servers})
    for partition in range(5):
        _send(producer, topic, [b"%d-%d" % (partition, number) for number in range(200)], partition)
    records = list(read_to_end(config, topic))
    for partition in range(5):
        of_partition = [record for record in records if record.partition == partition]
        assert _values(of_partition) == [b"%d-%d" % (partition, number) for number in range(200)]
        assert [record.offset for record in of_partition] == list(range(200))


@pytest.mark.parametrize("codec", ["none", "lz4"])
def test_aborted_records_never_show(
    config: ClientConfig, transactional: Callable[..., Producer], topic: str, codec: str
):
    """Two producers take turns, so that an aborted transaction ends between the other producer's batches."""
    one, other = transactional(compression_type=codec), transactional()
    expected = []
    for turn in range(6):
        one.begin_transaction()
        other.begin_transaction()
        for part in range(3):
            _send(one, topic, [b"one %d %d" % (turn, part)] * 10)
            _send(other, topic, [b"other %d %d" % (turn, part)] * 10)
        one.abort_transaction(_JOIN_SECONDS) if turn % 2 else one.commit_transaction(_JOIN_SECONDS)
        _transaction(one, topic, [b"between %d" % turn], commit=True)
        other.abort_transaction(_JOIN_SECONDS) if turn % 3 else other.commit_transaction(_JOIN_SECONDS)
        expected += [b"one %d %d" % (turn, part) for part in range(3) for _ in range(10) if not turn % 2]
        expected += [b"other %d %d" % (turn, part) for part in range(3) for _ in range(10) if not turn % 3]
        expected.append(b"between %d" % turn)
    found = list(read_to_end(config, topic))
    assert sorted(_values(found)) == sorted(expected)


def test_an_independent_consumer_reads_the_same(
    config: ClientConfig, bootstrap_servers: str, transactional: Callable[..., Producer], topics: Topics
):
    topic = topics.create(partitions=2)
    producer = transactional()
    for number in range(20):
        values = [b"%d-%d" % (number, record) for record in range(30)]
        _transaction(producer, topic, values, commit=number % 3 != 0, partition=number % 2)
    found = sorted((record.partition, record.offset, record.value) for record in read_to_end(config, topic))
    seen = [(record.partition, record.offset, record.value) for record in read_topic(bootstrap_servers, topic)]
    assert found == seen
    assert len(found) == 13 * 30


def test_the_position_passes_markers_and_aborted_records_at_the_logs_end(
    config: ClientConfig, transactional: Callable[..., Producer], topic: str
):
    producer = transactional()
    with TopicReader(config, topic) as reader:
        _transaction(producer, topic, [b"a"], commit=True)
        assert _values(list(reader.read_to_end())) == [b"a"]
        assert reader.positions == {0: 2}
        _transaction(producer, topic, [b"b", b"c"], commit=False)
        assert list(reader.read_to_end()) == []
        assert reader.positions == {0: 5}
        assert list(reader.read_to_end()) == []


def test_a_second_read_begins_where_the_first_ended(
    config: ClientConfig, transactional: Callable[..., Producer], topics: Topics
):
    topic = topics.create(partitions=2)
    producer = transactional()
    with TopicReader(config, topic) as reader:
        for number in range(4):
            _transaction(producer, topic, [b"%d" % number], commit=True, partition=number % 2)
            assert _values(list(reader.read_to_end())) == [b"%d" % number]


def test_a_read_sees_records_in_new_partitions(config: ClientConfig, bootstrap_servers: str, topics: Topics):
    topic = topics.create()
    with TopicReader(config, topic) as reader:
        _send(Producer({"bootstrap.servers": bootstrap_servers}), topic, [b"a"])
        assert _values(list(reader.read_to_end())) == [b"a"]
        topics.grow(topic, 3)
        _send(Producer({"bootstrap.servers": bootstrap_servers}), topic, [b"b"], partition=2)
        assert _values(list(reader.read_to_end())) == [b"b"]


def test_a_recreated_topic_is_read_from_its_beginning(config: ClientConfig, bootstrap_servers: str, topics: Topics):
    """The topic id shows that the topic is a new one, though it has more records than the old one had when read."""
    topic = topics.create(partitions=2)
    with TopicReader(config, topic) as reader:
        _send(Producer({"bootstrap.servers": bootstrap_servers}), topic, [b"a"])
        assert _values(list(reader.read_to_end())) == [b"a"]
        topics.delete(topic)
        wait_for(lambda: topics.partitions(topic) is None, what="the topic is gone")
        topics.create(topic)
        _send(Producer({"bootstrap.servers": bootstrap_servers}), topic, [b"b", b"c"])
        assert _values(list(reader.read_to_end())) == [b"b", b"c"]
        assert reader.positions == {0: 2}


def test_a_read_waits_for_an_open_transaction_and_sees_its_commit(
    config: ClientConfig, transactional: Callable[..., Producer], topic: str
):
    producer = transactional()
    producer.begin_transaction()
    _send(producer, topic, [b"held"])
    found: list[ConsumedRecord] = []
    with TopicReader(config, topic) as reader:
        waiting = threading.Thread(target=lambda: found.extend(reader.read_to_end()))
        waiting.start()
        waiting.join(_MILLISECONDS_OF_A_WAIT / 1000)
        assert waiting.is_alive(), "the read must not end while the transaction is open"
        producer.commit_transaction(_JOIN_SECONDS)
        waiting.join(_JOIN_SECONDS)
    assert _values(found) == [b"held"]


def test_a_read_waits_for_an_open_transaction_that_is_aborted(
    config: ClientConfig, transactional: Callable[..., Producer], topic: str
):
    producer = transactional()
    producer.begin_transaction()
    _send(producer, topic, [b"held"])
    found: list[ConsumedRecord] = []
    with TopicReader(config, topic) as reader:
        waiting = threading.Thread(target=lambda: found.extend(reader.read_to_end()))
        waiting.start()
        producer.abort_transaction(_JOIN_SECONDS)
        waiting.join(_JOIN_SECONDS)
        assert not waiting.is_alive()
        assert reader.positions == {0: 2}
    assert found == []


def test_a_transaction_that_stays_open_is_named(
    config: ClientConfig, transactional: Callable[..., Producer], topic: str
):
    name = unique("stuck")
    producer = transactional(name)
    producer.begin_transaction()
    _send(producer, topic, [b"held"])
    with TopicReader(config, topic) as reader:
        with pytest.raises(TopicReadTimeoutError) as caught:
            list(reader.read_to_end(_MILLISECONDS_OF_A_WAIT))
        told = str(caught.value)
        assert f"{topic}-0" in told
        assert f"transactional id {name}" in told
        assert "transaction.timeout.ms" in told
        assert (caught.value.topic, caught.value.partition) == (topic, 0)
        producer.commit_transaction(_JOIN_SECONDS)
        assert _values(list(reader.read_to_end())) == [b"held"]


def test_a_transaction_whose_producer_died_is_waited_for_until_it_expires(
    config: ClientConfig, transactional: Callable[..., Producer], topic: str
):
    producer = transactional(transaction_timeout_ms=1_000)
    producer.begin_transaction()
    _send(producer, topic, [b"abandoned"])
    with TopicReader(config, topic) as reader:
        assert list(reader.read_to_end()) == []
        assert reader.positions == {0: 2}


def test_transactions_of_a_version_1_broker_are_read(tv1_broker: EmbeddedBroker):
    servers = tv1_broker.bootstrap_servers
    topic = Topics(servers).create()
    producer = transactional_producer(servers, unique("writer"))
    for number in range(4):
        _transaction(producer, topic, [b"%d" % number], commit=number % 2 == 0)
    found = list(read_to_end(ClientConfig(bootstrap_servers=(servers,)), topic))
    assert _values(found) == [b"0", b"2"]


def test_an_iteration_that_is_left_early_is_taken_up_again(config: ClientConfig, bootstrap_servers: str, topic: str):
    _send(Producer({"bootstrap.servers": bootstrap_servers}), topic, [b"1", b"2"])
    with TopicReader(config, topic) as reader:
        assert next(reader.read_to_end()).value == b"1"
        assert _values(list(reader.read_to_end())) == [b"1", b"2"]


def test_records_that_were_deleted_are_passed(config: ClientConfig, bootstrap_servers: str, topics: Topics, topic: str):
    producer = Producer({"bootstrap.servers": bootstrap_servers})
    with TopicReader(config, topic) as reader:
        _send(producer, topic, [b"1"])
        assert _values(list(reader.read_to_end())) == [b"1"]
        _send(producer, topic, [b"2", b"3", b"4"])
        topics.truncate(topic, 0, 3)
        assert _values(list(reader.read_to_end())) == [b"4"]


def test_a_topic_that_was_created_again_is_read_from_its_beginning(
    config: ClientConfig, bootstrap_servers: str, topics: Topics, topic: str
):
    with TopicReader(config, topic) as reader:
        _send(Producer({"bootstrap.servers": bootstrap_servers}), topic, [b"1", b"2"])
        assert len(list(reader.read_to_end())) == 2
        topics.delete(topic)
        topics.create(topic)
        _send(Producer({"bootstrap.servers": bootstrap_servers}), topic, [b"again"])
        assert _values(list(reader.read_to_end())) == [b"again"]


@pytest.mark.usefixtures("brief_learning")
def test_a_missing_topic_is_named(config: ClientConfig):
    with pytest.raises(TopicNotFoundError, match="no-such-topic"):
        list(read_to_end(config, "no-such-topic"))


def test_an_unreachable_broker_is_named():
    config = ClientConfig(bootstrap_servers=("127.0.0.1:1",), request_timeout_ms=500)
    with pytest.raises(BrokerUnavailableError, match=r"bootstrap\.servers=127\.0\.0\.1:1"):
        list(read_to_end(config, "topic", timeout_ms=1_000))


def test_closing_ends_a_read_that_waits(config: ClientConfig, transactional: Callable[..., Producer], topic: str):
    producer = transactional()
    producer.begin_transaction()
    _send(producer, topic, [b"held"])
    reader = TopicReader(config, topic)
    ended: list[Exception] = []

    def read() -> None:
        try:
            list(reader.read_to_end())
        except IllegalStateError as error:
            ended.append(error)

    waiting = threading.Thread(target=read)
    waiting.start()
    waiting.join(_MILLISECONDS_OF_A_WAIT / 1000)
    assert waiting.is_alive()
    reader.close()
    waiting.join(_JOIN_SECONDS)
    assert len(ended) == 1
    producer.abort_transaction(_JOIN_SECONDS)


def test_a_lost_connection_is_reopened(fault_proxy: FaultProxy, bootstrap_servers: str, topic: str):
    with TopicReader(ClientConfig(bootstrap_servers=(fault_proxy.address,)), topic) as reader:
        assert list(reader.read_to_end()) == []
        _send(Producer({"bootstrap.servers": bootstrap_servers}), topic, [b"1"])
        fault_proxy.reset()
        assert _values(list(reader.read_to_end())) == [b"1"]


def test_a_moved_leader_is_followed(three_node_broker: EmbeddedBroker):
    servers = three_node_broker.bootstrap_servers
    topic = Topics(servers).create(partitions=6, replication=3)
    producer = Producer({"bootstrap.servers": servers})
    for partition in range(6):
        _send(producer, topic, [b"before"], partition)
    with TopicReader(ClientConfig(bootstrap_servers=tuple(servers.split(","))), topic) as reader:
        assert len(list(reader.read_to_end())) == 6
        three_node_broker.nodes[2].stop()
        try:
            for partition in range(6):
                _send(producer, topic, [b"after"], partition)
            assert _values(list(reader.read_to_end())) == [b"after"] * 6
        finally:
            three_node_broker.nodes[2].start()
