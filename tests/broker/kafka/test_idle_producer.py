"""Brokers forget a transactional id that is idle for long, by default for a week."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from fencepost.api.errors import FencepostError
from fencepost.embedded.broker import EmbeddedBroker
from fencepost.kafka.deadline import Deadline
from fencepost.kafka.errors import KafkaError, TransactionalIdExpiredError
from fencepost.kafka.producer.transaction import TransactionVersion
from fencepost.kafka.producer.transaction_coordinator import TransactionCoordinator
from fencepost.kafka.producer.transactional import TransactionalProducer
from fencepost.kafka.transport.cluster import Cluster
from fencepost.runtime.restart_policy import is_worth_a_restart
from tests.support.checker import read_topic, values
from tests.support.processes import wait_for
from tests.support.topics import Topics, unique
from tests.support.writing import numbered, open_producer, producer_config, write_in_transaction

FORGETFUL = {
    "transactional.id.expiration.ms": "1000",
    "transaction.remove.expired.transaction.cleanup.interval.ms": "200",
}


def _write(producer: TransactionalProducer, topic: str, sent: list[bytes]) -> None:
    """Write one transaction, as a task does."""
    producer.begin_transaction()
    try:
        write_in_transaction(producer, topic, sent)
    except KafkaError as error:
        raise producer.resolve(error) from error
    producer.commit_transaction()


def _is_forgotten(coordinator: TransactionCoordinator) -> bool:
    try:
        coordinator.describe(Deadline.after(5_000))
    except TransactionalIdExpiredError:
        return True
    return False


@pytest.mark.parametrize("version", TransactionVersion, ids=lambda version: version.name)
def test_an_expired_id_is_not_fenced_and_can_be_initialized_again(version: TransactionVersion, tmp_path: Path) -> None:
    arguments = ("--feature", f"transaction.version={version}")
    with EmbeddedBroker(tmp_path, properties=FORGETFUL, format_arguments=arguments) as broker:
        servers, name = broker.bootstrap_servers, unique("task")
        config, topic, sent = producer_config(servers), Topics(servers).create(), numbered(20)
        with (
            open_producer(config, name) as producer,
            closing(TransactionCoordinator(Cluster.of(config.client), name)) as coordinator,
        ):
            _write(producer, topic, sent[:10])
            wait_for(lambda: _is_forgotten(coordinator))
            with pytest.raises(FencepostError) as raised:
                _write(producer, topic, sent[10:])
            assert isinstance(raised.value, TransactionalIdExpiredError)
            assert is_worth_a_restart(raised.value)
            producer.abort_transaction()
            producer.init_transactions()
            _write(producer, topic, sent[10:])
        assert values(read_topic(servers, topic)) == sent
