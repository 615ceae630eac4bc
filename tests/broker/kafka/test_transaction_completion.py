"""Writers get a transaction once the previous one's markers are written: before that, brokers delay its first batch."""

from __future__ import annotations

from fencepost.embedded.broker import EmbeddedBroker
from fencepost.kafka.deadline import Deadline
from fencepost.kafka.producer.transaction import BEING_COMPLETED
from fencepost.kafka.producer.transaction_coordinator import TransactionCoordinator
from fencepost.kafka.transport.cluster import Cluster
from tests.support.topics import Topics, unique
from tests.support.writing import open_producer, producer_config, write_in_transaction


def test_a_transaction_is_lent_when_the_last_one_is_complete(broker: EmbeddedBroker) -> None:
    config = producer_config(broker.bootstrap_servers)
    topic = Topics(broker.bootstrap_servers).create(partitions=8)
    states = set()

    with open_producer(config, unique("task")) as producer:
        bystander = TransactionCoordinator(Cluster.of(config.client), producer.transactional_id)
        for _ in range(50):
            producer.begin_transaction()
            with producer.lent():
                states.add(bystander.describe(Deadline.after(60_000)).state)
            for partition in range(8):
                write_in_transaction(producer, topic, [b"v"], partition=partition)
            producer.commit_transaction()
        bystander.close()

    assert states.isdisjoint(BEING_COMPLETED)
