"""A cluster of three broker nodes, as `fencepost broker --nodes 3` starts it."""

from __future__ import annotations

import pytest
from confluent_kafka import Producer

from fencepost.embedded.broker import EmbeddedBroker
from fencepost.embedded.ports import is_listening
from fencepost.kafka.errors import BrokerUnavailableError
from tests.support.checker import read_topic, values
from tests.support.topics import Topics, unique
from tests.support.writing import open_producer, producer_config, write_in_transaction


def test_records_are_on_all_nodes_and_a_killed_one_is_not_missed(three_node_broker: EmbeddedBroker) -> None:
    servers = three_node_broker.bootstrap_servers
    topic = Topics(servers).create(partitions=3)
    producer = Producer({"bootstrap.servers": servers, "acks": "all", "log_level": 0})
    for partition in range(3):
        producer.produce(topic, b"before", partition=partition)
    assert producer.flush(60) == 0
    node = three_node_broker.nodes[1]

    node.kill()
    assert not is_listening(node.place.ports["CLIENT"])
    try:
        for partition in range(3):
            producer.produce(topic, b"after", partition=partition)
        assert producer.flush(60) == 0
    finally:
        node.start()

    assert values(read_topic(servers, topic)) == [b"before", b"after"] * 3


def test_a_partition_without_enough_replicas_is_reported_when_it_holds_up_the_next(
    three_node_broker: EmbeddedBroker,
) -> None:
    """An abort marker needs min.insync.replicas, too. No further transaction is sent before it is written."""
    servers = three_node_broker.bootstrap_servers
    topic = Topics(servers).create(config={"min.insync.replicas": "3"})
    node = three_node_broker.nodes[1]

    with open_producer(producer_config(servers, max_block_ms=20_000), unique("task")) as producer:
        producer.begin_transaction()
        write_in_transaction(producer, topic, [b"v"])
        node.kill()
        try:
            producer.abort_transaction()
            producer.begin_transaction()
            with pytest.raises(BrokerUnavailableError, match=r"CONCURRENT_TRANSACTIONS.* min\.insync\.replicas"):
                write_in_transaction(producer, topic, [b"refused"])
            producer.abort_transaction()
        finally:
            node.start()
        producer.begin_transaction()
        write_in_transaction(producer, topic, [b"v"])
        producer.commit_transaction()
    assert values(read_topic(servers, topic)) == [b"v"]
