"""Interprets the error codes of Produce answers. No I/O."""

from __future__ import annotations

from enum import Enum, auto
from typing import Final

from fencepost.kafka.errors import (
    AuthorizationError,
    InvalidProducerEpochError,
    InvalidTimestampError,
    KafkaError,
    TransactionAbortableError,
)
from fencepost.kafka.producer.produce_request import PartitionResult
from fencepost.kafka.producer.transaction import TopicPartition
from fencepost.kafka.transport.error_codes import EPOCH_IS_DEAD, LEADER_MOVED, PASSING, Code, code_name, refused

_NO_KEY: Final = "If the topic is compacted, give each record a key, or write to a topic with cleanup.policy=delete"


class Verdict(Enum):
    """What to do with a batch after an answer."""

    WRITTEN = auto()
    LEADER_MOVED = auto()
    PASSING = auto()
    TOO_LARGE = auto()
    OUT_OF_ORDER = auto()
    LASTING = auto()


_TRANSACTION_IS_OVER = EPOCH_IS_DEAD | {Code.INVALID_TXN_STATE, Code.INVALID_PRODUCER_ID_MAPPING}
_RECORDS_WENT_MISSING = frozenset(
    {Code.OUT_OF_ORDER_SEQUENCE_NUMBER, Code.UNKNOWN_PRODUCER_ID, Code.TRANSACTION_ABORTABLE}
)


def judge(code: int) -> Verdict:
    """Return what to do with a partition's batch after an error code in the answer.

    DUPLICATE_SEQUENCE_NUMBER means that the broker already has the batch. OPERATION_NOT_ATTEMPTED means that the
    coordinator refused another partition of the request. The result of that partition has the cause, and this
    partition's batch is sent again.
    """
    if code in (Code.NONE, Code.DUPLICATE_SEQUENCE_NUMBER):
        return Verdict.WRITTEN
    if code in LEADER_MOVED:
        return Verdict.LEADER_MOVED
    if code in PASSING or code == Code.OPERATION_NOT_ATTEMPTED:
        return Verdict.PASSING
    if code in (Code.MESSAGE_TOO_LARGE, Code.RECORD_LIST_TOO_LARGE):
        return Verdict.TOO_LARGE
    if code == Code.OUT_OF_ORDER_SEQUENCE_NUMBER:
        return Verdict.OUT_OF_ORDER
    return Verdict.LASTING


def fatal_error(transactional_id: str | None, topic_partition: TopicPartition, result: PartitionResult) -> KafkaError:
    """Return the error for a batch that cannot be retried; `transactional_id` is None outside of transactions."""
    topic, partition = topic_partition
    if transactional_id is None and result.code in _TRANSACTION_IS_OVER | _RECORDS_WENT_MISSING:
        return TransactionAbortableError(
            f"The leader of {topic}-{partition} does not know the producer's earlier records "
            f"({code_name(result.code)}): the batch is sent again under another producer id"
        )
    if transactional_id is not None and result.code in _TRANSACTION_IS_OVER:
        return InvalidProducerEpochError(transactional_id, code_name(result.code))
    if result.code in _RECORDS_WENT_MISSING:
        return TransactionAbortableError(
            f"The leader of {topic}-{partition} does not know the transaction's earlier records "
            f"({code_name(result.code)}): the transaction of {transactional_id} is aborted and its records sent again"
        )
    return _refusal(transactional_id, topic_partition, result)


def _refusal(transactional_id: str | None, topic_partition: TopicPartition, result: PartitionResult) -> KafkaError:
    topic, partition = topic_partition
    if result.code == Code.TOPIC_AUTHORIZATION_FAILED:
        return AuthorizationError(f"topic {topic}", "WRITE")
    if result.code == Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
        return AuthorizationError(f"transactional id {transactional_id}", "WRITE")
    if result.code == Code.INVALID_TIMESTAMP:
        return InvalidTimestampError(topic, result.message)
    message = result.message
    if result.code == Code.INVALID_RECORD:
        message = f"{(message or 'it does not tell why').rstrip('.')}. {_NO_KEY}"
    return refused(f"records for {topic}-{partition}", result.code, message)
