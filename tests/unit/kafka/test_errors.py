"""Error messages say what to do."""

from __future__ import annotations

from fencepost.api.errors import RetriableError
from fencepost.kafka import errors


def test_an_unreachable_broker_may_be_tried_again() -> None:
    assert isinstance(errors.BrokerUnavailableError("m"), RetriableError)


def test_a_lacking_right_is_named() -> None:
    assert "WRITE on topic orders" in str(errors.AuthorizationError("topic orders", "WRITE"))


def test_an_oversize_record_names_topic_size_limit_and_setting() -> None:
    message = str(errors.RecordTooLargeError("orders", 10, 5, "max.message.bytes"))

    for part in ("orders", "10 bytes", "5 bytes", "max.message.bytes"):
        assert part in message
