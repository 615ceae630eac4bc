"""Under version 2, a transaction's first request waits for the markers of the previous transaction."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import closing

import pytest

from fencepost.kafka.errors import TransactionalIdExpiredError
from fencepost.kafka.producer.transaction import TransactionState
from fencepost.kafka.producer.transactional import TransactionalProducer
from fencepost.kafka.transport.error_codes import Code
from tests.support.fault_proxy import ApiKey
from tests.support.processes import wait_for
from tests.support.scripted_broker import LOSE, ScriptedBroker
from tests.support.topics import unique
from tests.support.writing import open_producer, producer_config, write_in_transaction, write_values


@pytest.fixture
def broker() -> Iterator[ScriptedBroker]:
    with ScriptedBroker() as scripted:
        yield scripted


@pytest.fixture
def ended(broker: ScriptedBroker) -> Iterator[TransactionalProducer]:
    """A producer whose first transaction was committed, but has no markers yet."""
    with open_producer(producer_config(broker.address), unique("task")) as producer:
        producer.begin_transaction()
        write_in_transaction(producer, "topic", [b"first"])
        producer.commit_transaction()
        broker.state = "PrepareCommit"
        yield producer


@pytest.fixture
def producer(ended: TransactionalProducer) -> TransactionalProducer:
    """A producer in its second transaction, while the first one has no markers yet."""
    ended.begin_transaction()
    return ended


def _write(producer: TransactionalProducer) -> None:
    with closing(producer.writer()) as writer:
        write_values(writer, "topic", [b"second"])
        producer.acknowledge(writer.flush())


def _lend(producer: TransactionalProducer) -> None:
    with producer.lent():
        pass


@pytest.mark.parametrize("use", [_write, _lend], ids=["a writer", "a loan"])
def test_the_first_use_waits_for_the_last_transaction(
    broker: ScriptedBroker, producer: TransactionalProducer, use: Callable[[TransactionalProducer], None]
) -> None:
    using = threading.Thread(target=use, args=[producer])
    using.start()
    wait_for(lambda: len(broker.asked(ApiKey.DESCRIBE_TRANSACTIONS)) > 1)
    assert using.is_alive()
    assert len(broker.produced) == 1
    broker.state = "CompleteCommit"
    using.join(60)
    assert not using.is_alive()
    assert len(broker.produced) == (2 if use is _write else 1)


@pytest.mark.parametrize("end", [TransactionalProducer.abort_transaction, TransactionalProducer.close])
def test_a_transaction_that_sent_nothing_is_aborted_without_a_request(
    broker: ScriptedBroker, producer: TransactionalProducer, end: Callable[[TransactionalProducer], None]
) -> None:
    end(producer)
    assert producer.state in (TransactionState.READY, TransactionState.CLOSED)
    assert [request.committed for request in broker.asked(ApiKey.END_TXN)] == [True]


def test_an_expired_id_fails_the_producer_at_the_first_use(
    broker: ScriptedBroker, ended: TransactionalProducer
) -> None:
    broker.state = ""
    # The first of the two errors answers the request in begin_transaction.
    broker.script(ApiKey.DESCRIBE_TRANSACTIONS, *[Code.TRANSACTIONAL_ID_NOT_FOUND] * 2)
    ended.begin_transaction()
    with pytest.raises(TransactionalIdExpiredError):
        _write(ended)
    assert ended.state is TransactionState.FAILED


def test_a_completed_transaction_is_asked_for_once_and_ahead(
    broker: ScriptedBroker, ended: TransactionalProducer
) -> None:
    broker.state = "CompleteCommit"
    ended.begin_transaction()
    wait_for(lambda: len(broker.asked(ApiKey.DESCRIBE_TRANSACTIONS)) == 1)
    assert len(broker.produced) == 1
    _write(ended)
    assert len(broker.asked(ApiKey.DESCRIBE_TRANSACTIONS)) == 1
    assert len(broker.produced) == 2


def test_a_lost_answer_is_asked_for_again(broker: ScriptedBroker, ended: TransactionalProducer) -> None:
    broker.state = "CompleteCommit"
    broker.script(ApiKey.DESCRIBE_TRANSACTIONS, LOSE)
    ended.begin_transaction()
    _write(ended)
    ended.commit_transaction()
    assert len(broker.asked(ApiKey.DESCRIBE_TRANSACTIONS)) == 2
    assert [request.committed for request in broker.asked(ApiKey.END_TXN)] == [True, True]


def test_an_answer_that_no_writer_awaited_is_not_taken_for_another(
    broker: ScriptedBroker, producer: TransactionalProducer
) -> None:
    producer.abort_transaction()
    broker.state = "CompleteCommit"
    broker.identity = (7, 5)
    producer.init_transactions()
    producer.begin_transaction()
    assert (producer.transaction.producer_id, producer.transaction.producer_epoch) == (7, 5)
    _write(producer)
    producer.commit_transaction()
    assert len(broker.produced) == 2
