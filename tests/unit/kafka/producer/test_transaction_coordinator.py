"""Requests to the coordinator, and the meaning of its answers. tests/broker/kafka has the tests with real ones."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import closing

import pytest

from fencepost.api.errors import ConfigError
from fencepost.kafka.deadline import Deadline
from fencepost.kafka.errors import (
    AuthorizationError,
    BrokerUnavailableError,
    ConcurrentTransactionsError,
    InvalidProducerEpochError,
    LostEpochError,
    TransactionAbortableError,
    TransactionalIdExpiredError,
)
from fencepost.kafka.producer.transaction import ProducerIdentity, TransactionVersion
from fencepost.kafka.producer.transaction_coordinator import TransactionCoordinator
from fencepost.kafka.transport.error_codes import Code
from tests.support.fault_proxy import ApiKey
from tests.support.processes import wait_for
from tests.support.scripted_broker import LOSE, ScriptedBroker
from tests.support.writing import producer_config

V1, V2 = TransactionVersion.V1, TransactionVersion.V2
OURS = ProducerIdentity(7, 3)
NOBODY = ProducerIdentity()


@pytest.fixture
def broker() -> Iterator[ScriptedBroker]:
    with ScriptedBroker() as scripted:
        yield scripted


@pytest.fixture
def coordinator(broker: ScriptedBroker) -> Iterator[TransactionCoordinator]:
    with closing(TransactionCoordinator.of(producer_config(broker.address).client, "id")) as made:
        yield made


def _soon(milliseconds: float = 20_000) -> Deadline:
    return Deadline.after(milliseconds)


def _init(coordinator: TransactionCoordinator, current: ProducerIdentity = NOBODY) -> ProducerIdentity:
    return coordinator.init_producer_id(current, timeout_ms=60_000, deadline=_soon())[0]


def _commit(coordinator: TransactionCoordinator, version: TransactionVersion = V2) -> ProducerIdentity:
    return coordinator.end_transaction(OURS, version, committed=True, deadline=_soon())


@pytest.mark.parametrize("version", [V1, V2])
def test_the_transaction_version_is_the_clusters(version: TransactionVersion) -> None:
    with ScriptedBroker(version=version) as broker:
        broker.identity = (7, 4)
        with closing(TransactionCoordinator.of(producer_config(broker.address).client, "id")) as coordinator:
            found = coordinator.init_producer_id(OURS, timeout_ms=60_000, deadline=_soon())
    assert found == (ProducerIdentity(7, 4), version)
    [request] = broker.asked(ApiKey.INIT_PRODUCER_ID)
    assert (request.transactional_id, request.producer_id, request.producer_epoch) == ("id", 7, 3)


@pytest.mark.parametrize("code", [Code.NOT_COORDINATOR, Code.COORDINATOR_NOT_AVAILABLE, LOSE])
def test_a_coordinator_that_moved_is_looked_up_again(
    broker: ScriptedBroker, coordinator: TransactionCoordinator, code: int
) -> None:
    broker.script(ApiKey.END_TXN, code)
    broker.identity = (7, 4)
    assert _commit(coordinator) == ProducerIdentity(7, 4)
    assert len(broker.asked(ApiKey.FIND_COORDINATOR)) == 2
    first, again = broker.asked(ApiKey.END_TXN)
    assert (first.producer_epoch, first.committed) == (again.producer_epoch, again.committed) == (3, True)


def test_a_retriable_answer_is_retried_on_the_same_connection(
    broker: ScriptedBroker, coordinator: TransactionCoordinator
) -> None:
    broker.script(ApiKey.END_TXN, *[Code.CONCURRENT_TRANSACTIONS] * 3)
    _commit(coordinator)
    assert len(broker.asked(ApiKey.END_TXN)) == 4
    assert len(broker.asked(ApiKey.FIND_COORDINATOR)) == 1


def test_a_fencing_during_the_end_is_recognized(broker: ScriptedBroker, coordinator: TransactionCoordinator) -> None:
    broker.script(ApiKey.END_TXN, Code.UNKNOWN_SERVER_ERROR, Code.PRODUCER_FENCED)
    with pytest.raises(InvalidProducerEpochError):
        _commit(coordinator)
    assert len(broker.asked(ApiKey.END_TXN)) == 2


def test_version_1_keeps_its_epoch_at_the_end_and_version_2_raises_it(
    broker: ScriptedBroker, coordinator: TransactionCoordinator
) -> None:
    broker.identity = (7, 4)
    assert _commit(coordinator, V1) == OURS
    assert _commit(coordinator, V2) == ProducerIdentity(7, 4)
    assert [request.API_VERSION for request in broker.asked(ApiKey.END_TXN)] == [4, 5]


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (Code.INVALID_PRODUCER_EPOCH, InvalidProducerEpochError),
        (Code.PRODUCER_FENCED, InvalidProducerEpochError),
        (Code.INVALID_TXN_STATE, InvalidProducerEpochError),
        (Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, AuthorizationError),
        (Code.TRANSACTION_ABORTABLE, TransactionAbortableError),
    ],
)
def test_a_refusal_is_raised_at_once(
    broker: ScriptedBroker, coordinator: TransactionCoordinator, code: Code, error: type[Exception]
) -> None:
    broker.script(ApiKey.END_TXN, code)
    with pytest.raises(error):
        _commit(coordinator)
    assert len(broker.asked(ApiKey.END_TXN)) == 1


def test_a_timeout_that_is_too_long_names_its_property(
    broker: ScriptedBroker, coordinator: TransactionCoordinator
) -> None:
    broker.script(ApiKey.INIT_PRODUCER_ID, Code.INVALID_TRANSACTION_TIMEOUT)
    with pytest.raises(ConfigError, match=r"transaction\.max\.timeout\.ms"):
        _init(coordinator)


def test_an_epoch_that_a_lost_answer_may_have_raised_is_distinguished_from_fencing(
    broker: ScriptedBroker, coordinator: TransactionCoordinator
) -> None:
    broker.script(ApiKey.INIT_PRODUCER_ID, LOSE, Code.PRODUCER_FENCED)
    broker.identity = (OURS.producer_id, OURS.epoch + 1)
    with pytest.raises(LostEpochError):
        _init(coordinator, OURS)


@pytest.mark.parametrize(("identity", "state"), [((7, 5), "Empty"), ((9, 0), "Empty"), ((7, 4), "Ongoing")])
def test_another_owner_after_a_lost_answer_is_fencing(
    broker: ScriptedBroker, coordinator: TransactionCoordinator, identity: tuple[int, int], state: str
) -> None:
    broker.script(ApiKey.INIT_PRODUCER_ID, LOSE, Code.PRODUCER_FENCED)
    broker.identity, broker.state = identity, state
    with pytest.raises(InvalidProducerEpochError):
        _init(coordinator, OURS)


def test_partitions_are_added_by_topic_and_a_new_topic_is_waited_for(
    broker: ScriptedBroker, coordinator: TransactionCoordinator
) -> None:
    broker.script(ApiKey.ADD_PARTITIONS_TO_TXN, Code.UNKNOWN_TOPIC_OR_PARTITION)
    coordinator.add_partitions(OURS, [("a", 0), ("b", 1), ("a", 2)], _soon())
    first, again = broker.asked(ApiKey.ADD_PARTITIONS_TO_TXN)
    topics = {topic.name: list(topic.partitions) for topic in again.v3_and_below_topics}
    assert topics == {"a": [0, 2], "b": [1]}
    assert first.v3_and_below_producer_epoch == 3


def test_a_topic_that_may_not_be_written_is_named(broker: ScriptedBroker, coordinator: TransactionCoordinator) -> None:
    broker.script(ApiKey.ADD_PARTITIONS_TO_TXN, Code.TOPIC_AUTHORIZATION_FAILED)
    with pytest.raises(AuthorizationError, match="topic secret"):
        coordinator.add_partitions(OURS, [("secret", 0)], _soon())


def test_an_epoch_is_checked_by_an_abort_that_finds_no_transaction(
    broker: ScriptedBroker, coordinator: TransactionCoordinator
) -> None:
    broker.script(ApiKey.END_TXN, Code.INVALID_TXN_STATE, Code.INVALID_PRODUCER_EPOCH)
    coordinator.check_epoch(OURS, _soon())
    with pytest.raises(InvalidProducerEpochError):
        coordinator.check_epoch(OURS, _soon())
    assert [request.committed for request in broker.asked(ApiKey.END_TXN)] == [False, False]


def test_an_identity_is_retired_only_by_its_owner(broker: ScriptedBroker, coordinator: TransactionCoordinator) -> None:
    broker.identity = (7, 4)
    with pytest.raises(InvalidProducerEpochError):
        coordinator.retire(OURS, timeout_ms=60_000, deadline=_soon())
    assert broker.asked(ApiKey.INIT_PRODUCER_ID) == []
    broker.identity = (7, 3)
    broker.script(ApiKey.INIT_PRODUCER_ID, Code.CONCURRENT_TRANSACTIONS, Code.INVALID_PRODUCER_EPOCH)
    coordinator.retire(OURS, timeout_ms=60_000, deadline=_soon())
    assert len(broker.asked(ApiKey.INIT_PRODUCER_ID)) == 2


def test_the_end_of_the_last_transaction_is_awaited(
    broker: ScriptedBroker, coordinator: TransactionCoordinator
) -> None:
    broker.state = "PrepareCommit"
    waiting = threading.Thread(target=lambda: coordinator.await_completion(_soon(60_000)))
    waiting.start()
    wait_for(lambda: len(broker.asked(ApiKey.DESCRIBE_TRANSACTIONS)) > 1)
    broker.state = "CompleteCommit"
    waiting.join(60)
    assert not waiting.is_alive()


def test_a_forgotten_transactional_id_is_distinguished(
    broker: ScriptedBroker, coordinator: TransactionCoordinator
) -> None:
    broker.script(ApiKey.DESCRIBE_TRANSACTIONS, Code.TRANSACTIONAL_ID_NOT_FOUND)
    with pytest.raises(TransactionalIdExpiredError):
        coordinator.describe(_soon())


def test_a_transaction_that_never_ends_is_named_with_its_state(
    broker: ScriptedBroker, coordinator: TransactionCoordinator
) -> None:
    broker.script(ApiKey.INIT_PRODUCER_ID, *[Code.CONCURRENT_TRANSACTIONS] * 10_000)
    broker.state = "PrepareAbort"
    with pytest.raises(ConcurrentTransactionsError, match="PrepareAbort"):
        coordinator.init_producer_id(NOBODY, timeout_ms=60_000, deadline=_soon(300))


def _cancelled_before(coordinator: TransactionCoordinator) -> None:
    coordinator.cancel()


@pytest.mark.parametrize("stop", [_cancelled_before, None], ids=["cancelled", "out of time"])
def test_a_call_without_an_answer_names_the_last_problem(
    broker: ScriptedBroker, coordinator: TransactionCoordinator, stop: Callable[[TransactionCoordinator], None] | None
) -> None:
    broker.script(ApiKey.END_TXN, *[Code.COORDINATOR_LOAD_IN_PROGRESS] * 10_000)
    if stop is not None:
        stop(coordinator)
    with pytest.raises(BrokerUnavailableError, match=r"did not answer EndTxn.*COORDINATOR_LOAD_IN_PROGRESS"):
        coordinator.end_transaction(OURS, V2, committed=True, deadline=_soon(60_000 if stop else 300))
