"""Produce requests can be parsed by kafka-python's classes, and each error code has a defined consequence."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from kafka.protocol.producer import ProduceRequest

from fencepost.kafka.errors import (
    AuthorizationError,
    BrokerRefusedError,
    InvalidProducerEpochError,
    InvalidTimestampError,
    KafkaError,
    TransactionAbortableError,
)
from fencepost.kafka.producer.produce_errors import Verdict, fatal_error, judge
from fencepost.kafka.producer.produce_request import PartitionResult, encode_produce
from fencepost.kafka.producer.transaction import TopicPartition
from fencepost.kafka.transport.error_codes import Code, code_name


@dataclass(frozen=True)
class _Batch:
    topic_partition: TopicPartition
    parts: list[bytes] = field(default_factory=lambda: [b"head", b"body" * 100])

    @property
    def size(self) -> int:
        return sum(len(part) for part in self.parts)


@pytest.mark.parametrize("version", range(3, 13))
def test_a_request_holds_each_batch_under_its_topic_and_partition(version: int) -> None:
    batches = [_Batch(("a", 0)), _Batch(("b" * 200, 7)), _Batch(("a", 3), [b"x"])]

    body = b"".join(encode_produce("tid", batches, version=version, timeout_ms=1_234))

    request = ProduceRequest.decode(body, version=version)
    assert (request.transactional_id, request.acks, request.timeout_ms) == ("tid", -1, 1_234)
    found = {
        (topic.name, row.index): bytes(row.records) for topic in request.topic_data for row in topic.partition_data
    }
    assert found == {batch.topic_partition: b"".join(batch.parts) for batch in batches}
    assert [topic.name for topic in request.topic_data] == ["a", "b" * 200]


@pytest.mark.parametrize("version", [8, 12])
def test_a_request_outside_of_transactions_has_no_transactional_id(version: int) -> None:
    body = b"".join(encode_produce(None, [_Batch(("a", 0))], version=version, timeout_ms=1))

    request = ProduceRequest.decode(body, version=version)
    assert (request.transactional_id, request.topic_data[0].name) == (None, "a")


def test_record_batches_are_not_copied() -> None:
    batch = _Batch(("a", 0))

    parts = encode_produce("tid", [batch], version=12, timeout_ms=1)

    assert any(part is batch.parts[1] for part in parts)


@pytest.mark.parametrize(
    ("code", "verdict"),
    [
        (Code.NONE, Verdict.WRITTEN),
        (Code.DUPLICATE_SEQUENCE_NUMBER, Verdict.WRITTEN),
        (Code.NOT_LEADER_OR_FOLLOWER, Verdict.LEADER_MOVED),
        (Code.NOT_ENOUGH_REPLICAS, Verdict.PASSING),
        (Code.CONCURRENT_TRANSACTIONS, Verdict.PASSING),
        (Code.NETWORK_EXCEPTION, Verdict.PASSING),
        (Code.MESSAGE_TOO_LARGE, Verdict.TOO_LARGE),
        (Code.OUT_OF_ORDER_SEQUENCE_NUMBER, Verdict.OUT_OF_ORDER),
        (Code.INVALID_PRODUCER_EPOCH, Verdict.LASTING),
        (-1, Verdict.LASTING),
    ],
)
def test_an_error_code_has_its_verdict(code: int, verdict: Verdict) -> None:
    assert judge(code) is verdict


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (Code.INVALID_PRODUCER_EPOCH, InvalidProducerEpochError),
        (Code.PRODUCER_FENCED, InvalidProducerEpochError),
        (Code.INVALID_TXN_STATE, InvalidProducerEpochError),
        (Code.UNKNOWN_PRODUCER_ID, TransactionAbortableError),
        (Code.TRANSACTION_ABORTABLE, TransactionAbortableError),
        (Code.TOPIC_AUTHORIZATION_FAILED, AuthorizationError),
        (Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, AuthorizationError),
        (Code.INVALID_TIMESTAMP, InvalidTimestampError),
        (87, BrokerRefusedError),
    ],
)
def test_a_fatal_error_code_has_its_error(code: int, error: type[KafkaError]) -> None:
    found = fatal_error("tid", ("orders", 3), PartitionResult(code, -1, -1, "why"))

    assert type(found) is error


@pytest.mark.parametrize(
    "code", [Code.OUT_OF_ORDER_SEQUENCE_NUMBER, Code.UNKNOWN_PRODUCER_ID, Code.INVALID_PRODUCER_EPOCH]
)
def test_outside_of_transactions_lost_sequences_ask_for_another_producer_id(code: Code) -> None:
    error = fatal_error(None, ("orders", 3), PartitionResult(code, -1, -1, None))

    assert type(error) is TransactionAbortableError
    assert f"orders-3 does not know the producer's earlier records ({code.name})" in str(error)


def test_a_refused_record_carries_the_broker_s_reason_and_the_remedy() -> None:
    error = fatal_error("tid", ("orders", 3), PartitionResult(87, -1, -1, "no key on a compacted topic."))

    assert str(error) == (
        "The broker refused records for orders-3 with INVALID_RECORD (87): no key on a compacted topic. "
        "If the topic is compacted, give each record a key, or write to a topic with cleanup.policy=delete"
    )


def test_codes_without_a_name_here_have_kafka_s() -> None:
    assert code_name(44) == "POLICY_VIOLATION"
