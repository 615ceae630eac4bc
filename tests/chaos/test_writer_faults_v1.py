"""Faults under transaction version 1, where AddPartitionsToTxn and InitProducerId are separate requests.

Each test runs with brokers that verify that a transaction is open before they accept its records, as in Kafka 3.6 to
3.9, and with brokers that do not, as in all earlier releases.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress

import pytest

from fencepost.embedded.broker import EmbeddedBroker
from fencepost.kafka.config.client_config import ProducerConfig
from fencepost.kafka.errors import DeliveryTimeoutError, KafkaError, ProducerFencedError
from fencepost.kafka.producer.sender import RecordWriter
from fencepost.kafka.producer.transaction import Transaction, TransactionState, TransactionVersion
from fencepost.kafka.producer.transactional import TransactionalProducer
from tests.support.checker import read_topic, values
from tests.support.fault_proxy import Act, ApiKey, FaultProxy
from tests.support.processes import wait_for
from tests.support.proxied_broker import proxied_v1_broker
from tests.support.topics import Topics, unique
from tests.support.writing import numbered, open_producer, producer_config, write_in_transaction, write_values


@pytest.fixture(scope="module", params=[True, False], ids=["verifying", "not verifying"])
def proxied(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[EmbeddedBroker, FaultProxy]]:
    with proxied_v1_broker(tmp_path_factory.mktemp("proxied-v1"), verifying=request.param) as proxied:
        yield proxied


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


def test_a_zombie_whose_bump_is_delayed_is_fenced(servers: str, proxy: FaultProxy) -> None:
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


@pytest.mark.parametrize("end", [TransactionalProducer.abort_transaction, TransactionalProducer.abandon])
def test_executor_writes_after_the_abort_are_not_committed_by_the_next(
    servers: str, proxy: FaultProxy, end: Callable[[TransactionalProducer], None]
) -> None:
    topic, transactional_id = Topics(servers).create(), unique("task")
    with open_producer(producer_config(servers), transactional_id) as producer:
        producer.begin_transaction()
        write_in_transaction(producer, topic, [b"aborted"])
        with _held_executor(producer, servers, topic, proxy):
            end(producer)
        if end is TransactionalProducer.abort_transaction:
            producer.init_transactions()
            _commit_next(producer, topic)
    if end is TransactionalProducer.abandon:
        with open_producer(producer_config(servers), transactional_id) as successor:
            _commit_next(successor, topic)

    assert values(read_topic(servers, topic)) == [b"next"]


def test_executor_writes_after_the_close_are_not_committed_by_the_next(servers: str, proxy: FaultProxy) -> None:
    topic, transactional_id = Topics(servers).create(), unique("task")
    producer = TransactionalProducer(producer_config(servers), transactional_id)
    producer.init_transactions()
    producer.begin_transaction()
    write_in_transaction(producer, topic, [b"aborted"])
    with _held_executor(producer, servers, topic, proxy):
        producer.close()
    with open_producer(producer_config(servers), transactional_id) as successor:
        _commit_next(successor, topic)

    assert values(read_topic(servers, topic)) == [b"next"]


def test_a_batch_that_arrives_after_its_abort_is_not_committed_by_the_next(servers: str, proxy: FaultProxy) -> None:
    topic = Topics(servers).create()
    config = producer_config(proxy.address, request_timeout_ms=300, delivery_timeout_ms=500)
    with open_producer(config, unique("task")) as producer:
        producer.begin_transaction()
        write_in_transaction(producer, topic, [b"aborted"])
        late = proxy.on_request(ApiKey.PRODUCE, Act.HOLD)
        for _ in range(20):
            proxy.on_request(ApiKey.PRODUCE, Act.DROP)
        with pytest.raises(DeliveryTimeoutError):
            write_in_transaction(producer, topic, [b"late"])
        producer.abort_transaction()
        assert read_topic(servers, topic) == [], "and the abort's marker is written"
        refused = proxy.responses[ApiKey.PRODUCE]
        late.release()
        wait_for(lambda: proxy.responses[ApiKey.PRODUCE] > refused)
        proxy.heal()
        producer.init_transactions()
        _commit_next(producer, topic)

    assert values(read_topic(servers, topic)) == [b"next"]


def test_an_abort_that_comes_too_late_leaves_a_newer_instance_alone(servers: str) -> None:
    """InitProducerId would abort whichever transaction is open, also a newer instance's."""
    topic, transactional_id = Topics(servers).create(), unique("task")
    with open_producer(producer_config(servers), transactional_id) as zombie:
        zombie.begin_transaction()
        with pytest.raises(RuntimeError), zombie.lent():
            raise RuntimeError("the job is lost")
        with open_producer(producer_config(servers), transactional_id) as successor:
            successor.begin_transaction()
            write_in_transaction(successor, topic, [b"successor"])
            with pytest.raises(ProducerFencedError):
                zombie.abort_transaction()
            successor.commit_transaction()

    assert values(read_topic(servers, topic)) == [b"successor"]


def test_an_empty_transaction_ends_without_a_new_start(servers: str) -> None:
    topic = Topics(servers).create()
    with open_producer(producer_config(servers), unique("task")) as producer:
        for _ in range(2):
            producer.begin_transaction()
            write_in_transaction(producer, topic, [b"aborted"])
            producer.abort_transaction()
            assert producer.state is TransactionState.READY
        _commit_next(producer, topic)

    assert values(read_topic(servers, topic)) == [b"next"]


def _commit_next(producer: TransactionalProducer, topic: str) -> None:
    producer.begin_transaction()
    write_in_transaction(producer, topic, [b"next"])
    producer.commit_transaction()


@contextmanager
def _held_executor(producer: TransactionalProducer, servers: str, topic: str, proxy: FaultProxy) -> Iterator[None]:
    """A context in which a batch is in flight from an executor whose job is lost. It arrives after the abort marker."""
    config = producer_config(proxy.address)
    trap = proxy.on_request(ApiKey.PRODUCE, Act.HOLD)
    with suppress(ConnectionAbortedError), producer.lent() as transaction:
        executor = threading.Thread(target=_write_late, args=(config, transaction, topic))
        executor.start()
        trap.wait()
        raise ConnectionAbortedError("the executor is lost")
    yield
    assert read_topic(servers, topic) == [], "and the marker is written"
    trap.release()
    executor.join()


def _write_late(config: ProducerConfig, transaction: Transaction, topic: str) -> None:
    with closing(RecordWriter(config, transaction)) as writer, suppress(KafkaError):
        write_values(writer, topic, [b"late"])
        writer.flush()


def _abort_with_a_lost_answer(producer: TransactionalProducer, topic: str, proxy: FaultProxy) -> None:
    producer.begin_transaction()
    write_in_transaction(producer, topic, [b"aborted"])
    trap = proxy.on_response(ApiKey.END_TXN, Act.RESET)
    producer.abort_transaction()
    assert trap.sprung
