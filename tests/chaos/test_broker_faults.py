"""Transactions while brokers restart, change their addresses, do not answer, or are down."""

from __future__ import annotations

import threading
from contextlib import suppress

import pytest

from fencepost.embedded.broker import EmbeddedBroker
from fencepost.kafka.errors import (
    BrokerUnavailableError,
)
from fencepost.kafka.producer.transaction import TransactionState
from fencepost.kafka.producer.transactional import TransactionalProducer
from tests.chaos.test_writer_faults import BATCH_SIZE, VALUES
from tests.support.checker import assert_exactly_once, read_topic, values
from tests.support.fault_proxy import FaultProxy, Link
from tests.support.processes import wait_for
from tests.support.topics import Topics, unique
from tests.support.writing import (
    numbered,
    open_producer,
    producer_config,
    write_in_transaction,
)


def test_a_transaction_survives_a_restart_of_the_broker(tmp_path_factory: pytest.TempPathFactory) -> None:
    with EmbeddedBroker(tmp_path_factory.mktemp("restarted")) as broker:
        topic = Topics(broker.bootstrap_servers).create()
        with open_producer(producer_config(broker.bootstrap_servers), unique("task")) as producer:
            producer.begin_transaction()
            write_in_transaction(producer, topic, VALUES[:3_000])
            # The broker is stopped in this thread: a check of its process could miss the moment between its end and its
            # start.
            broker.nodes[0].stop()
            restarting = threading.Thread(target=broker.nodes[0].start)
            restarting.start()
            write_in_transaction(producer, topic, VALUES[3_000:])
            producer.commit_transaction()
            restarting.join()

        assert values(read_topic(broker.bootstrap_servers, topic)) == VALUES


def test_moves_of_leaders_and_coordinators_lose_and_duplicate_nothing(three_node_broker: EmbeddedBroker) -> None:
    servers = three_node_broker.bootstrap_servers
    # Each broker leads one partition.
    topic = Topics(servers).create(partitions=3, replication=3)
    restarted = threading.Event()
    written: list[bytes] = []

    def kill_and_start(port: int) -> None:
        (node,) = (node for node in three_node_broker.nodes if port in node.place.ports.values())
        node.kill()
        node.start()
        restarted.set()

    with open_producer(producer_config(servers, batch_size=BATCH_SIZE), unique("task")) as producer:
        address = producer._coordinator._address
        assert address is not None
        restarting = threading.Thread(target=kill_and_start, args=(address[1],))
        restarting.start()
        while not restarted.is_set():
            producer.begin_transaction()
            for partition in range(3):
                batch = numbered(500, start=len(written))
                write_in_transaction(producer, topic, batch, partition=partition)
                written += batch
            producer.commit_transaction()
        assert producer._coordinator._address != address
    restarting.join()

    wait_for(lambda: len(read_topic(servers, topic)) >= len(written))
    assert_exactly_once(values(read_topic(servers, topic)), written)


def test_closing_a_producer_does_not_wait_for_a_broker_that_is_silent(topic: str, fault_proxy: FaultProxy) -> None:
    # The request timeout is longer than this test may take.
    producer = TransactionalProducer(producer_config(fault_proxy.address, request_timeout_ms=600_000), unique("task"))
    producer.init_transactions()
    producer.begin_transaction()
    write_in_transaction(producer, topic, [b"open"])
    fault_proxy.to_client = Link.DROP

    producer.close()

    assert producer.state is TransactionState.CLOSED


def test_missing_brokers_are_reported_after_max_block(fault_proxy: FaultProxy) -> None:
    fault_proxy.refuse()
    producer = TransactionalProducer(producer_config(fault_proxy.address, max_block_ms=200), unique("task"))

    with pytest.raises(BrokerUnavailableError, match=r"bootstrap\.servers"):
        producer.init_transactions()
    assert producer.state is TransactionState.FAILED
    fault_proxy.heal()

    def initialized() -> bool:
        with suppress(BrokerUnavailableError):
            producer.init_transactions()
        return producer.state is TransactionState.READY

    wait_for(initialized)
    producer.close()
