"""A sink's errors are about rows and options, not about connectors, tasks, workers and their properties."""

from __future__ import annotations

import re

import pytest

from fencepost.api.errors import DataError, FencepostError, RetriableError
from fencepost.engine.errors import RecordRefusedError, RecordWaitsError
from fencepost.engine.refused_records import Tally
from fencepost.kafka import errors as kafka
from fencepost.spark.errors import BatchExpiredError, CommitUnknownError, SinkFencedError, TopicRecreatedError
from fencepost.spark.frame.wording import in_spark_terms

_OF_WORKERS = re.compile(r"connector|\btasks?\b|worker|SourceBatch|producer\.override|configuration|boundary")
_REFUSED = "A record for topic t failed in the stage VALUE_CONVERTER (JsonConverter): no number."

_SAME = [
    RecordRefusedError("for the connector", record=_REFUSED),
    RecordWaitsError("for the task", record=_REFUSED),
    kafka.RecordTooLargeError("t", 10, 5, "producer.override.max.request.size"),
    kafka.RecordTooLargeError("t", 10, None, "max.message.bytes of topic t"),
    kafka.DeliveryTimeoutError("t", 1, waited_ms=5, last_problem="p"),
    kafka.TopicNotFoundError("t"),
    kafka.InvalidTimestampError("t", "late"),
    kafka.AuthorizationError("topic t", "WRITE"),
    kafka.TransactionalIdExpiredError("tid"),
]
_OWN = {
    SinkFencedError: kafka.ProducerFencedError("tid"),
    BatchExpiredError: kafka.TransactionExpiredError("tid", open_ms=5, timeout_ms=3),
    CommitUnknownError: kafka.UnknownOutcomeError("tid", "no answer"),
    TopicRecreatedError: kafka.PartitionGoneError("t", 1),
}


def worded(error: FencepostError) -> FencepostError:
    return in_spark_terms(error, sink="sink orders", batch="batch 3 of sink orders")


@pytest.mark.parametrize("error", _SAME, ids=lambda error: type(error).__name__)
def test_an_error_keeps_its_class_and_attributes_in_words_for_spark_users(error: FencepostError):
    found = worded(error)
    assert type(found) is type(error)
    assert vars(found) == vars(error)
    assert not _OF_WORKERS.search(str(found))


@pytest.mark.parametrize("kind", _OWN, ids=lambda kind: kind.__name__)
def test_an_error_of_the_transaction_becomes_one_of_the_sink(kind: type[FencepostError]):
    found = worded(_OWN[kind])
    assert type(found) is kind
    assert "orders" in str(found)
    assert not _OF_WORKERS.search(str(found))


def test_a_refused_row_is_named_with_advice():
    told = str(worded(RecordRefusedError("m", tally=Tally(), record=_REFUSED)))
    assert told.startswith(_REFUSED)
    assert "correct the row, or the sink's options for converters and transforms" in told
    assert "errors.tolerance=all" in told


def test_the_setting_of_a_row_that_is_too_large_is_an_option_of_the_sink():
    told = str(worded(kafka.RecordTooLargeError("t", 10, 5, "producer.override.max.request.size")))
    assert "more than the 5 bytes that max.request.size allows: raise max.request.size" in told


def test_an_error_without_worker_terms_is_not_reworded():
    for error in (DataError("the column 'x'"), RetriableError("later")):
        assert worded(error) is error


def test_a_row_that_cannot_be_skipped_has_no_advice_to_skip_it():
    refused = RecordRefusedError("m", tally=Tally(), record=_REFUSED)
    told = str(in_spark_terms(refused, sink="sink orders", batch="sink orders", may_skip=False))
    assert told.startswith(_REFUSED)
    assert "errors.tolerance" not in told
    assert "write_kafka" in told
