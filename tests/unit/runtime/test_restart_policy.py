from __future__ import annotations

import pytest

from fencepost import ConfigError, DataError, RetriableError
from fencepost.config.file_descriptors import OutOfFileDescriptorsError
from fencepost.config.restart_config import UNLIMITED, RestartConfig, TaskRestartPolicy
from fencepost.engine.errors import (
    RecordRefusedError,
    RecordWaitsError,
    SparkDataError,
    SparkJobError,
    SparkStartError,
)
from fencepost.kafka.consumer.read_to_end import TopicReadTimeoutError
from fencepost.kafka.errors import (
    BrokerUnavailableError,
    ConcurrentTransactionsError,
    DeliveryTimeoutError,
    DisklessTopicError,
    LostEpochError,
    ProducerFencedError,
    RecordTooLargeError,
    TransactionExpiredError,
    UnknownOutcomeError,
    UnsupportedBrokerError,
)
from fencepost.runtime.restart_policy import LONGEST_DELAY_S, RestartPolicy, is_worth_a_restart, patience
from fencepost.runtime.state import EndNotReachedError, ReplacedError

PASSING = [
    RetriableError("x"),
    BrokerUnavailableError("x"),
    ConcurrentTransactionsError("id", "InitProducerId", waited_ms=1, coordinator="b:1", state=None),
    LostEpochError("id"),
    DeliveryTimeoutError("t", 0, waited_ms=1, last_problem="x"),
    UnknownOutcomeError("id", "x"),
    SparkJobError("executor lost"),
    TopicReadTimeoutError("connect-offsets", 0, "a transaction of another task stays open until it expires"),
    RecordWaitsError("a converter that cannot reach its registry"),
]
LASTING = [
    DataError("x"),
    ConfigError("x"),
    RecordTooLargeError("t", 2, 1, "max.request.size"),
    DisklessTopicError("t"),
    UnsupportedBrokerError("old"),
    ProducerFencedError("id"),
    TransactionExpiredError("id", open_ms=2, timeout_ms=1),
    SparkStartError("no Java"),
    SparkDataError("a cast of what is not a number"),
    RecordRefusedError("a record that is not JSON"),
    RuntimeError("the connector's own"),
]


@pytest.mark.parametrize("error", PASSING, ids=lambda error: type(error).__name__)
def test_a_retriable_failure_restarts_the_task(error: Exception):
    assert is_worth_a_restart(error)
    assert RestartPolicy().failed(error) is not None


@pytest.mark.parametrize("error", LASTING, ids=lambda error: type(error).__name__)
def test_a_failure_that_stays_fails_the_task(error: Exception):
    assert not is_worth_a_restart(error)
    assert RestartPolicy().failed(error) is None


def test_the_delay_doubles_up_to_a_limit_and_the_task_gives_up_in_the_end():
    policy = RestartPolicy()
    delays = [policy.failed(RetriableError("x")) for _ in range(11)]
    assert delays == [0.5, 1, 2, 4, 8, 16, *[LONGEST_DELAY_S] * 4, None]


def test_a_commit_resets_the_count_of_restarts():
    policy = RestartPolicy()
    for _ in range(10):
        policy.failed(RetriableError("x"))
    policy.progressed()
    assert policy.failed(RetriableError("x")) == 0.5


def _policy(worker: dict[str, str] | None = None, **connector: str) -> RestartPolicy:
    given = {f"task.restart.{name.replace('_', '.')}": value for name, value in connector.items()}
    return RestartPolicy(RestartConfig.of(worker or {}, given))


def test_a_connectors_settings_override_its_workers():
    policy = _policy({"task.restart.max": "1", "task.restart.backoff.ms": "100"}, max="2")
    assert [policy.failed(RetriableError("x")) for _ in range(3)] == [0.1, 0.2, None]


def test_a_first_pause_beyond_the_usual_limit_is_kept():
    policy = _policy(backoff_ms="60000")
    assert [policy.failed(RetriableError("x")) for _ in range(2)] == [60, 60]


def test_without_a_limit_the_task_never_gives_up():
    policy = _policy(max="-1")
    assert [policy.failed(RetriableError("x")) for _ in range(2000)][-1] == LONGEST_DELAY_S


def test_a_restart_limit_lowered_below_the_restarts_so_far_applies():
    policy = _policy(max="-1")
    assert [policy.failed(RetriableError("x")) is None for _ in range(3)] == [False] * 3
    policy.config = RestartConfig(most=2)
    assert policy.failed(RetriableError("x")) is None


@pytest.mark.parametrize("error", PASSING, ids=lambda error: type(error).__name__)
def test_no_failure_is_restarted_if_the_policy_forbids_it(error: Exception):
    assert _policy(policy="never").failed(error) is None
    assert _policy(max="0").failed(error) is None


@pytest.mark.parametrize(
    "error", [*PASSING, DataError("x"), RuntimeError("the connector's own")], ids=lambda error: type(error).__name__
)
def test_always_covers_errors_of_a_connectors_own_code(error: Exception):
    assert _policy(policy="Always").failed(error) is not None


@pytest.mark.parametrize(
    "error", [ConfigError("x"), ProducerFencedError("id"), ReplacedError("x")], ids=lambda error: type(error).__name__
)
def test_nothing_restarts_a_wrong_configuration_or_a_task_that_another_one_replaced(error: Exception):
    assert _policy(policy="always").failed(error) is None


@pytest.mark.parametrize(("name", "value"), [("policy", "sometimes"), ("max", "-2"), ("backoff_ms", "-1")])
def test_settings_that_will_not_do_are_refused(name: str, value: str):
    with pytest.raises(ConfigError):
        _policy(**{name: value})


@pytest.mark.parametrize(
    ("config", "seconds"),
    [
        (RestartConfig(), 151.5),
        (RestartConfig(most=2, backoff_s=0.1), 0.3),
        (RestartConfig(most=100), 151.5 + 90 * 30),
        (RestartConfig(most=10_000), 151.5 + 9_990 * 30),
        (RestartConfig(most=2, backoff_s=60), 120),
        (RestartConfig(most=0), 0),
        (RestartConfig(TaskRestartPolicy.NEVER), 0),
        (RestartConfig(TaskRestartPolicy.ALWAYS, most=1), 0.5),
        (RestartConfig(most=UNLIMITED), None),
    ],
)
def test_the_pauses_of_all_restarts_in_a_row_are_known_beforehand(config: RestartConfig, seconds: float | None):
    assert patience(config) == (seconds if seconds is None else pytest.approx(seconds))


@pytest.mark.parametrize("policy", TaskRestartPolicy)
def test_a_source_that_did_not_come_to_its_end_is_not_started_again(policy: TaskRestartPolicy):
    assert RestartPolicy(RestartConfig(policy)).failed(EndNotReachedError("x")) is None


def test_a_task_without_file_descriptors_waits_for_them_without_a_limit():
    policy = RestartPolicy(RestartConfig(most=3))
    assert all(policy.failed(OutOfFileDescriptorsError("x")) is not None for _ in range(100))
    assert RestartPolicy(RestartConfig(TaskRestartPolicy.NEVER)).failed(OutOfFileDescriptorsError("x")) is None


def test_waiting_for_file_descriptors_leaves_the_number_of_restarts():
    policy = RestartPolicy()
    for _ in range(20):
        assert policy.failed(OutOfFileDescriptorsError("x")) is not None
    assert [policy.failed(RetriableError("x")) for _ in range(3)] == [0.5, 1, 2]
