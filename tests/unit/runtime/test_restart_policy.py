from __future__ import annotations

import pytest

from fencepost import ConfigError, DataError, RetriableError
from fencepost.kafka.errors import (
    BrokerUnavailableError,
    DeliveryTimeoutError,
    ProducerFencedError,
    RecordTooLargeError,
    TransactionExpiredError,
    UnknownOutcomeError,
)
from fencepost.runtime.restart_policy import LONGEST_DELAY_S, MOST_FAILURES, RestartPolicy, may_pass
from fencepost.spark.errors import SparkDataError, SparkJobError, SparkStartError

PASSING = [
    RetriableError("x"),
    BrokerUnavailableError("x"),
    DeliveryTimeoutError("t", 0, waited_ms=1, last_problem="x"),
    UnknownOutcomeError("id", "x"),
    SparkJobError("executor lost"),
]
LASTING = [
    DataError("x"),
    ConfigError("x"),
    RecordTooLargeError("t", 2, 1, "max.request.size"),
    ProducerFencedError("id"),
    TransactionExpiredError("id", open_ms=2, timeout_ms=1),
    SparkStartError("no Java"),
    SparkDataError("a cast of what is no number"),
    RuntimeError("the connector's own"),
]


@pytest.mark.parametrize("error", PASSING, ids=lambda error: type(error).__name__)
def test_a_failure_that_may_pass_starts_the_task_again(error: Exception):
    assert may_pass(error)
    assert RestartPolicy().failed(error) is not None


@pytest.mark.parametrize("error", LASTING, ids=lambda error: type(error).__name__)
def test_a_failure_that_stays_fails_the_task(error: Exception):
    assert not may_pass(error)
    assert RestartPolicy().failed(error) is None


def test_the_delay_doubles_up_to_a_limit_and_the_task_gives_up_in_the_end():
    policy = RestartPolicy()
    delays = [policy.failed(RetriableError("x")) for _ in range(MOST_FAILURES)]
    assert delays == [0.5, 1, 2, 4, 8, 16, LONGEST_DELAY_S, LONGEST_DELAY_S, LONGEST_DELAY_S, None]


def test_a_commit_starts_the_count_again():
    policy = RestartPolicy()
    for _ in range(MOST_FAILURES - 1):
        policy.failed(RetriableError("x"))
    policy.progressed()
    assert policy.failed(RetriableError("x")) == 0.5
