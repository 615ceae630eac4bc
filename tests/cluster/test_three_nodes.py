"""A broker of three nodes, as `fencepost broker --nodes 3` starts it."""

from __future__ import annotations

from confluent_kafka import Producer

from fencepost.embedded.broker import EmbeddedBroker
from fencepost.embedded.ports import is_listening
from tests.support.checker import read_topic, values
from tests.support.topics import Topics


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
