from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from fencepost.api.errors import IllegalStateError
from fencepost.kafka.errors import AuthorizationError
from fencepost.kafka.producer.idempotent import IdempotentProducer
from fencepost.kafka.transport.error_codes import Code
from tests.support.fault_proxy import ApiKey
from tests.support.scripted_broker import ScriptedBroker
from tests.support.topics import unique
from tests.support.writing import numbered, producer_config, write_values


@pytest.fixture
def broker() -> Iterator[ScriptedBroker]:
    with ScriptedBroker() as scripted:
        yield scripted


@pytest.fixture
def producer(broker: ScriptedBroker) -> Iterator[IdempotentProducer]:
    with closing(IdempotentProducer(producer_config(broker.address))) as made:
        yield made


def _write(producer: IdempotentProducer, topic: str, count: int) -> None:
    with closing(producer.writer()) as writer:
        write_values(writer, topic, numbered(count))
        producer.acknowledge(writer.flush())


def test_writers_continue_with_the_sequences_of_one_producer_id(
    broker: ScriptedBroker, producer: IdempotentProducer
) -> None:
    topic = unique("topic")
    _write(producer, topic, 5)
    _write(producer, topic, 2)
    assert [(batch.producer_id, batch.sequence) for [batch] in broker.produced] == [(7, 0), (7, 5)]
    assert [request.transactional_id for request in broker.asked(ApiKey.INIT_PRODUCER_ID)] == [None]
    assert {request.transactional_id for request in broker.asked(ApiKey.PRODUCE)} == {None}


def test_a_new_producer_id_begins_at_sequence_0(broker: ScriptedBroker, producer: IdempotentProducer) -> None:
    topic = unique("topic")
    _write(producer, topic, 5)
    broker.identity = (8, 0)
    producer.renew()
    _write(producer, topic, 1)
    assert [(batch.producer_id, batch.sequence) for [batch] in broker.produced] == [(7, 0), (8, 0)]


def test_a_missing_right_is_named(broker: ScriptedBroker, producer: IdempotentProducer) -> None:
    broker.script(ApiKey.INIT_PRODUCER_ID, Code.COORDINATOR_LOAD_IN_PROGRESS, Code.CLUSTER_AUTHORIZATION_FAILED)
    with pytest.raises(AuthorizationError, match="IDEMPOTENT_WRITE"):
        producer.writer()


def test_an_abandoned_producer_writes_no_more(producer: IdempotentProducer) -> None:
    producer.abandon()
    with pytest.raises(IllegalStateError, match="abandoned"):
        producer.writer()
