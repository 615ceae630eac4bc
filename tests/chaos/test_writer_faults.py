"""After any fault between a producer, its writers and the brokers, a write is acknowledged, aborted or fenced."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing

import pytest

from fencepost.embedded.broker import EmbeddedBroker
from fencepost.kafka.errors import (
    DeliveryTimeoutError,
    InvalidProducerEpochError,
    ProducerFencedError,
    TransactionAbortableError,
    UnknownOutcomeError,
)
from fencepost.kafka.producer.sender import RecordWriter
from fencepost.kafka.producer.transaction import TransactionState, TransactionVersion
from fencepost.kafka.producer.transactional import TransactionalProducer
from tests.support.checker import read_topic, values
from tests.support.fault_proxy import Act, ApiKey, FaultProxy, Link
from tests.support.topics import Topics, unique
from tests.support.writing import (
    numbered,
    open_producer,
    producer_config,
    records,
    write_in_transaction,
    write_values,
)

# About 40 batches of 16 KiB, so that several are in flight when one of them meets a fault.
VALUES = numbered(6_000)
BATCH_SIZE = 16_384


@pytest.fixture
def producer(fault_proxy: FaultProxy) -> Iterator[TransactionalProducer]:
    """A producer behind the proxy with a request timeout of half a second."""
    config = producer_config(fault_proxy.address, request_timeout_ms=500, batch_size=BATCH_SIZE)
    with open_producer(config, unique("task")) as producer:
        yield producer


@pytest.mark.parametrize("skip", [0, 1, 4])
@pytest.mark.parametrize("act", [Act.RESET, Act.DROP])
def test_a_batch_whose_answer_is_lost_is_sent_again_and_written_once(
    broker: EmbeddedBroker, topic: str, fault_proxy: FaultProxy, producer: TransactionalProducer, *, act: Act, skip: int
) -> None:
    producer.begin_transaction()
    trap = fault_proxy.on_response(ApiKey.PRODUCE, act, skip=skip)
    write_in_transaction(producer, topic, VALUES)
    producer.commit_transaction()

    assert trap.sprung
    assert values(read_topic(broker.bootstrap_servers, topic)) == VALUES


@pytest.mark.parametrize("skip", [0, 1])
def test_the_small_first_batch_and_the_large_ones_behind_it_keep_their_order(
    broker: EmbeddedBroker, topic: str, fault_proxy: FaultProxy, skip: int
) -> None:
    config = producer_config(fault_proxy.address, request_timeout_ms=10_000, batch_size=200_000)
    with open_producer(config, unique("task")) as producer:
        producer.begin_transaction()
        trap = fault_proxy.on_response(ApiKey.PRODUCE, Act.RESET, skip=skip)
        first, second, *_ = write_in_transaction(producer, topic, VALUES)
        producer.commit_transaction()

    assert trap.sprung
    assert first.size < second.size / 2
    assert values(read_topic(broker.bootstrap_servers, topic)) == VALUES


@pytest.mark.parametrize("skip", [0, 3])
@pytest.mark.parametrize("act", [Act.RESET, Act.DROP])
def test_a_batch_that_does_not_arrive_is_sent_again_in_order(
    broker: EmbeddedBroker, topic: str, fault_proxy: FaultProxy, producer: TransactionalProducer, *, act: Act, skip: int
) -> None:
    producer.begin_transaction()
    # A lost request leaves a gap: the broker refuses the batches after it.
    trap = fault_proxy.on_request(ApiKey.PRODUCE, act, skip=skip)
    write_in_transaction(producer, topic, VALUES)
    producer.commit_transaction()

    assert trap.sprung
    assert values(read_topic(broker.bootstrap_servers, topic)) == VALUES


def test_connections_that_break_repeatedly_lose_and_duplicate_nothing(
    broker: EmbeddedBroker, topic: str, fault_proxy: FaultProxy, producer: TransactionalProducer
) -> None:
    for transaction in range(3):
        producer.begin_transaction()
        for skip in (0, 3, 9, 14, 22):
            fault_proxy.on_response(ApiKey.PRODUCE, Act.RESET, skip=skip)
        write_in_transaction(producer, topic, numbered(6_000, start=transaction * 6_000))
        producer.commit_transaction()

    assert values(read_topic(broker.bootstrap_servers, topic)) == numbered(18_000)


def test_a_cut_network_that_heals_in_time_is_survived(
    broker: EmbeddedBroker, topic: str, fault_proxy: FaultProxy, producer: TransactionalProducer
) -> None:
    producer.begin_transaction()
    write_in_transaction(producer, topic, VALUES[:1_000])
    fault_proxy.refuse()
    writer = producer.writer()
    writing = threading.Thread(target=write_values, args=(writer, topic, VALUES[1_000:]))
    writing.start()
    fault_proxy.heal()
    writing.join()
    producer.acknowledge(writer.flush())
    writer.close()
    producer.commit_transaction()

    assert values(read_topic(broker.bootstrap_servers, topic)) == VALUES


def test_a_batch_without_acknowledgement_times_out_and_its_transaction_is_aborted(
    broker: EmbeddedBroker, topic: str, fault_proxy: FaultProxy
) -> None:
    config = producer_config(fault_proxy.address, request_timeout_ms=200, delivery_timeout_ms=500)
    with open_producer(config, unique("task")) as producer:
        producer.begin_transaction()
        write_in_transaction(producer, topic, [b"acknowledged"])
        fault_proxy.to_client = Link.DROP
        writer = producer.writer()
        writer.write(topic, 0, records([b"in doubt"]))

        with pytest.raises(DeliveryTimeoutError, match=rf"{topic}-0 .* 500 ms \(delivery\.timeout\.ms\)"):
            writer.flush()
        writer.close()
        fault_proxy.heal()
        producer.abort_transaction()
        producer.begin_transaction()
        write_in_transaction(producer, topic, [b"sent again"])
        producer.commit_transaction()

    assert values(read_topic(broker.bootstrap_servers, topic)) == [b"sent again"]


@pytest.mark.parametrize("act", [Act.RESET, Act.DROP])
@pytest.mark.parametrize("committed", [True, False])
def test_an_end_of_transaction_with_a_lost_answer_is_retried(
    broker: EmbeddedBroker,
    topic: str,
    fault_proxy: FaultProxy,
    producer: TransactionalProducer,
    *,
    act: Act,
    committed: bool,
) -> None:
    producer.begin_transaction()
    write_in_transaction(producer, topic, [b"first"])
    trap = fault_proxy.on_response(ApiKey.END_TXN, act)
    if committed:
        producer.commit_transaction()
    else:
        producer.abort_transaction()
    assert trap.sprung
    producer.begin_transaction()
    write_in_transaction(producer, topic, [b"second"])
    producer.commit_transaction()

    assert values(read_topic(broker.bootstrap_servers, topic)) == ([b"first"] if committed else []) + [b"second"]


def test_a_commit_that_does_not_arrive_is_sent_again(
    broker: EmbeddedBroker, topic: str, fault_proxy: FaultProxy, producer: TransactionalProducer
) -> None:
    producer.begin_transaction()
    write_in_transaction(producer, topic, [b"v"])
    trap = fault_proxy.on_request(ApiKey.END_TXN, Act.RESET)
    producer.commit_transaction()

    assert trap.sprung
    assert values(read_topic(broker.bootstrap_servers, topic)) == [b"v"]


@pytest.mark.parametrize("version", TransactionVersion, ids=lambda version: version.name)
@pytest.mark.parametrize("committed", [True, False])
def test_an_end_of_transaction_sent_twice_counts_once(
    request: pytest.FixtureRequest, version: TransactionVersion, committed: bool
) -> None:
    broker = request.getfixturevalue("broker" if version is TransactionVersion.V2 else "tv1_broker")
    topic = Topics(broker.bootstrap_servers).create()
    with open_producer(producer_config(broker.bootstrap_servers), unique("task")) as producer:
        producer.begin_transaction()
        write_in_transaction(producer, topic, [b"first"])
        owned = producer._identity
        producer._end(committed=committed)
        ended = producer._identity
        producer._identity, producer._last_completes = owned, False
        if committed:
            producer.commit_transaction()
        else:
            producer.abort_transaction()
        assert producer._identity == ended
        producer.begin_transaction()
        write_in_transaction(producer, topic, [b"second"])
        producer.commit_transaction()

    assert values(read_topic(broker.bootstrap_servers, topic)) == ([b"first"] if committed else []) + [b"second"]


@pytest.mark.parametrize("version", TransactionVersion, ids=lambda version: version.name)
def test_no_commit_takes_place_while_a_writer_may_be_alive(
    request: pytest.FixtureRequest, version: TransactionVersion
) -> None:
    """Between the answer to a commit and its markers, leaders would still take and commit such a writer's records."""
    broker = request.getfixturevalue("broker" if version is TransactionVersion.V2 else "tv1_broker")
    topic = Topics(broker.bootstrap_servers).create()
    config = producer_config(broker.bootstrap_servers)
    with open_producer(config, unique("task")) as producer:
        producer.begin_transaction()
        write_in_transaction(producer, topic, [b"acknowledged"])
        with pytest.raises(ConnectionAbortedError), producer.lent() as transaction:
            raise ConnectionAbortedError("the executor is lost")
        write_in_transaction(producer, topic, [b"of a later job"])
        with pytest.raises(TransactionAbortableError, match=r"Not every writer .* has answered"):
            producer.commit_transaction()
        producer.abort_transaction()
        assert read_topic(broker.bootstrap_servers, topic) == [], "and the abort's markers are written"
        with closing(RecordWriter(config, transaction)) as lost:
            lost.write(topic, 0, records([b"late"]))
            with pytest.raises((InvalidProducerEpochError, TransactionAbortableError)):
                lost.flush()
        if version is TransactionVersion.V1:
            producer.init_transactions()
        producer.begin_transaction()
        write_in_transaction(producer, topic, [b"next"])
        producer.commit_transaction()

    assert values(read_topic(broker.bootstrap_servers, topic)) == [b"next"]


def test_no_commit_takes_place_while_a_local_writer_has_not_answered(topic: str, fault_proxy: FaultProxy) -> None:
    config = producer_config(fault_proxy.address, request_timeout_ms=200, delivery_timeout_ms=400)
    with open_producer(config, unique("task")) as producer:
        producer.begin_transaction()
        open_writer = producer.writer()
        with pytest.raises(TransactionAbortableError, match="Not every writer"):
            producer.commit_transaction()
        open_writer.close()
        write_in_transaction(producer, topic, [b"acknowledged"])
        fault_proxy.to_client = Link.DROP
        with closing(producer.writer()) as silent:
            silent.write(topic, 0, records([b"v"]))
            with pytest.raises(DeliveryTimeoutError):
                silent.flush()
        fault_proxy.heal()
        with pytest.raises(TransactionAbortableError, match="Not every writer"):
            producer.commit_transaction()
        producer.abort_transaction()
        assert producer.state is TransactionState.READY


@pytest.mark.parametrize("arrives", [True, False])
def test_a_commit_without_an_answer_is_settled_by_the_next_start(
    broker: EmbeddedBroker, topic: str, fault_proxy: FaultProxy, arrives: bool
) -> None:
    config = producer_config(fault_proxy.address, request_timeout_ms=200, max_block_ms=2_000)
    transactional_id = unique("task")
    with open_producer(config, transactional_id) as producer:
        producer.begin_transaction()
        write_in_transaction(producer, topic, [b"in doubt"])
        if arrives:
            fault_proxy.to_client = Link.DROP
        else:
            fault_proxy.refuse()
        with pytest.raises(UnknownOutcomeError, match=transactional_id):
            producer.commit_transaction()
        assert producer.state is TransactionState.FAILED

        fault_proxy.heal()
        producer.init_transactions()
        producer.begin_transaction()
        write_in_transaction(producer, topic, [b"next"])
        producer.commit_transaction()

    found = values(read_topic(broker.bootstrap_servers, topic))
    assert found == ([b"in doubt"] if arrives else []) + [b"next"]


@pytest.mark.parametrize("api_key", [ApiKey.INIT_PRODUCER_ID, ApiKey.FIND_COORDINATOR, ApiKey.METADATA])
@pytest.mark.parametrize("act", [Act.RESET, Act.DROP])
def test_requests_with_lost_answers_before_a_transaction_are_retried(
    broker: EmbeddedBroker, topic: str, fault_proxy: FaultProxy, api_key: ApiKey, act: Act
) -> None:
    trap = fault_proxy.on_response(api_key, act)
    with open_producer(producer_config(fault_proxy.address, request_timeout_ms=500), unique("task")) as producer:
        producer.begin_transaction()
        write_in_transaction(producer, topic, [b"v"])
        producer.commit_transaction()

    assert trap.sprung
    assert values(read_topic(broker.bootstrap_servers, topic)) == [b"v"]


def test_a_partitioned_zombie_is_fenced_when_it_reconnects(
    broker: EmbeddedBroker, topic: str, fault_proxy: FaultProxy
) -> None:
    transactional_id = unique("task")
    with open_producer(producer_config(fault_proxy.address), transactional_id) as zombie:
        zombie.begin_transaction()
        write_in_transaction(zombie, topic, [b"lost with the zombie"])
        writer = zombie.writer()
        trap = fault_proxy.on_request(ApiKey.PRODUCE, Act.HOLD)
        writer.write(topic, 0, records([b"held back"]))
        refusals: list[Exception] = []
        flushing = threading.Thread(target=_flush, args=(writer, refusals))
        flushing.start()
        trap.wait()
        with open_producer(producer_config(broker.bootstrap_servers), transactional_id) as successor:
            successor.begin_transaction()
            write_in_transaction(successor, topic, [b"successor"])
            successor.commit_transaction()
        trap.release()
        flushing.join()
        writer.close()

        (refusal,) = refusals
        assert isinstance(refusal, InvalidProducerEpochError)
        assert isinstance(zombie.resolve(refusal), ProducerFencedError)

    assert values(read_topic(broker.bootstrap_servers, topic)) == [b"successor"]


def _flush(writer: object, refusals: list[Exception]) -> None:
    try:
        writer.flush()  # type: ignore[attr-defined]
    except Exception as error:  # noqa: BLE001 - looked at by the test
        refusals.append(error)


def test_a_failed_writer_leaves_no_connection_with_requests_in_flight(
    broker: EmbeddedBroker, topic: str, fault_proxy: FaultProxy
) -> None:
    config = producer_config(fault_proxy.address, request_timeout_ms=30_000)
    with open_producer(config, unique("task")) as producer:
        producer.begin_transaction()
        writer = producer.writer()
        trap = fault_proxy.on_response(ApiKey.PRODUCE, Act.HOLD)
        writer._queue((topic, 0)).gather(records([b"abandoned"]), 1)
        writer._cut(writer._queue((topic, 0)))
        writer._progress()
        trap.wait()
        writer.close()
        trap.release()
        producer.abort_transaction()
        producer.begin_transaction()
        write_in_transaction(producer, topic, [b"v"])
        producer.commit_transaction()

    assert values(read_topic(broker.bootstrap_servers, topic)) == [b"v"]


@pytest.mark.parametrize("act", [Act.RESET, Act.DROP])
def test_no_record_reaches_another_topic_when_batches_are_sent_again(
    broker: EmbeddedBroker, fault_proxy: FaultProxy, producer: TransactionalProducer, act: Act
) -> None:
    topics = [Topics(broker.bootstrap_servers).create() for _ in range(2)]
    kept: dict[str, list[bytes]] = {topic: [] for topic in topics}
    for round_ in range(4):
        producer.begin_transaction()
        trap = fault_proxy.on_response(ApiKey.PRODUCE, act, skip=round_)
        for topic in topics:
            values_of = [f"{topic} {round_} {number:06}".encode() for number in range(3_000)]
            write_in_transaction(producer, topic, values_of)
            if round_ % 2:
                kept[topic] += values_of
        (producer.commit_transaction if round_ % 2 else producer.abort_transaction)()
        assert trap.sprung

    for topic in topics:
        assert values(read_topic(broker.bootstrap_servers, topic)) == kept[topic]
