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
        """The transaction's data for a writer of this process."""

    def lent(self) -> AbstractContextManager[Transaction]:
        """Lend it to writers in other processes, for a block that ends without an exception only when all are done."""

    def writer(self) -> RecordWriter:
        """Return a writer for this process."""

    def acknowledge(self, acks: Iterable[Ack]) -> None:
        """Record what writers wrote."""


def learn_topics(producer: RecordProducer, topics: Iterable[str]) -> None:
    """Learn the partitions of topics that writers will ask for, together. Raises BrokerUnavailableError.

    Brokers with automatic topic creation create missing ones.
    """
    config = producer.config
    Cluster.of(config.client).learn_topics(topics, Deadline.after(config.max_block_ms))


def refresh_topics(producer: RecordProducer, topics: Iterable[str]) -> None:
    """Ask the brokers for the partitions of topics again. Raises as `RecordWriter.refresh_topics`."""
    config = producer.config
    Cluster.of(config.client).refresh_topics(topics, Deadline.after(config.max_block_ms))


PartitionRecords = Callable[[int], Iterable[tuple[int, Records]]]
"""Gets the number of a topic's partitions, and returns the records for each partition."""


@dataclass(frozen=True, slots=True)
class RecordsAlong:
    """Records for a topic that the worker creates itself, to be sent together with the records of a batch."""

    topic: str
    by_partition: PartitionRecords

    def write(self, writer: RecordWriter) -> None:
        """Give them to a writer, which sends them with all that it has. Raises as `write_and_acknowledge`."""
        for partition, records in self.by_partition(writer.kept_partitions(self.topic)):
            writer.write(self.topic, partition, records)


def write_and_acknowledge(producer: RecordProducer, topic: str, by_partition: PartitionRecords) -> list[Ack]:
    """Write to a topic that the worker creates itself, and return when the brokers have all of it.

    Raises TopicNotFoundError for a topic that was deleted, which no broker may create again with its default settings,
    and the errors of `by_partition` and a RecordWriter.
    """
    with closing(producer.writer()) as writer:
        RecordsAlong(topic, by_partition).write(writer)
        acks = writer.flush()
        producer.acknowledge(acks)
    return acks
