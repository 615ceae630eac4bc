"""A sink whose transaction begins in one process of the driver and ends in another.

Spark runs each step of a Python data source in a separate process. One process begins the transaction, executors write
into it, and a third process commits or aborts it. The third process gets the transaction as data (HandedOver).
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass

from fencepost.api.errors import FencepostError
from fencepost.kafka.clients import KafkaClients
from fencepost.kafka.config.client_config import ProducerConfig
from fencepost.kafka.producer.partition_queue import Ack
from fencepost.kafka.producer.transaction import Transaction, TransactionState
from fencepost.kafka.producer.transactional import TransactionalProducer
from fencepost.spark.config.progress import Progress, SinkKey
from fencepost.spark.config.sink_config import SinkConfig
from fencepost.spark.format.ledger_log import find_opened
from fencepost.spark.frame.wording import in_spark_terms
from fencepost.spark.sink.sink import Sink


@dataclass(frozen=True, slots=True)
class HandedOver:
    """An open transaction of a sink. `began_at` is on the machine's monotonic clock.

    `topic_id` is the id of the sink's topic; None if the sink has no topic, or if the id is unknown.
    """

    transaction: Transaction
    began_at: float
    topic_id: str | None


class BeginningProducer(TransactionalProducer):
    """A producer that begins a transaction for another process."""

    def hand_over(self) -> Transaction:
        """Begin a transaction, and return the connection to the pool. Do not close the producer: that would abort.

        Raises the errors of `begin_transaction`.
        """
        transaction = self.begin_transaction()
        self._coordinator.close()
        return transaction


class HandedOverProducer(TransactionalProducer):
    """The owner of a transaction that another process has begun. Until `all_done`, any writer may still be alive."""

    def __init__(self, config: ProducerConfig, handed_over: HandedOver) -> None:
        transaction = handed_over.transaction
        super().__init__(config, transaction.transactional_id or "")
        self._identity, self._version = transaction.identity, transaction.version
        self._began_at = handed_over.began_at
        self._loans = 1
        self.state = TransactionState.IN_TRANSACTION

    def all_done(self, acks: Iterable[Ack]) -> None:
        """Record that each writer has answered, with these acknowledgements, and has stopped sending."""
        self.acknowledge(acks)
        self._loans = 0


class _Clients(KafkaClients):
    """Creates the clients of a sink, but uses the given producer."""

    def __init__(self, producer: TransactionalProducer) -> None:
        self._producer = producer

    def transactional_producer(self, config: ProducerConfig, transactional_id: str) -> TransactionalProducer:
        del config, transactional_id
        return self._producer


class BeginningSink(Sink):
    """A sink that begins a transaction for another process."""

    def __init__(self, config: SinkConfig, key: SinkKey, *, keeps_progress: bool) -> None:
        self._beginning = BeginningProducer(config.producer, key.transactional_id)
        super().__init__(config, key, keeps_progress=keeps_progress, clients=_Clients(self._beginning))

    def hand_over(self) -> HandedOver:
        """Begin a transaction. Do not close the sink afterwards: that would abort the transaction.

        Raises the errors of `begin_transaction` and `Admin.topic_id`.
        """
        topic = self._config.topic
        if self._topic_id is None and topic is not None:
            self._topic_id = self._log.topic_id(topic)
        self._log.close()
        return HandedOver(self._beginning.hand_over(), time.monotonic(), self._topic_id)


class EndingSink(Sink):
    """A sink that ends a transaction that another process began."""

    def __init__(self, config: SinkConfig, key: SinkKey, handed_over: HandedOver, *, keeps_progress: bool) -> None:
        self._handed_over = HandedOverProducer(config.producer, handed_over)
        super().__init__(config, key, keeps_progress=keeps_progress, clients=_Clients(self._handed_over))
        self._topic_id = handed_over.topic_id

    def commit(self, acks: Iterable[Ack], progress: Progress) -> None:
        """Commit all writers' records, with the progress.

        Raises the same errors as the last attempt of `Sink.write`. After an error, the transaction is aborted.
        """
        try:
            self._handed_over.all_done(acks)
            self._commit(progress)
        except FencepostError as error:
            reason = self._producer.resolve(error)
            self._abort()
            raise in_spark_terms(reason, sink=str(self.key), batch=self._named(progress)) from error

    def abort(self) -> None:
        """Abort everything, even though writers may still be alive. Never raises."""
        self._abort()


def abort_opened(config: SinkConfig, key: SinkKey) -> None:
    """Abort the last transaction of a sink if this driver began it. The transaction is found by its ledger.

    If the transaction belongs to a newer owner, it is not touched. Raises the errors of `find_opened`.
    """
    transaction = find_opened(config, key.transactional_id, KafkaClients())
    if transaction is not None:
        handed_over = HandedOver(transaction, time.monotonic(), None)
        with closing(EndingSink(config, key, handed_over, keeps_progress=True)) as sink:
            sink.abort()
