"""Hands out a producer id for writes outside of transactions: each record is written at least once, in order.

The brokers drop what a writer sends twice (KIP-98), wherever that writer runs, as long as all writers follow each other
under one producer id. After a failure some writer may still be sending: a new producer id is taken then, and what is
written again may be there twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Final

from kafka.protocol.producer import InitProducerIdRequest

from fencepost.api.errors import IllegalStateError
from fencepost.kafka.config.client_config import ProducerConfig
from fencepost.kafka.deadline import Backoff, Deadline
from fencepost.kafka.errors import AuthorizationError, BrokerUnavailableError
from fencepost.kafka.producer.partition_queue import Ack, sequence_after
from fencepost.kafka.producer.sender import RecordWriter
from fencepost.kafka.producer.transaction import (
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    ProducerIdentity,
    TopicPartition,
    Transaction,
    TransactionVersion,
)
from fencepost.kafka.transport.cluster import Cluster
from fencepost.kafka.transport.error_codes import PASSING, Code, code_name, refused

_INIT_PRODUCER_ID: Final = 5
"""The last version without two-phase commit (KIP-939)."""


class IdempotentProducer:
    """Writes without transactions. Not for use by two threads at once, but for `abandon`."""

    def __init__(self, config: ProducerConfig) -> None:
        """Nothing is sent: the producer id is asked for when the first writer needs it."""
        self._config = config
        self._cluster = Cluster.of(config.client)
        self._identity: ProducerIdentity | None = None
        self._sequences: dict[TopicPartition, int] = {}
        self._abandoned = False

    @property
    def config(self) -> ProducerConfig:
        """How it talks to Kafka, which writers on executors need as well."""
        return self._config

    @property
    def transaction(self) -> Transaction:
        """What writers need, which is no transaction.

        Raises BrokerUnavailableError after `max.block.ms`, AuthenticationError, AuthorizationError, and
        IllegalStateError once it was abandoned.
        """
        if self._abandoned:
            raise IllegalStateError("The task's producer was given up: nothing may be written with it any more")
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
        """Give the producer id to writers elsewhere. Raises as `transaction`."""
        yield self.transaction

    def writer(self) -> RecordWriter:
        """Return a writer for this process. Raises as `transaction`."""
        return RecordWriter(self._config, self.transaction)

    def acknowledge(self, acks: Iterable[Ack]) -> None:
        """Take note of what writers wrote, so that later writers go on from there."""
        for ack in acks:
            self._sequences[ack.topic, ack.partition] = sequence_after(ack.base_sequence, ack.count)

    def renew(self) -> None:
        """Take another producer id for the next writer, because one failed: what it wrote is not known."""
        self._identity = None

    def abandon(self) -> None:
        """Hand out no more writers, from any thread; one that is at it may go on."""
        self._abandoned = True

    def _init_producer_id(self) -> ProducerIdentity:
        deadline = Deadline.after(self._config.max_block_ms)
        backoff = Backoff(self._config.client.retry_backoff_ms, self._config.client.retry_backoff_max_ms)
        request = InitProducerIdRequest(
            transactional_id=None,
            transaction_timeout_ms=self._config.transaction_timeout_ms,
            producer_id=NO_PRODUCER_ID,
            producer_epoch=NO_PRODUCER_EPOCH,
        )
        while True:
            answer = self._cluster.call(request, deadline, at_most=_INIT_PRODUCER_ID)
            if answer.error_code == Code.NONE:
                return ProducerIdentity(answer.producer_id, answer.producer_epoch)
            if answer.error_code == Code.CLUSTER_AUTHORIZATION_FAILED:
                # Since Kafka 2.8 the right to WRITE to any topic will do (KIP-679).
                raise AuthorizationError("the cluster (or WRITE on a topic)", "IDEMPOTENT_WRITE")
            if answer.error_code not in PASSING:
                raise refused("InitProducerId", answer.error_code)
            if deadline.passed:
                raise BrokerUnavailableError(
                    f"No producer id was given out in time ({code_name(answer.error_code)}): check the brokers' health"
                )
            backoff.sleep(deadline)
