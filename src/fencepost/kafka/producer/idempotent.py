"""Provides a producer id for writes outside of transactions: each record is written at least once, in order.

The brokers drop a writer's duplicates (KIP-98), wherever it runs, as long as all writers take turns under one producer
id. After a failure some writer may still be sending: then a new producer id is used, and records that are written again
may be duplicated.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from fencepost.api.errors import IllegalStateError
from fencepost.kafka.config.client_config import ProducerConfig
from fencepost.kafka.deadline import Deadline
from fencepost.kafka.errors import AuthorizationError
from fencepost.kafka.producer.coordinator_requests import INIT_PRODUCER_ID, init_producer_id_request
from fencepost.kafka.producer.partition_queue import Ack, sequence_after
from fencepost.kafka.producer.sender import RecordWriter
from fencepost.kafka.producer.transaction import (
    ProducerIdentity,
    TopicPartition,
    Transaction,
    TransactionVersion,
)
from fencepost.kafka.transport.cluster import Cluster
from fencepost.kafka.transport.error_codes import Code, refused
from fencepost.kafka.transport.pool import POOL


class IdempotentProducer:
    """Writes without transactions. Only `abandon` is thread-safe."""

    def __init__(self, config: ProducerConfig) -> None:
        """Sends nothing: the producer id is requested when the first writer needs it."""
        self._config = config
        self._cluster = Cluster.of(config.client)
        self._identity: ProducerIdentity | None = None
        self._sequences: dict[TopicPartition, int] = {}
        self._abandoned = False
        POOL.join(config.client)

    @property
    def config(self) -> ProducerConfig:
        """The client settings, which writers on executors also need."""
        return self._config

    @property
    def transaction(self) -> Transaction:
        """Return the producer id, epoch and sequences for writers, without a transaction.

        Raises BrokerUnavailableError after `max.block.ms`, AuthenticationError, AuthorizationError, and
        IllegalStateError once it was abandoned.
        """
        if self._abandoned:
            raise IllegalStateError("The task's producer was abandoned: it can write no more")
        if self._identity is None:
            self._identity, self._sequences = self._init_producer_id(), {}
        return Transaction(
            transactional_id=None,
            producer_id=self._identity.producer_id,
            producer_epoch=self._identity.epoch,
            # Partitions need not be added to anything.
            version=TransactionVersion.V2,
            sequences=dict(self._sequences),
        )

    @contextmanager
    def lent(self) -> Iterator[Transaction]:
        """Lend the producer id to writers in other processes. Raises as `transaction`."""
        yield self.transaction

    def writer(self) -> RecordWriter:
        """Return a writer for this process. Raises as `transaction`."""
        return RecordWriter(self._config, self.transaction)

    def acknowledge(self, acks: Iterable[Ack]) -> None:
        """Record what writers wrote, so that later writers continue from there."""
        for ack in acks:
            self._sequences[ack.topic, ack.partition] = sequence_after(ack.base_sequence, ack.count)

    def renew(self) -> None:
        """Use another producer id for the next writer, because one failed and its writes are unknown."""
        self._identity = None

    def close(self) -> None:
        """Close the connections. Must be called once, when nothing is written any more."""
        POOL.leave(self._config.client)

    def abandon(self) -> None:
        """Create no further writers. Thread-safe; a writer that is in use may continue."""
        self._abandoned = True

    def _init_producer_id(self) -> ProducerIdentity:
        deadline = Deadline.after(self._config.max_block_ms)
        request = init_producer_id_request(None, ProducerIdentity(), timeout_ms=self._config.transaction_timeout_ms)
        answer = self._cluster.settle(
            request,
            deadline,
            at_most=INIT_PRODUCER_ID,
            code_of=lambda answer: int(answer.error_code),
            what="The request for a producer id",
        )
        if answer.error_code == Code.CLUSTER_AUTHORIZATION_FAILED:
            # Since Kafka 2.8 the right to WRITE to any topic will do (KIP-679).
            raise AuthorizationError("the cluster (or WRITE on a topic)", "IDEMPOTENT_WRITE")
        if answer.error_code != Code.NONE:
            raise refused("InitProducerId", answer.error_code)
        return ProducerIdentity(answer.producer_id, answer.producer_epoch)
