"""What records are written with, whether in transactions or outside of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, closing
from typing import Protocol

from fencepost.kafka.config.client_config import ProducerConfig
from fencepost.kafka.producer.sender import Ack, RecordWriter
from fencepost.kafka.producer.transaction import Transaction
from fencepost.kafka.records.columns import Records


class RecordProducer(Protocol):
    """Hands out writers: into a transaction that is open, or under a producer id outside of transactions."""

    @property
    def config(self) -> ProducerConfig:
        """How it talks to Kafka."""

    @property
    def transaction(self) -> Transaction:
        """What a writer of this process needs to know."""

    def lent(self) -> AbstractContextManager[Transaction]:
        """Give it to writers elsewhere, for a block that ends without an exception only when all of them are done."""

    def writer(self) -> RecordWriter:
        """Return a writer for this process."""

    def acknowledge(self, acks: Iterable[Ack]) -> None:
        """Take note of what writers wrote."""


def write_and_acknowledge(
    producer: RecordProducer, topic: str, by_partition: Callable[[int], Iterable[tuple[int, Records]]]
) -> list[Ack]:
    """Write to a topic that the worker creates itself, and return when the brokers have all of it.

    `by_partition` is given the number of the topic's partitions, and returns the records for each partition. Raises
    TopicNotFoundError for a topic that was deleted, which no broker creates again with settings of its own, and what
    `by_partition` and a RecordWriter raise.
    """
    with closing(producer.writer()) as writer:
        for partition, records in by_partition(writer.kept_partitions(topic)):
            writer.write(topic, partition, records)
        acks = writer.flush()
        producer.acknowledge(acks)
    return acks
