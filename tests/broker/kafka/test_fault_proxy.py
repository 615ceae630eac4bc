"""The fault proxy works as its users expect, shown with confluent-kafka as the client."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer

from fencepost.embedded.broker import EmbeddedBroker
from tests.support.checker import read_topic, values
from tests.support.fault_proxy import Act, ApiKey, FaultProxy, Link
from tests.support.processes import wait_for
from tests.support.topics import unique


def producer(proxy: FaultProxy, **settings: str | int) -> Producer:
    return Producer(
        {
            "bootstrap.servers": proxy.address,
            "transactional.id": unique("tid"),
            "reconnect.backoff.max.ms": 100,
            "log_level": 0,
            **settings,
        }
    )


def open_transaction(proxy: FaultProxy, topic: str) -> Producer:
    client = producer(proxy)
    client.init_transactions(30)
    client.begin_transaction()
    client.produce(topic, b"v")
    client.flush(30)
    return client


def test_clients_of_the_second_listener_come_through_the_proxy(
    fault_proxy: FaultProxy, broker: EmbeddedBroker, topic: str
) -> None:
    open_transaction(fault_proxy, topic).commit_transaction(30)

    assert fault_proxy.requests[ApiKey.PRODUCE] == 1
    assert values(read_topic(broker.bootstrap_servers, topic)) == [b"v"]


def test_a_held_request_reaches_the_broker_only_when_it_is_released(
    fault_proxy: FaultProxy, broker: EmbeddedBroker, topic: str
) -> None:
    client = open_transaction(fault_proxy, topic)
    trap = fault_proxy.on_request(ApiKey.END_TXN, Act.HOLD)

    with pytest.raises(KafkaException):
        client.commit_transaction(0.3)
    trap.wait()
    assert read_topic(broker.bootstrap_servers, topic) == []

    trap.release()
    client.commit_transaction(30)
    assert values(read_topic(broker.bootstrap_servers, topic)) == [b"v"]


def test_the_broker_commits_though_its_answer_is_lost(
    fault_proxy: FaultProxy, broker: EmbeddedBroker, topic: str
) -> None:
    client = open_transaction(fault_proxy, topic)
    fault_proxy.on_response(ApiKey.END_TXN, Act.RESET)
    fault_proxy.on_request(ApiKey.END_TXN, Act.HOLD, skip=1)

    with pytest.raises(KafkaException):
        client.commit_transaction(0.3)

    wait_for(lambda: read_topic(broker.bootstrap_servers, topic), what="the commit is seen")


def test_a_truncated_request_never_reaches_the_broker(
    fault_proxy: FaultProxy, broker: EmbeddedBroker, topic: str
) -> None:
    client = open_transaction(fault_proxy, topic)
    trap = fault_proxy.on_request(ApiKey.END_TXN, Act.RESET)
    fault_proxy.on_request(ApiKey.END_TXN, Act.HOLD, skip=1)

    with pytest.raises(KafkaException):
        client.commit_transaction(0.3)

    assert trap.sprung
    assert read_topic(broker.bootstrap_servers, topic) == []
    assert len(read_topic(broker.bootstrap_servers, topic, isolation="read_uncommitted")) == 1


@pytest.mark.parametrize("fault", [Link.HOLD, Link.DROP])
@pytest.mark.parametrize("direction", ["to_broker", "to_client"])
def test_a_silent_link_lets_nothing_through_until_it_is_healed(
    fault_proxy: FaultProxy, direction: str, fault: Link
) -> None:
    client = producer(fault_proxy, **{"socket.timeout.ms": 1000})
    setattr(fault_proxy, direction, fault)

    with pytest.raises(KafkaException) as failure:
        client.init_transactions(0.3)
    assert failure.value.args[0].code() == KafkaError._TIMED_OUT

    fault_proxy.heal()
    client.init_transactions(30)


def test_refused_connections_are_taken_again_after_healing(fault_proxy: FaultProxy) -> None:
    client = producer(fault_proxy)
    client.init_transactions(30)
    fault_proxy.refuse()
    wait_for(lambda: fault_proxy.connections == 0)

    client.begin_transaction()
    with pytest.raises(KafkaException):
        client.list_topics(timeout=0.3)

    fault_proxy.heal()
    assert client.list_topics(timeout=120).brokers


def test_a_reset_ends_the_connections_and_takes_new_ones(fault_proxy: FaultProxy) -> None:
    client = producer(fault_proxy)
    client.init_transactions(30)
    assert fault_proxy.connections > 0

    fault_proxy.reset()

    assert client.list_topics(timeout=120).brokers
