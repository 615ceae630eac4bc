"""The common interface of producers, with or without transactions."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass
from typing import Protocol

from fencepost.kafka.config.client_config import ProducerConfig
from fencepost.kafka.deadline import Deadline
from fencepost.kafka.producer.sender import Ack, RecordWriter
from fencepost.kafka.producer.transaction import Transaction
from fencepost.kafka.records.columns import Records
from fencepost.kafka.transport.cluster import Cluster


class RecordProducer(Protocol):
    """Creates writers: into an open transaction, or under a producer id outside of transactions."""

    @property
    def config(self) -> ProducerConfig:
        """The client settings."""

    @property
    def transaction(self) -> Transaction:
        """Return the transaction's data for a writer of this process."""

    def lent(self) -> AbstractContextManager[Transaction]:
        """Lend the transaction to writers in other processes.

        The block may end without an exception only when all these writers are done.
        """

    def writer(self) -> RecordWriter:
        """Return a writer for this process."""

    def acknowledge(self, acks: Iterable[Ack]) -> None:
        """Note the batches that writers have written."""


def learn_topics(producer: RecordProducer, topics: Iterable[str]) -> None:
    """Request the partitions of all topics that writers will need together. Raises BrokerUnavailableError.

    Brokers with automatic topic creation create missing topics.
    """
    config = producer.config
    Cluster.of(config.client).learn_topics(topics, Deadline.after(config.max_block_ms))


def refresh_topics(producer: RecordProducer, topics: Iterable[str]) -> None:
    """Request the partitions of topics again. Raises the errors of `RecordWriter.refresh_topics`."""
    config = producer.config
    Cluster.of(config.client).refresh_topics(topics, Deadline.after(config.max_block_ms))


PartitionRecords = Callable[[int], Iterable[tuple[int, Records]]]
"""Receives the number of a topic's partitions, and returns the records for each partition."""


@dataclass(frozen=True, slots=True)
class RecordsAlong:
    """Records for a topic that the worker creates itself, to be sent together with the records of a batch."""

    topic: str
    by_partition: PartitionRecords

    def write(self, writer: RecordWriter) -> None:
        """Pass the records to a writer, which sends them together with its other records.

        Raises the errors of `write_and_acknowledge`.
        """
        for partition, records in self.by_partition(writer.kept_partitions(self.topic)):
            writer.write(self.topic, partition, records)


def write_and_acknowledge(producer: RecordProducer, topic: str, by_partition: PartitionRecords) -> list[Ack]:
    """Write to a topic that the worker creates itself, and return when the brokers have all records.

    Raises TopicNotFoundError for a topic that was deleted, because no broker may create it again with its default
    settings. Also raises the errors of `by_partition` and of a RecordWriter.
    """
    with closing(producer.writer()) as writer:
        RecordsAlong(topic, by_partition).write(writer)
        acks = writer.flush()
        producer.acknowledge(acks)
    return acks
