"""Provides a producer id for writes outside of transactions: each record is written at least once, in order.

The brokers drop duplicates (KIP-98), wherever the writers run, as long as all writers take turns under one producer id.
After a failure some writer may still be sending. Then a new producer id is used, and records that are written again may
be duplicates.
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
        """Sends no request: the producer id is requested when the first writer needs it."""
        self._config = config
        self._cluster = Cluster.of(config.client)
        self._identity: ProducerIdentity | None = None
        self._sequences: dict[TopicPartition, int] = {}
        self._abandoned = False
        POOL.join(config.client)

    @property
    def config(self) -> ProducerConfig:
        """The client settings, which writers on executors need as well."""
        return self._config

    @property
    def transaction(self) -> Transaction:
        """Return the producer id, epoch and sequences for writers, without a transaction.

        Raises BrokerUnavailableError after `max.block.ms`, AuthenticationError, AuthorizationError, and
        IllegalStateError after `abandon`.
        """
        if self._abandoned:
            raise IllegalStateError("The task's producer was abandoned: it can write no more")
        if self._identity is None:
            self._identity, self._sequences = self._init_producer_id(), {}
        return Transaction(
            transactional_id=None,
            producer_id=self._identity.producer_id,
            producer_epoch=self._identity.epoch,
            # With V2 a writer sends no AddPartitionsToTxn, which would fail without a transaction.
            version=TransactionVersion.V2,
            sequences=dict(self._sequences),
        )

    @contextmanager
    def lent(self) -> Iterator[Transaction]:
        """Lend the producer id to writers in other processes. Raises the errors of `transaction`."""
        yield self.transaction

    def writer(self) -> RecordWriter:
        """Return a writer for this process. Raises the errors of `transaction`."""
        return RecordWriter(self._config, self.transaction)

    def acknowledge(self, acks: Iterable[Ack]) -> None:
        """Note the batches that writers have written, so that later writers continue with the next sequence numbers."""
        for ack in acks:
            self._sequences[ack.topic, ack.partition] = sequence_after(ack.base_sequence, ack.count)

    def renew(self) -> None:
        """Use another producer id for the next writer.

        The last writer failed, and it is unknown which of its batches the brokers have.
        """
        self._identity = None

    def close(self) -> None:
        """Close the connections. Must be called once, when no writer is active any more."""
        POOL.leave(self._config.client)

    def abandon(self) -> None:
        """Refuse to create more writers. Thread-safe. A writer that is in use may continue."""
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
            # Since Kafka 2.8 the right to WRITE to any topic is sufficient (KIP-679).
            raise AuthorizationError("the cluster (or WRITE on a topic)", "IDEMPOTENT_WRITE")
        if answer.error_code != Code.NONE:
            raise refused("InitProducerId", answer.error_code)
        return ProducerIdentity(answer.producer_id, answer.producer_epoch)
