from __future__ import annotations

from collections.abc import Iterator

import pytest

from fencepost.kafka.errors import AuthorizationError, BrokerRefusedError, BrokerUnavailableError, RecordTooLargeError
from fencepost.kafka.producer.simple import PlainProducer
from fencepost.kafka.records.columns import OutgoingRecord
from fencepost.kafka.transport.error_codes import Code
from tests.support.fault_proxy import ApiKey
from tests.support.scripted_broker import ScriptedBroker
from tests.support.topics import unique
from tests.support.writing import producer_config


@pytest.fixture
def broker() -> Iterator[ScriptedBroker]:
    with ScriptedBroker(partitions=3) as scripted:
        yield scripted


def test_records_go_to_the_partition_that_they_name(broker: ScriptedBroker) -> None:
    with PlainProducer(producer_config(broker.address)) as producer:
        rows = [OutgoingRecord(b"a", b"1", partition=2), OutgoingRecord(b"b", None, partition=2)]
        assert producer.write(unique("topic"), rows) == {2: 102}
    [[batch]] = broker.produced
    assert (batch.partition, batch.count, batch.producer_id, batch.sequence) == (2, 2, -1, -1)


def test_a_batch_that_was_refused_is_sent_again(broker: ScriptedBroker) -> None:
    broker.script(ApiKey.PRODUCE, Code.NOT_LEADER_OR_FOLLOWER)
    with PlainProducer(producer_config(broker.address)) as producer:
        producer.write(unique("topic"), [OutgoingRecord(b"a", b"1", partition=0)])
    assert [[batch.partition for batch in request] for request in broker.produced] == [[0], [0]]


@pytest.mark.parametrize(
    ("code", "error", "said"),
    [
        (Code.TOPIC_AUTHORIZATION_FAILED, AuthorizationError, "WRITE"),
        (Code.MESSAGE_TOO_LARGE, BrokerRefusedError, r"raise max\.message\.bytes"),
    ],
)
def test_a_refusal_is_raised_at_once(broker: ScriptedBroker, code: Code, error: type[Exception], said: str) -> None:
    broker.script(ApiKey.PRODUCE, code)
    with PlainProducer(producer_config(broker.address)) as producer, pytest.raises(error, match=said):
        producer.write(unique("topic"), [(b"a", b"1")])
    assert len(broker.produced) == 1


def test_records_that_are_never_acknowledged_fail_in_time(broker: ScriptedBroker) -> None:
    broker.script(ApiKey.PRODUCE, *[Code.NOT_ENOUGH_REPLICAS] * 1_000)
    config = producer_config(broker.address, delivery_timeout_ms=500)
    with (
        PlainProducer(config) as producer,
        pytest.raises(BrokerUnavailableError, match="were not acknowledged in time"),
    ):
        producer.write(unique("topic"), [(b"a", b"1")])


def test_a_record_beyond_the_request_size_names_its_property(broker: ScriptedBroker) -> None:
    config = producer_config(broker.address, max_request_size=500)
    with PlainProducer(config) as producer, pytest.raises(RecordTooLargeError, match=r"producer\.max\.request\.size"):
        producer.write(unique("topic"), [(b"a", b"x" * 1_000)])
    assert broker.produced == []
