"""Errors survive being sent from an executor to the driver, and say what to do."""

from __future__ import annotations

import pickle

import pytest

from fencepost.api.errors import RetriableError
from fencepost.kafka import errors


@pytest.mark.parametrize(
    "error",
    [
        errors.AuthenticationError("m"),
        errors.AuthorizationError("topic orders", "WRITE"),
        errors.BrokerRefusedError("EndTxn", 42, "INVALID_REQUEST", "detail"),
        errors.BrokerUnavailableError("m", address="h:1"),
        errors.DeliveryTimeoutError("t", 1, waited_ms=5, last_problem="p"),
        errors.InvalidProducerEpochError("tid", "PRODUCER_FENCED"),
        errors.ProducerFencedError("tid"),
        errors.RecordTooLargeError("t", 10, 5, "max.message.bytes"),
        errors.TopicCreationError("t", "why"),
        errors.TopicNotFoundError("t"),
        errors.TransactionAbortableError("m"),
        errors.TransactionExpiredError("tid", open_ms=5, timeout_ms=3),
        errors.UnknownOutcomeError("tid", "p"),
        errors.UnsupportedBrokerError("m"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_is_the_same_after_pickling(error: errors.KafkaError) -> None:
    copy = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own

    assert type(copy) is type(error)
    assert str(copy) == str(error)
    assert vars(copy) == vars(error)


def test_an_unreachable_broker_may_be_tried_again() -> None:
    assert isinstance(errors.BrokerUnavailableError("m"), RetriableError)


def test_a_lacking_right_is_named() -> None:
    assert "WRITE on topic orders" in str(errors.AuthorizationError("topic orders", "WRITE"))


def test_an_oversize_record_names_topic_size_limit_and_setting() -> None:
    message = str(errors.RecordTooLargeError("orders", 10, 5, "max.message.bytes"))

    for part in ("orders", "10 bytes", "5 bytes", "max.message.bytes"):
        assert part in message
