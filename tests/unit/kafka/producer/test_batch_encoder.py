"""A writer's records become batches within the limits of their topic."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from fencepost.kafka.errors import RecordTooLargeError, TransactionAbortableError
from fencepost.kafka.producer.batch_encoder import BatchEncoder
from fencepost.kafka.producer.topic_limits import TopicLimits
from fencepost.kafka.producer.transaction import Transaction, TransactionVersion
from fencepost.kafka.transport.cluster import Cluster
from tests.support.scripted_broker import ScriptedBroker
from tests.support.topics import unique
from tests.support.writing import numbered, producer_config, records


@pytest.fixture
def encoder() -> Iterator[BatchEncoder]:
    with ScriptedBroker(partitions=1) as broker:
        config = producer_config(broker.address, batch_size=1_000)
        transaction = Transaction("id", 7, 3, TransactionVersion.V2, {})
        yield BatchEncoder(config, transaction, TopicLimits(config, Cluster.of(config.client)))


def test_records_are_cut_at_the_limit_of_a_batch(encoder: BatchEncoder) -> None:
    topic = unique("topic")
    pieces = list(encoder.bounded(topic, records(numbered(40))))
    assert [value for piece in pieces for value in piece.value.to_pylist()] == numbered(40)
    sizes = [encoder.encode((topic, 0), piece, 0).size for piece in pieces]
    assert len(sizes) > 1
    assert max(sizes) <= 1_000


def test_a_record_above_the_batch_size_is_a_piece_of_its_own(encoder: BatchEncoder) -> None:
    values = [b"a", b"x" * 5_000, b"b"]
    pieces = list(encoder.bounded(unique("topic"), records(values)))
    assert [piece.value.to_pylist() for piece in pieces] == [[value] for value in values]


def test_halves_of_a_batch_have_its_records_and_sequences(encoder: BatchEncoder) -> None:
    batch = encoder.encode((unique("topic"), 0), records(numbered(5)), 40)
    halves = encoder.halves(batch)
    assert [(half.base_sequence, half.records.value.to_pylist()) for half in halves] == [
        (40, numbered(2)),
        (42, numbered(3, start=2)),
    ]


def test_a_batch_of_one_record_has_no_halves(encoder: BatchEncoder) -> None:
    batch = encoder.encode((unique("topic"), 0), records(numbered(1)), 0)
    with pytest.raises(RecordTooLargeError):
        encoder.halves(batch)


def test_a_batch_that_the_broker_may_have_is_not_halved(encoder: BatchEncoder) -> None:
    batch = replace(encoder.encode((unique("topic"), 0), records(numbered(5)), 0), maybe_written=True)
    with pytest.raises(TransactionAbortableError):
        encoder.halves(batch)
