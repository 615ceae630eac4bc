"""Faults under transaction version 1, where partitions are added and epochs bumped by requests of their own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fencepost.embedded.broker import EmbeddedBroker
from fencepost.embedded.properties import CLIENT, Listener
from fencepost.kafka.errors import ProducerFencedError
from fencepost.kafka.producer import TransactionalProducer
from fencepost.kafka.transaction import TransactionState, TransactionVersion
from tests.support.checker import read_topic, values
from tests.support.fault_proxy import Act, ApiKey, FaultProxy
from tests.support.topics import Topics, unique
from tests.support.writing import numbered, open_producer, producer_config, write_in_transaction

_PROXIED = "PROXIED"
_FEATURE = ("--feature", "transaction.version=1")


@pytest.fixture(scope="module")
def proxied(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[EmbeddedBroker, FaultProxy]]:
    proxy = FaultProxy().start()
    listeners = (Listener(CLIENT), Listener(_PROXIED, advertised_ports=[proxy.port]))
    folder = tmp_path_factory.mktemp("proxied-v1")
    with EmbeddedBroker(folder, listeners=listeners, format_arguments=_FEATURE) as broker:
        proxy.upstream = broker.nodes[0].place.ports[_PROXIED]
        yield broker, proxy
    proxy.stop()


@pytest.fixture
def servers(proxied: tuple[EmbeddedBroker, FaultProxy]) -> str:
    return proxied[0].bootstrap_servers


@pytest.fixture
def proxy(proxied: tuple[EmbeddedBroker, FaultProxy]) -> Iterator[FaultProxy]:
    proxy = proxied[1]
    yield proxy
    proxy.heal()
    proxy.reset()


@pytest.mark.parametrize("act", [Act.RESET, Act.DROP])
@pytest.mark.parametrize(
    "api_key", [ApiKey.ADD_PARTITIONS_TO_TXN, ApiKey.PRODUCE, ApiKey.END_TXN, ApiKey.INIT_PRODUCER_ID]
)
@pytest.mark.parametrize("answer", [True, False])
def test_requests_and_answers_that_are_lost_lose_and_double_nothing(
    servers: str, proxy: FaultProxy, api_key: ApiKey, act: Act, *, answer: bool
) -> None:
    topic = Topics(servers).create(partitions=2)
    config = producer_config(proxy.address, request_timeout_ms=500, batch_size=16_384)
    with open_producer(config, unique("task")) as producer:
        assert producer.begin_transaction().version is TransactionVersion.V1
        write_in_transaction(producer, topic, numbered(1_000))
        producer.commit_transaction()
        trap = (proxy.on_response if answer else proxy.on_request)(api_key, act)
        producer.begin_transaction()
        write_in_transaction(producer, topic, numbered(1_000, start=1_000))
        write_in_transaction(producer, topic, numbered(1_000, start=2_000), partition=1)
        producer.commit_transaction()

    assert trap.sprung
    assert values(read_topic(servers, topic)) == numbered(3_000)


def test_a_zombie_whose_bump_is_held_back_is_fenced(servers: str, proxy: FaultProxy) -> None:
    topic, transactional_id = Topics(servers).create(), unique("task")
    with open_producer(producer_config(proxy.address), transactional_id) as zombie:
        zombie.begin_transaction()
        write_in_transaction(zombie, topic, [b"zombie"])
        zombie.commit_transaction()
        with open_producer(producer_config(servers), transactional_id) as successor:
            successor.begin_transaction()
            write_in_transaction(successor, topic, [b"successor"])
            with pytest.raises(ProducerFencedError):
                zombie.begin_transaction()
            successor.commit_transaction()
        assert zombie.state is TransactionState.FENCED

    assert values(read_topic(servers, topic)) == [b"zombie", b"successor"]


def test_a_lost_abort_leaves_nothing_visible(servers: str, proxy: FaultProxy) -> None:
    topic = Topics(servers).create()
    with open_producer(producer_config(proxy.address, request_timeout_ms=500), unique("task")) as producer:
        _abort_with_a_lost_answer(producer, topic, proxy)
        producer.begin_transaction()
        write_in_transaction(producer, topic, [b"v"])
        producer.commit_transaction()

    assert values(read_topic(servers, topic)) == [b"v"]


def _abort_with_a_lost_answer(producer: TransactionalProducer, topic: str, proxy: FaultProxy) -> None:
    producer.begin_transaction()
    write_in_transaction(producer, topic, [b"aborted"])
    trap = proxy.on_response(ApiKey.END_TXN, Act.RESET)
    producer.abort_transaction()
    assert trap.sprung
