"""Brokers other than Apache's, and known bugs of Apache's: a proxy changes a real broker's answers."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from fencepost.api.errors import ConfigError, RetriableError
from fencepost.config.internal_topics import InternalTopic
from fencepost.embedded.broker import EmbeddedBroker
from fencepost.kafka.admin.admin import Admin
from fencepost.kafka.errors import (
    BrokerUnavailableError,
    ConcurrentTransactionsError,
    DisklessTopicError,
    LostEpochError,
    ProducerFencedError,
    UnknownOutcomeError,
    UnsupportedBrokerError,
)
from fencepost.kafka.producer.transaction import TransactionState, TransactionVersion
from fencepost.kafka.producer.transactional import TransactionalProducer
from fencepost.runtime.state import State
from tests.support import faulty_broker
from tests.support.checker import read_topic, values
from tests.support.fault_proxy import Act, ApiKey, FaultProxy
from tests.support.faulty_broker import CONCURRENT_TRANSACTIONS, PRODUCER_FENCED
from tests.support.proxied_broker import proxied_v1_broker
from tests.support.sequence_source import seqs
from tests.support.task_runner import TaskRunner, wait_for_state
from tests.support.topics import Topics, unique
from tests.support.writing import numbered, open_producer, producer_config, write_in_transaction

SHORT_MS = 400
"""The timeout of requests that are never answered."""


@pytest.fixture(scope="module")
def proxied_v1(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[EmbeddedBroker, FaultProxy]]:
    with proxied_v1_broker(tmp_path_factory.mktemp("proxied-v1"), verifying=True) as proxied:
        yield proxied


@pytest.fixture
def v1_proxy(proxied_v1: tuple[EmbeddedBroker, FaultProxy]) -> Iterator[FaultProxy]:
    """A proxy before a broker of transaction version 1."""
    yield proxied_v1[1]
    proxied_v1[1].heal()
    proxied_v1[1].reset()


@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_coordinator_that_cannot_raise_an_epoch_is_refused(v1_proxy: FaultProxy, version: int) -> None:
    faulty_broker.know_up_to(v1_proxy, ApiKey.INIT_PRODUCER_ID, version)
    producer = TransactionalProducer(producer_config(v1_proxy.address), unique("task"))

    with pytest.raises(UnsupportedBrokerError) as refused:
        producer.init_transactions()

    producer.close()
    text = str(refused.value)
    assert f"knows InitProducerId up to version {version}" in text
    assert "needs version 3" in text
    assert "Kafka 2.5" in text
    assert producer.state is TransactionState.CLOSED
    assert v1_proxy.requests[ApiKey.INIT_PRODUCER_ID] == 0


@pytest.mark.parametrize("lower", [ApiKey.INIT_PRODUCER_ID, ApiKey.END_TXN])
def test_brokers_without_the_requests_of_transactions_are_found_at_once(fault_proxy: FaultProxy, lower: ApiKey) -> None:
    with Admin(producer_config(fault_proxy.address).client) as admin:
        admin.require_transactions()
        faulty_broker.know_up_to(fault_proxy, lower, -1)
        with pytest.raises(UnsupportedBrokerError, match="exactly-once"):
            admin.require_transactions()


def test_transaction_version_1_is_used_on_brokers_that_have_it(fault_proxy: FaultProxy) -> None:
    # Redpanda does not implement KIP-890 on the server, and does not have the feature transaction.version.
    fault_proxy.change(ApiKey.API_VERSIONS, faulty_broker.without_features)

    with open_producer(producer_config(fault_proxy.address), unique("task")) as producer:
        assert producer.begin_transaction().version is TransactionVersion.V1
        producer.abort_transaction()


def test_a_diskless_topic_is_refused_by_name_before_a_record_is_sent(fault_proxy: FaultProxy, topic: str) -> None:
    faulty_broker.have_diskless(fault_proxy, {topic})
    with open_producer(producer_config(fault_proxy.address), unique("task")) as producer:
        producer.begin_transaction()
        with pytest.raises(DisklessTopicError) as refused:
            write_in_transaction(producer, topic, [b"v"])
        producer.abort_transaction()

    assert refused.value.topic == topic
    for word in (topic, "diskless.enable=true", "transactions", "diskless.enable=false"):
        assert word in str(refused.value)
    assert fault_proxy.requests[ApiKey.PRODUCE] == 0


def test_a_topic_that_became_diskless_is_named_where_its_records_are_refused(
    fault_proxy: FaultProxy, topic: str
) -> None:
    with open_producer(producer_config(fault_proxy.address), unique("task")) as producer:
        producer.begin_transaction()
        write_in_transaction(producer, topic, [b"v"])
        faulty_broker.refuse_transactional_records(fault_proxy)
        faulty_broker.have_diskless(fault_proxy, {topic})
        with pytest.raises(DisklessTopicError, match=f"topic {topic} "):
            write_in_transaction(producer, topic, [b"w"])


def test_internal_topics_must_not_be_diskless(fault_proxy: FaultProxy) -> None:
    name = unique("internal")
    with Admin(producer_config(fault_proxy.address).client) as admin:
        admin.ensure_compacted_topic(InternalTopic(name, 1))
        faulty_broker.have_diskless(fault_proxy, {name})
        with pytest.raises(ConfigError, match=f"Topic {name} is diskless"):
            admin.ensure_compacted_topic(InternalTopic(name, 1))


def test_a_forgotten_epoch_is_taken_over_again_without_duplicates(
    proxied_v1: tuple[EmbeddedBroker, FaultProxy], v1_proxy: FaultProxy
) -> None:
    # KAFKA-20310: the coordinator raises the epoch, fails over before it answers, and then does not recognise the
    # retry.
    servers = proxied_v1[0].bootstrap_servers
    topic = Topics(servers).create()
    with open_producer(producer_config(v1_proxy.address), unique("task")) as producer:
        producer.begin_transaction()
        write_in_transaction(producer, topic, numbered(10))
        producer.commit_transaction()

        lost = v1_proxy.on_response(ApiKey.INIT_PRODUCER_ID, Act.RESET)
        faulty_broker.answer(v1_proxy, ApiKey.INIT_PRODUCER_ID, PRODUCER_FENCED, times=1)
        with pytest.raises(LostEpochError) as forgotten:
            producer.begin_transaction()
        assert lost.sprung
        assert producer.state is TransactionState.FAILED

        producer.init_transactions()
        producer.begin_transaction()
        write_in_transaction(producer, topic, numbered(10, start=10))
        producer.commit_transaction()

    assert "KAFKA-20310" in str(forgotten.value)
    assert values(read_topic(servers, topic)) == numbered(20)


def test_a_fenced_retry_is_fenced_when_another_instance_owns_the_id(
    proxied_v1: tuple[EmbeddedBroker, FaultProxy], v1_proxy: FaultProxy
) -> None:
    servers, name = proxied_v1[0].bootstrap_servers, unique("task")
    topic = Topics(servers).create()
    with open_producer(producer_config(v1_proxy.address), name) as producer:
        producer.begin_transaction()
        write_in_transaction(producer, topic, [b"ours"])
        producer.commit_transaction()
        dropped = v1_proxy.on_request(ApiKey.INIT_PRODUCER_ID, Act.DROP)
        with ThreadPoolExecutor(1) as thread:
            beginning = thread.submit(producer.begin_transaction)
            dropped.wait()
            with open_producer(producer_config(servers), name) as successor:
                successor.begin_transaction()
                write_in_transaction(successor, topic, [b"theirs"])
                successor.commit_transaction()
                v1_proxy.reset()
                with pytest.raises(ProducerFencedError):
                    beginning.result()

    assert values(read_topic(servers, topic)) == [b"ours", b"theirs"]


def test_a_take_over_that_is_answered_as_fenced_is_tried_once_more(fault_proxy: FaultProxy) -> None:
    faulty_broker.answer(fault_proxy, ApiKey.INIT_PRODUCER_ID, PRODUCER_FENCED, times=1)

    with open_producer(producer_config(fault_proxy.address), unique("task")) as producer:
        assert producer.state is TransactionState.READY


def test_a_transaction_that_never_ends_is_reported_with_its_state_and_its_cause(fault_proxy: FaultProxy) -> None:
    name = unique("task")
    with open_producer(producer_config(fault_proxy.address), name):
        pass
    faulty_broker.answer(fault_proxy, ApiKey.INIT_PRODUCER_ID, CONCURRENT_TRANSACTIONS)
    fault_proxy.change(ApiKey.DESCRIBE_TRANSACTIONS, faulty_broker.transactions_in_state("PrepareCommit"))
    producer = TransactionalProducer(producer_config(fault_proxy.address, max_block_ms=SHORT_MS), name)

    with pytest.raises(ConcurrentTransactionsError) as stuck:
        producer.init_transactions()

    producer.close()
    text = str(stuck.value)
    for word in (
        name,
        "InitProducerId",
        "PrepareCommit",
        "KAFKA-19999",
        "min.insync.replicas",
        "fencepost transactions",
    ):
        assert word in text
    assert stuck.value.waited_ms >= SHORT_MS
    assert isinstance(stuck.value, RetriableError)


def test_a_commit_that_never_ends_is_reported_with_the_same_cause(fault_proxy: FaultProxy, topic: str) -> None:
    config = producer_config(fault_proxy.address, max_block_ms=SHORT_MS)
    with open_producer(config, unique("task")) as producer:
        producer.begin_transaction()
        write_in_transaction(producer, topic, [b"v"])
        faulty_broker.answer(fault_proxy, ApiKey.END_TXN, CONCURRENT_TRANSACTIONS)
        with pytest.raises(UnknownOutcomeError, match="KAFKA-19999"):
            producer.commit_transaction()


def test_partitions_that_are_never_added_are_reported_with_the_same_cause(v1_proxy: FaultProxy) -> None:
    topic = Topics(v1_proxy.address).create()
    with open_producer(producer_config(v1_proxy.address, delivery_timeout_ms=SHORT_MS), unique("task")) as producer:
        producer.begin_transaction()
        faulty_broker.answer(v1_proxy, ApiKey.ADD_PARTITIONS_TO_TXN, CONCURRENT_TRANSACTIONS)
        with pytest.raises(BrokerUnavailableError, match="KAFKA-19999"):
            write_in_transaction(producer, topic, [b"v"])


def test_a_worker_does_not_start_on_brokers_without_transactions(fault_proxy: FaultProxy) -> None:
    faulty_broker.know_up_to(fault_proxy, ApiKey.INIT_PRODUCER_ID, 1)

    with (
        pytest.raises(UnsupportedBrokerError, match="knows InitProducerId up to version 1"),
        TaskRunner(fault_proxy.address),
    ):
        pass


def test_a_connector_does_not_start_on_brokers_of_its_own_without_transactions(
    fault_proxy: FaultProxy, bootstrap_servers: str, topic: str
) -> None:
    own = {"producer.override.bootstrap.servers": fault_proxy.address}
    with TaskRunner(bootstrap_servers) as runner:
        faulty_broker.know_up_to(fault_proxy, ApiKey.INIT_PRODUCER_ID, 1)
        with pytest.raises(UnsupportedBrokerError, match=fault_proxy.address):
            runner.task(unique("connector"), topic, own)


def test_a_task_continues_by_itself_after_a_forgotten_epoch(
    proxied_v1: tuple[EmbeddedBroker, FaultProxy], v1_proxy: FaultProxy
) -> None:
    servers, name = proxied_v1[0].bootstrap_servers, unique("connector")
    topic = Topics(servers).create()
    with TaskRunner(v1_proxy.address) as runner:
        task, seen = runner.task(name, topic, {"limit": 500}, stop_at_end=True)
        # The coordinator may refuse the first request for a new transactional id until it has loaded its state.
        with open_producer(producer_config(servers), task.id.transactional_id(runner.worker.config.group_id)):
            pass
        # The first InitProducerId takes the transactional id over, the second one raises the epoch.
        lost = v1_proxy.on_response(ApiKey.INIT_PRODUCER_ID, Act.RESET, skip=1)
        faulty_broker.answer(v1_proxy, ApiKey.INIT_PRODUCER_ID, PRODUCER_FENCED, after=1, times=1)
        task.start()
        assert task.join(60)

        assert lost.sprung
        assert (task.state, seen.starts) == (State.STOPPED, 2)
        assert seqs(values(read_topic(servers, topic)), name) == list(range(1, 501))


def test_a_task_that_writes_to_a_diskless_topic_fails_and_names_it(
    fault_proxy: FaultProxy, bootstrap_servers: str, topic: str
) -> None:
    with TaskRunner(fault_proxy.address) as runner:
        faulty_broker.have_diskless(fault_proxy, {topic})
        task, _ = runner.started(unique("connector"), topic)
        wait_for_state(task, State.FAILED)

    assert isinstance(task.error, DisklessTopicError)
    assert read_topic(bootstrap_servers, topic, isolation="read_uncommitted") == []
