"""Functions for tests of producers and writers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any

import pyarrow as pa

from fencepost.kafka.config.client_config import ClientConfig, ProducerConfig
from fencepost.kafka.producer.sender import Ack, RecordWriter
from fencepost.kafka.producer.transactional import TransactionalProducer
from fencepost.kafka.records.columns import Records


def producer_config(bootstrap_servers: str, *, request_timeout_ms: int = 30_000, **settings: Any) -> ProducerConfig:
    """A producer's configuration without security."""
    client = ClientConfig(tuple(bootstrap_servers.split(",")), request_timeout_ms=request_timeout_ms)
    return ProducerConfig(client, **settings)


@contextmanager
def open_producer(config: ProducerConfig, transactional_id: str) -> Iterator[TransactionalProducer]:
    """A producer that owns its transactional id, closed at the end."""
    with closing(TransactionalProducer(config, transactional_id)) as producer:
        producer.init_transactions()
        yield producer


def numbered(count: int, *, start: int = 0, size: int = 100) -> list[bytes]:
    """Distinct values of `size` bytes each."""
    return [b"%010d" % number + b"x" * (size - 10) for number in range(start, start + count)]


def records(values: Sequence[bytes | None]) -> Records:
    return Records(pa.array(values, pa.binary()))


def write_values(
    writer: RecordWriter, topic: str, values: Sequence[bytes | None], *, partition: int = 0, step: int = 1_000
) -> None:
    """Write values in slices of `step`."""
    for start in range(0, len(values), step):
        writer.write(topic, partition, records(values[start : start + step]))


def write_in_transaction(
    producer: TransactionalProducer, topic: str, values: Sequence[bytes | None], *, partition: int = 0
) -> list[Ack]:
    """Write values into the producer's open transaction, and wait until the brokers have them."""
    with closing(producer.writer()) as writer:
        write_values(writer, topic, values, partition=partition)
        acks = writer.flush()
    producer.acknowledge(acks)
    return acks
