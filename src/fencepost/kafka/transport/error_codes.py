"""Answers of brokers: decoding by kafka-python's protocol classes, error codes, and their exception classes."""

from __future__ import annotations

from enum import IntEnum
from typing import Any, Final

from kafka import errors as kafka_python_errors
from kafka.protocol.api_header import ResponseClassRegistry

from fencepost.kafka.errors import AuthorizationError, BrokerRefusedError, KafkaError


class Code(IntEnum):
    """The error codes that fencepost treats specially (https://kafka.apache.org/protocol#protocol_error_codes)."""

    UNKNOWN_SERVER_ERROR = -1
    NONE = 0
    OFFSET_OUT_OF_RANGE = 1
    CORRUPT_MESSAGE = 2
    UNKNOWN_TOPIC_OR_PARTITION = 3
    LEADER_NOT_AVAILABLE = 5
    NOT_LEADER_OR_FOLLOWER = 6
    REQUEST_TIMED_OUT = 7
    MESSAGE_TOO_LARGE = 10
    NETWORK_EXCEPTION = 13
    COORDINATOR_LOAD_IN_PROGRESS = 14
    COORDINATOR_NOT_AVAILABLE = 15
    NOT_COORDINATOR = 16
    INVALID_TOPIC = 17
    RECORD_LIST_TOO_LARGE = 18
    NOT_ENOUGH_REPLICAS = 19
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = 20
    TOPIC_AUTHORIZATION_FAILED = 29
    CLUSTER_AUTHORIZATION_FAILED = 31
    INVALID_TIMESTAMP = 32
    TOPIC_ALREADY_EXISTS = 36
    INVALID_PARTITIONS = 37
    INVALID_REPLICATION_FACTOR = 38
    INVALID_CONFIG = 40
    POLICY_VIOLATION = 44
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45
    DUPLICATE_SEQUENCE_NUMBER = 46
    INVALID_PRODUCER_EPOCH = 47
    INVALID_TXN_STATE = 48
    INVALID_PRODUCER_ID_MAPPING = 49
    INVALID_TRANSACTION_TIMEOUT = 50
    CONCURRENT_TRANSACTIONS = 51
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53
    OPERATION_NOT_ATTEMPTED = 55
    KAFKA_STORAGE_ERROR = 56
    UNKNOWN_PRODUCER_ID = 59
    LISTENER_NOT_FOUND = 72
    FENCED_LEADER_EPOCH = 74
    UNKNOWN_LEADER_EPOCH = 75
    INVALID_RECORD = 87
    PRODUCER_FENCED = 90
    UNKNOWN_TOPIC_ID = 100
    TRANSACTIONAL_ID_NOT_FOUND = 105
    TRANSACTION_ABORTABLE = 120


EPOCH_IS_DEAD: Final = frozenset({Code.INVALID_PRODUCER_EPOCH, Code.PRODUCER_FENCED})
"""Error codes for an outdated epoch of a transactional id: its transaction expired, or a newer instance took over."""

LEADER_MOVED: Final = frozenset(
    {
        Code.UNKNOWN_TOPIC_OR_PARTITION, Code.LEADER_NOT_AVAILABLE, Code.NOT_LEADER_OR_FOLLOWER,
        Code.KAFKA_STORAGE_ERROR, Code.LISTENER_NOT_FOUND, Code.FENCED_LEADER_EPOCH, Code.UNKNOWN_LEADER_EPOCH,
        Code.UNKNOWN_TOPIC_ID,
    }
)  # fmt: skip
"""Error codes after which a request can be retried with refreshed metadata."""

COORDINATOR_MOVED: Final = frozenset({Code.COORDINATOR_NOT_AVAILABLE, Code.NOT_COORDINATOR})
"""Error codes after which a request can be retried when the coordinator was looked up again."""

PASSING: Final = frozenset(
    {
        Code.CORRUPT_MESSAGE, Code.REQUEST_TIMED_OUT, Code.NETWORK_EXCEPTION, Code.COORDINATOR_LOAD_IN_PROGRESS,
        Code.COORDINATOR_NOT_AVAILABLE, Code.NOT_COORDINATOR, Code.NOT_ENOUGH_REPLICAS,
        Code.NOT_ENOUGH_REPLICAS_AFTER_APPEND, Code.CONCURRENT_TRANSACTIONS,
    }
)  # fmt: skip
"""Error codes after which a request can be retried after a pause."""


def response_class(request: Any) -> Any:
    """Return the class of the answer to a request. `request` is the request or its class."""
    return ResponseClassRegistry._response_class_registry[request.API_KEY]  # noqa: SLF001 - its public look-up wants an encoded header


def decode(response: Any, frame: bytes, version: int) -> Any:
    """Decode a frame (without its size) as an instance of the answer's class."""
    return response.decode(frame, version=version, header=True)


def code_name(code: int) -> str:
    """Return Kafka's name of an error code, for example NOT_LEADER_OR_FOLLOWER."""
    try:
        return Code(code).name
    except ValueError:
        return str(kafka_python_errors.for_code(code).message)


def is_retriable(code: int) -> bool:
    """Whether a request may be retried after an error code, such as a moved leader or coordinator, or a time-out."""
    return issubclass(kafka_python_errors.for_code(code), kafka_python_errors.RetriableError)


def refused(request: str, code: int, detail: str | None = None) -> KafkaError:
    """Return the error for a code that has no class of its own. `request` is for example "creating topic orders"."""
    if code == Code.CLUSTER_AUTHORIZATION_FAILED:
        return AuthorizationError("the cluster", f"the right needed for {request}")
    return BrokerRefusedError(request, code, code_name(code), detail)
