"""Producers are fenced by their transactional ids: the previous owner of an id can write nothing more."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from confluent_kafka import KafkaError as ClientError
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AclOperation, ResourceType

from fencepost.api.errors import IllegalStateError
from fencepost.embedded.broker import EmbeddedBroker
from fencepost.kafka.admin.admin import Admin
from fencepost.kafka.admin.fencing import FencingError, FencingTimeoutError
from fencepost.kafka.config.client_config import ClientConfig
from fencepost.kafka.errors import AuthorizationError, BrokerRefusedError
from tests.support.checker import read_topic, values
from tests.support.confluent import transactional_producer
from tests.support.fault_proxy import Act, ApiKey, FaultProxy, Link
from tests.support.processes import wait_for
from tests.support.security import SecuredBroker
from tests.support.topics import Topics, unique

_SECONDS = 120


@pytest.fixture
def admin(bootstrap_servers: str) -> Iterator[Admin]:
    with Admin(ClientConfig(bootstrap_servers=(bootstrap_servers,))) as admin:
        yield admin


def _producer_in_transaction(bootstrap_servers: str, transactional_id: str, topic: str, value: bytes) -> Producer:
    producer = transactional_producer(bootstrap_servers, transactional_id)
    producer.begin_transaction()
    producer.produce(topic, value)
    assert producer.flush(_SECONDS) == 0
    return producer


def _assert_fenced(producer: Producer) -> None:
    with pytest.raises(KafkaException) as caught:
        producer.commit_transaction(_SECONDS)
    assert caught.value.args[0].code() in (ClientError._FENCED, ClientError.INVALID_PRODUCER_EPOCH)


def test_a_fenced_producer_cannot_commit(admin: Admin, bootstrap_servers: str, topic: str):
    name = unique("task")
    producer = _producer_in_transaction(bootstrap_servers, name, topic, b"zombie")
    admin.fence_producers([name]).all()
    _assert_fenced(producer)
    assert read_topic(bootstrap_servers, topic) == []


def test_producers_of_a_version_1_broker_are_fenced(tv1_broker: EmbeddedBroker):
    servers = tv1_broker.bootstrap_servers
    topic, name = Topics(servers).create(), unique("task")
    producer = _producer_in_transaction(servers, name, topic, b"zombie")
    with Admin(ClientConfig(bootstrap_servers=(servers,))) as admin:
        admin.fence_producers([name]).all()
    _assert_fenced(producer)
    assert read_topic(servers, topic) == []


def test_fencing_ends_only_the_transactions_of_its_ids(admin: Admin, bootstrap_servers: str, topic: str):
    fenced, spared = unique("task"), unique("task")
    _producer_in_transaction(bootstrap_servers, fenced, topic, b"zombie")
    producer = _producer_in_transaction(bootstrap_servers, spared, topic, b"alive")
    admin.fence_producers([fenced]).all()
    producer.commit_transaction(_SECONDS)
    assert values(read_topic(bootstrap_servers, topic)) == [b"alive"]


def test_the_next_holder_of_a_fenced_id_can_write(admin: Admin, bootstrap_servers: str, topic: str):
    name = unique("task")
    _producer_in_transaction(bootstrap_servers, name, topic, b"zombie")
    admin.fence_producers([name]).all()
    successor = _producer_in_transaction(bootstrap_servers, name, topic, b"successor")
    successor.commit_transaction(_SECONDS)
    assert values(read_topic(bootstrap_servers, topic)) == [b"successor"]


def test_the_result_has_the_producer_id_and_the_epoch(admin: Admin):
    name = unique("task")
    first, second = admin.fence_producers([name]), admin.fence_producers([name])
    assert list(first.fenced_producers) == [name]
    assert first.producer_id(name) == second.producer_id(name) >= 0
    assert second.epoch_id(name) > first.epoch_id(name) >= 0


def test_a_thousand_ids_are_fenced(admin: Admin):
    names = [unique("task") for _ in range(1000)]
    result = admin.fence_producers(names)
    result.all()
    assert list(result.fenced_producers) == names
    assert len({result.producer_id(name) for name in names}) == 1000


def test_ids_of_several_coordinators_are_fenced(three_node_broker: EmbeddedBroker):
    names = [unique("task") for _ in range(50)]
    servers = tuple(three_node_broker.bootstrap_servers.split(","))
    with Admin(ClientConfig(bootstrap_servers=servers)) as admin:
        result = admin.fence_producers(names)
        result.all()
    assert set(result.fenced_producers) == set(names)


def test_an_id_that_is_given_twice_is_fenced_once(admin: Admin):
    name = unique("task")
    assert list(admin.fence_producers([name, name]).fenced_producers) == [name]


def test_no_ids_are_fenced_without_asking_anyone(admin: Admin):
    result = admin.fence_producers([])
    result.all()
    assert result.fenced_producers == {}


def test_ids_that_are_not_fenced_in_time_are_named(fault_proxy: FaultProxy):
    names = [unique("task") for _ in range(3)]
    with Admin(ClientConfig(bootstrap_servers=(fault_proxy.address,))) as admin:
        admin.broker_count()
        fault_proxy.to_broker = Link.DROP
        result = admin.fence_producers(names, timeout_ms=500)
    with pytest.raises(FencingError) as caught:
        result.all()
    assert all(name in str(caught.value) for name in names)
    assert set(caught.value.failures) == set(names)
    with pytest.raises(FencingTimeoutError, match=r"within 500 ms.*__transaction_state"):
        result.producer_id(names[0])


def test_a_connection_that_breaks_while_fencing_is_reopened(fault_proxy: FaultProxy):
    names = [unique("task") for _ in range(20)]
    trap = fault_proxy.on_request(ApiKey.INIT_PRODUCER_ID, Act.RESET, skip=3)
    with Admin(ClientConfig(bootstrap_servers=(fault_proxy.address,))) as admin:
        result = admin.fence_producers(names)
        result.all()
    trap.wait()
    assert set(result.fenced_producers) == set(names)


def test_closing_ends_a_round_that_waits(fault_proxy: FaultProxy):
    admin = Admin(ClientConfig(bootstrap_servers=(fault_proxy.address,)))
    trap = fault_proxy.on_request(ApiKey.INIT_PRODUCER_ID, Act.HOLD)
    ended: list[Exception] = []

    def fence() -> None:
        try:
            admin.fence_producers([unique("task")])
        except IllegalStateError as error:
            ended.append(error)

    waiting = threading.Thread(target=fence)
    waiting.start()
    trap.wait()
    admin.close()
    waiting.join(_SECONDS)
    assert len(ended) == 1


def test_a_refused_transactional_id_does_not_fail_the_others(admin: Admin):
    name = unique("task")
    result = admin.fence_producers([name, ""])
    assert result.epoch_id(name) == 0
    with pytest.raises(BrokerRefusedError):
        result.epoch_id("")
    with pytest.raises(BrokerRefusedError):
        result.all()


def test_a_missing_right_names_the_acl(secured: SecuredBroker):
    allowed, forbidden = unique("task"), unique("task")
    for operation in (AclOperation.WRITE, AclOperation.DESCRIBE):
        secured.allow("connector", operation, ResourceType.TRANSACTIONAL_ID, allowed)
    config = ClientConfig.from_properties(secured.properties("connector"), where="a test")
    with Admin(config) as admin:
        wait_for(lambda: not isinstance(admin.fence_producers([allowed]).fenced_producers[allowed], Exception))
        result = admin.fence_producers([allowed, forbidden])
    assert result.producer_id(allowed) >= 0
    with pytest.raises(AuthorizationError) as caught:
        result.all()
    assert caught.value.resource == f"transactional id {forbidden}"
    assert caught.value.operation == "WRITE and DESCRIBE"
