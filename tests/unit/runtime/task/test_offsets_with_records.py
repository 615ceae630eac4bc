"""The source offsets of a transaction of one poll go to the broker together with its records."""

from __future__ import annotations

import copy
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from kafka.protocol.metadata import MetadataResponse

from fencepost.api.record import SourceRecord
from fencepost.config.ids import ConnectorTaskId
from fencepost.converters import JsonConverter, SimpleHeaderConverter, StringConverter
from fencepost.engine.engine import SparkEngine
from fencepost.engine.pipeline import Pipeline
from fencepost.kafka.producer.transactional import TransactionalProducer
from fencepost.runtime.metrics.task_metrics import TaskMetrics
from fencepost.runtime.task.transactional_writes import TaskTransaction
from fencepost.runtime.task.writes import WritePath, WritesContext
from fencepost.storage.offsets.table import OffsetTable
from fencepost.storage.offsets.uncommitted import OffsetRecords
from tests.support.fault_proxy import ApiKey
from tests.support.scripted_broker import HOST, ScriptedBroker
from tests.support.topics import unique
from tests.support.writing import open_producer, producer_config

_RECORDS = 20
_SECONDS = 20.0
"""How long a broker waits for the other one. Not a wait in a test that succeeds."""


@pytest.fixture
def broker() -> Iterator[ScriptedBroker]:
    with ScriptedBroker(partitions=3) as broker:
        yield broker


@pytest.fixture
def producer(broker: ScriptedBroker) -> Iterator[TransactionalProducer]:
    with open_producer(producer_config(broker.address), unique("task")) as producer:
        yield producer


def _pipeline() -> Pipeline:
    key, value, header = StringConverter(), JsonConverter(), SimpleHeaderConverter()
    key.configure({}, is_key=True)
    value.configure({"schemas.enable": "false"}, is_key=False)
    header.configure({})
    return Pipeline((), key, value, header)


def _writes(producer: TransactionalProducer, offsets_topic: str) -> TaskTransaction:
    context = WritesContext(
        ConnectorTaskId("c", 0),
        WritePath(SparkEngine({}), _pipeline(), None, offsets_topic, lambda _: None),
        OffsetRecords("c", OffsetTable()),
        TaskMetrics(),
        threading.Event(),
        keeps_records=False,
        keeps_batches=False,
        on_commit=lambda: None,
    )
    return TaskTransaction(context, producer, flush_interval_s=60.0)


def _polled(topic: str) -> list[SourceRecord]:
    return [
        SourceRecord({"table": "t"}, {"id": number}, topic, {"id": number}, key=str(number))
        for number in range(_RECORDS)
    ]


@pytest.mark.parametrize(("ends", "requests"), [(True, 1), (False, 2)])
def test_records_and_offsets_of_one_poll_are_in_one_request(
    broker: ScriptedBroker, producer: TransactionalProducer, *, ends: bool, requests: int
) -> None:
    """All partitions have one leader here. A transaction of several polls sends its offsets at its end."""
    topic, offsets_topic = unique("topic"), unique("offsets")
    writes = _writes(producer, offsets_topic)
    writes.write(_polled(topic), ends=ends)
    writes.commit()
    sent = [[batch.topic for batch in request] for request in broker.produced]
    assert len(sent) == requests
    assert {name for request in sent for name in request} == {topic, offsets_topic}
    assert sent[-1].count(offsets_topic) == 1
    assert sum(batch.count for request in broker.produced for batch in request) == _RECORDS + 1
    kinds = [kind for kind, _ in broker.requests if kind in (ApiKey.PRODUCE, ApiKey.END_TXN)]
    assert kinds == [ApiKey.PRODUCE] * requests + [ApiKey.END_TXN]


class TwoLeaders:
    """Two brokers: one leads the topics of records and coordinates, the other leads the offsets topic.

    The first answers no Produce before the second has one.
    """

    def __init__(self, first: ScriptedBroker, second: ScriptedBroker, offsets_topic: str) -> None:
        self.answered_alone = False
        self._second, self._offsets_topic = second, offsets_topic
        self._reached = threading.Event()
        self._metadata = first._metadata
        self._answer = {broker: broker._answers[ApiKey.PRODUCE] for broker in (first, second)}
        # Either of them may be asked who leads.
        first._answers[ApiKey.METADATA] = second._answers[ApiKey.METADATA] = self._of_both
        first._answers[ApiKey.PRODUCE] = lambda *given: self._late(first, *given)
        second._answers[ApiKey.PRODUCE] = lambda *given: self._at_once(second, *given)

    def _of_both(self, request: Any, code: int) -> Any:
        answer = self._metadata(request, code)
        broker_class = MetadataResponse.MetadataResponseBroker
        answer.brokers.append(broker_class(node_id=2, host=HOST, port=self._second.port, rack=None))
        for topic in answer.topics:
            if topic.name == self._offsets_topic:
                # The topics of an answer have the same partitions.
                topic.partitions = copy.deepcopy(topic.partitions)
                for partition in topic.partitions:
                    partition.leader_id = 2
        return answer

    def _late(self, broker: ScriptedBroker, request: Any, code: int) -> Any:
        self.answered_alone |= not self._reached.wait(_SECONDS)
        return self._answer[broker](request, code)

    def _at_once(self, broker: ScriptedBroker, request: Any, code: int) -> Any:
        self._reached.set()
        return self._answer[broker](request, code)


def test_requests_to_two_brokers_are_in_flight_together(broker: ScriptedBroker) -> None:
    topic, offsets_topic = unique("topic"), unique("offsets")
    with ScriptedBroker(partitions=3) as other:
        leaders = TwoLeaders(broker, other, offsets_topic)
        with open_producer(producer_config(broker.address), unique("task")) as producer:
            writes = _writes(producer, offsets_topic)
            writes.write(_polled(topic), ends=True)
            writes.commit()
        assert [{batch.topic for batch in request} for request in broker.produced] == [{topic}]
        assert [{batch.topic for batch in request} for request in other.produced] == [{offsets_topic}]
        assert not leaders.answered_alone
