"""A writer's requests after single answers of a broker. tests/broker/kafka has the tests with real brokers."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import pytest

from fencepost.api.errors import IllegalStateError
from fencepost.kafka.errors import (
    AuthorizationError,
    DeliveryTimeoutError,
    DisklessTopicError,
    InvalidProducerEpochError,
    RecordTooLargeError,
    TransactionAbortableError,
)
from fencepost.kafka.producer.sender import RecordWriter
from fencepost.kafka.producer.transaction import TopicPartition, Transaction, TransactionVersion
from fencepost.kafka.transport.error_codes import Code
from tests.support.fault_proxy import ApiKey
from tests.support.processes import wait_for
from tests.support.scripted_broker import LOSE, ScriptedBroker
from tests.support.topics import unique
from tests.support.writing import numbered, producer_config, records, write_values

V1, V2 = TransactionVersion.V1, TransactionVersion.V2


@pytest.fixture
def broker() -> Iterator[ScriptedBroker]:
    with ScriptedBroker(partitions=3) as scripted:
        yield scripted


@pytest.fixture
def topic() -> str:
    return unique("topic")


@contextmanager
def _writer(
    broker: ScriptedBroker,
    *,
    version: TransactionVersion = V2,
    sequences: dict[TopicPartition, int] | None = None,
    transactional_id: str | None = "id",
    **settings: Any,
) -> Iterator[RecordWriter]:
    transaction = Transaction(transactional_id, 7, 3, version, sequences or {})
    with closing(RecordWriter(producer_config(broker.address, **settings), transaction)) as writer:
        yield writer


def _sequences(broker: ScriptedBroker) -> list[list[tuple[int, int]]]:
    return [[(batch.sequence, batch.count) for batch in request] for request in broker.produced]


def test_batches_carry_the_identity_and_consecutive_sequences(broker: ScriptedBroker, topic: str) -> None:
    with _writer(broker, sequences={(topic, 0): 40}, batch_size=2_000) as writer:
        write_values(writer, topic, numbered(50), step=50)
        acks = writer.flush()
    sent = [batch for request in broker.produced for batch in request]
    assert {(batch.producer_id, batch.epoch) for batch in sent} == {(7, 3)}
    assert [batch.sequence for batch in sent] == [40 + sum(b.count for b in sent[:i]) for i in range(len(sent))]
    assert [(ack.base_sequence, ack.count) for ack in acks] == [(batch.sequence, batch.count) for batch in sent]
    assert sum(ack.count for ack in acks) == 50
    assert all(batch.size <= 2_000 for batch in sent)
    assert writer.finished
    assert not writer.in_doubt


def test_last_batches_of_partitions_share_a_request(broker: ScriptedBroker, topic: str) -> None:
    with _writer(broker, sequences={(topic, number): 0 for number in range(3)}) as writer:
        for number in range(3):
            write_values(writer, topic, numbered(5), partition=number)
        writer.flush()
    assert [sorted(batch.partition for batch in request) for request in broker.produced] == [[0, 1, 2]]


def test_the_first_batch_of_a_transaction_is_sent_alone(broker: ScriptedBroker, topic: str) -> None:
    broker.script(ApiKey.PRODUCE, Code.CONCURRENT_TRANSACTIONS)
    with _writer(broker, batch_size=500_000) as writer:
        write_values(writer, topic, numbered(3_000), step=3_000)
        writer.flush()
    first, again, *rest = [batch for request in broker.produced for batch in request]
    assert first == again
    assert first.sequence == 0
    assert first.size < 40_000
    assert rest[0].sequence == first.count


@pytest.mark.parametrize(
    "code",
    [
        Code.NOT_LEADER_OR_FOLLOWER,
        Code.NOT_ENOUGH_REPLICAS,
        Code.REQUEST_TIMED_OUT,
        Code.OPERATION_NOT_ATTEMPTED,
        LOSE,
    ],
)
def test_a_batch_is_sent_again_with_the_same_sequence(broker: ScriptedBroker, topic: str, code: int) -> None:
    broker.script(ApiKey.PRODUCE, code)
    with _writer(broker, sequences={(topic, 0): 9}) as writer:
        write_values(writer, topic, numbered(5))
        [ack] = writer.flush()
    assert _sequences(broker) == [[(9, 5)], [(9, 5)]]
    assert (ack.base_sequence, ack.count, ack.base_offset) == (9, 5, 100)


def test_a_moved_leader_is_looked_up_again(broker: ScriptedBroker, topic: str) -> None:
    broker.script(ApiKey.PRODUCE, Code.NOT_LEADER_OR_FOLLOWER)
    with _writer(broker) as writer:
        writer.partitions(topic)
        asked = len(broker.asked(ApiKey.METADATA))
        write_values(writer, topic, numbered(1))
        writer.flush()
    assert len(broker.asked(ApiKey.METADATA)) > asked


@pytest.mark.parametrize("code", [Code.NOT_LEADER_OR_FOLLOWER, LOSE])
def test_moved_leaders_of_many_topics_are_looked_up_by_one_request(broker: ScriptedBroker, code: int) -> None:
    several = [unique("topic") for _ in range(20)]
    with _writer(broker, sequences={(topic, 0): 0 for topic in several}) as writer:
        writer.prefetch_topics(several)
        broker.script(ApiKey.PRODUCE, code)
        for topic in several:
            write_values(writer, topic, numbered(1))
        asked = len(broker.asked(ApiKey.METADATA))
        assert len(writer.flush()) == len(several)
    assert [sorted(topic.name for topic in request.topics) for request in broker.asked(ApiKey.METADATA)[asked:]] == [
        sorted(several)
    ]


def test_a_batch_that_is_too_large_is_halved_in_place(broker: ScriptedBroker, topic: str) -> None:
    broker.script(ApiKey.PRODUCE, Code.MESSAGE_TOO_LARGE)
    with _writer(broker, sequences={(topic, 0): 0}) as writer:
        write_values(writer, topic, numbered(9))
        acks = writer.flush()
    assert _sequences(broker) == [[(0, 9)], [(0, 4)], [(4, 5)]]
    assert [ack.count for ack in acks] == [4, 5]


def test_a_single_record_that_is_too_large_is_refused(broker: ScriptedBroker, topic: str) -> None:
    broker.script(ApiKey.PRODUCE, Code.MESSAGE_TOO_LARGE)
    with _writer(broker) as writer:
        writer.write(topic, 0, records([b"x" * 500]))
        with pytest.raises(RecordTooLargeError, match=topic):
            writer.flush()


def test_a_batch_of_unknown_outcome_is_not_halved(broker: ScriptedBroker, topic: str) -> None:
    broker.script(ApiKey.PRODUCE, LOSE, Code.MESSAGE_TOO_LARGE)
    with _writer(broker, sequences={(topic, 0): 0}) as writer:
        write_values(writer, topic, numbered(9))
        with pytest.raises(TransactionAbortableError, match="became too large while it was sent again"):
            writer.flush()


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (Code.INVALID_PRODUCER_EPOCH, InvalidProducerEpochError),
        (Code.PRODUCER_FENCED, InvalidProducerEpochError),
        (Code.TOPIC_AUTHORIZATION_FAILED, AuthorizationError),
        (Code.TRANSACTION_ABORTABLE, TransactionAbortableError),
        (Code.OUT_OF_ORDER_SEQUENCE_NUMBER, TransactionAbortableError),
    ],
)
def test_a_refusal_ends_the_writer(broker: ScriptedBroker, topic: str, code: Code, error: type[Exception]) -> None:
    broker.script(ApiKey.PRODUCE, code)
    with _writer(broker) as writer:
        write_values(writer, topic, numbered(1))
        with pytest.raises(error):
            writer.flush()
        assert not writer.finished


def test_a_batch_that_is_refused_until_its_timeout_fails(broker: ScriptedBroker, topic: str) -> None:
    broker.script(ApiKey.PRODUCE, *[Code.NOT_ENOUGH_REPLICAS] * 1_000)
    with _writer(broker, delivery_timeout_ms=300) as writer:
        write_values(writer, topic, numbered(1))
        with pytest.raises(DeliveryTimeoutError, match="NOT_ENOUGH_REPLICAS"):
            writer.flush()


def test_the_limit_of_a_topic_bounds_its_batches(broker: ScriptedBroker, topic: str) -> None:
    broker.settings["max.message.bytes"] = "1000"
    with _writer(broker) as writer:
        write_values(writer, topic, numbered(50), step=50)
        writer.flush()
        with pytest.raises(RecordTooLargeError, match=r"max\.message\.bytes"):
            writer.write(topic, 0, records([b"x" * 1_100]))
    assert all(batch.size <= 1_000 for request in broker.produced for batch in request)


def test_a_diskless_topic_is_refused_in_a_transaction_only(broker: ScriptedBroker, topic: str) -> None:
    broker.settings["diskless.enable"] = "true"
    with _writer(broker) as writer, pytest.raises(DisklessTopicError):
        write_values(writer, topic, numbered(1))
    with _writer(broker, transactional_id=None) as writer:
        write_values(writer, topic, numbered(1))
        assert len(writer.flush()) == 1


def test_version_1_adds_each_partition_before_its_first_batch(topic: str) -> None:
    with ScriptedBroker(partitions=2, version=V1) as broker, _writer(broker, version=V1) as writer:
        broker.script(ApiKey.ADD_PARTITIONS_TO_TXN, Code.CONCURRENT_TRANSACTIONS)
        for _ in range(2):
            for number in range(2):
                write_values(writer, topic, numbered(1), partition=number)
            writer.flush()
        added = [
            (each.name, number)
            for request in broker.asked(ApiKey.ADD_PARTITIONS_TO_TXN)
            for each in request.v3_and_below_topics
            for number in each.partitions
        ]
        keys = [key for key, _ in broker.requests]
        assert added == [(topic, 0), (topic, 1)] * 2
        assert keys.index(ApiKey.ADD_PARTITIONS_TO_TXN) < keys.index(ApiKey.PRODUCE)


def test_a_refused_partition_is_in_doubt_and_nothing_is_sent_to_it(topic: str) -> None:
    with ScriptedBroker(version=V1) as broker, _writer(broker, version=V1) as writer:
        broker.script(ApiKey.ADD_PARTITIONS_TO_TXN, Code.TOPIC_AUTHORIZATION_FAILED)
        write_values(writer, topic, numbered(1))
        with pytest.raises(AuthorizationError, match=topic):
            writer.flush()
        assert broker.produced == []
        assert writer.in_doubt


def test_a_cancelled_writer_stops_waiting(broker: ScriptedBroker, topic: str) -> None:
    broker.script(ApiKey.PRODUCE, *[Code.NOT_ENOUGH_REPLICAS] * 100_000)
    failures: list[Exception] = []

    def write() -> None:
        try:
            write_values(writer, topic, numbered(1))
            writer.flush()
        except IllegalStateError as error:
            failures.append(error)

    with _writer(broker) as writer:
        thread = threading.Thread(target=write)
        thread.start()
        wait_for(lambda: broker.produced)
        writer.cancel()
        thread.join(60)
    assert [str(failure) for failure in failures] == ["The writer of id was cancelled"]


def test_buffered_records_are_bounded_by_buffer_memory(broker: ScriptedBroker, topic: str) -> None:
    with _writer(broker, batch_size=1 << 20, buffer_memory=10_000) as writer:
        for number in range(3):
            write_values(writer, topic, numbered(60), partition=number, step=60)
        wait_for(lambda: broker.produced)
        writer.flush()
    assert {batch.partition for request in broker.produced for batch in request} == {0, 1, 2}
