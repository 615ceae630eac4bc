"""The owner of a transactional id: begins, commits and aborts the transactions that writers write into.

transaction.py has the states of this producer. It writes nothing itself and holds no data. A worker has one for each
task.

A late writer of an earlier transaction is harmless, because each transaction has a new epoch: under transaction version
2 every EndTxn bumps the epoch, under version 1 `begin_transaction` bumps it by InitProducerId. Brokers refuse batches
with an older epoch (INVALID_PRODUCER_EPOCH).

A late writer of the same transaction is harmless, because the producer tracks every writer that received the
transaction. A writer of this process (`writer`) is done when it is closed and everything is acknowledged. Writers in
other processes (`lent`) are done when their block ends without an exception. Unless all writers are done, there is no
commit, because leaders accept batches until the markers are written. Under version 1 there is no EndTxn(abort) in this
case either, because a leader that does not verify batches accepts them even after the marker. Instead, the producer
aborts by InitProducerId, whose markers carry the next epoch.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Final

from fencepost.api.errors import FencepostError, IllegalStateError
from fencepost.kafka.config.client_config import ClientConfig, ProducerConfig
from fencepost.kafka.deadline import Deadline
from fencepost.kafka.errors import (
    BrokerUnavailableError,
    InvalidProducerEpochError,
    KafkaError,
    LostEpochError,
    ProducerFencedError,
    TransactionAbortableError,
    TransactionalIdExpiredError,
    TransactionExpiredError,
    UnknownOutcomeError,
)
from fencepost.kafka.producer.partition_queue import Ack, sequence_after
from fencepost.kafka.producer.sender import RecordWriter
from fencepost.kafka.producer.transaction import (
    TRANSITIONS,
    ProducerIdentity,
    TopicPartition,
    Transaction,
    TransactionState,
    TransactionVersion,
    has_expired,
)
from fencepost.kafka.producer.transaction_coordinator import TransactionCoordinator
from fencepost.kafka.transport.error_codes import Code
from fencepost.kafka.transport.pool import POOL

_log: Final = logging.getLogger(__name__)

_ASKING_MS: Final = 5_000
"""How long to ask the coordinator why an epoch is refused. Without an answer, the transaction's age decides."""

_CLOSING_MS: Final = 2_000
"""How long `close` tries to abort an open transaction. Otherwise the brokers abort it after transaction.timeout.ms."""


class TransactionalProducer:
    """Owns one transactional id. Not thread-safe."""

    def __init__(
        self,
        config: ProducerConfig,
        transactional_id: str,
        *,
        new_coordinator: Callable[[ClientConfig, str], TransactionCoordinator] = TransactionCoordinator.of,
        new_writer: Callable[[ProducerConfig, Transaction, Callable[[], None]], RecordWriter] = RecordWriter,
    ) -> None:
        """`new_coordinator` and `new_writer` create the coordinator client and the writers of a transaction."""
        self.state = TransactionState.UNINITIALIZED
        self._new_coordinator = new_coordinator
        self._new_writer = new_writer
        self._config = config
        self._transactional_id = transactional_id
        self._coordinator = new_coordinator(config.client, transactional_id)
        self._identity = ProducerIdentity()
        self._version = TransactionVersion.V1
        self._last_completes = False
        self._sequences: dict[TopicPartition, int] = {}
        self._began_at: float | None = None
        self._abandoned = False
        self._writers: list[RecordWriter] = []
        self._loans = 0
        POOL.join(config.client)

    @property
    def transactional_id(self) -> str:
        """The transactional id that this producer owns."""
        return self._transactional_id

    @property
    def identity(self) -> ProducerIdentity:
        """The last producer id and epoch; -1 before the first. Thread-safe."""
        return self._identity

    @property
    def config(self) -> ProducerConfig:
        """The client settings, which writers on executors need as well."""
        return self._config

    def init_transactions(self) -> None:
        """Take over the transactional id: former owners are fenced, and their open transaction is aborted.

        Raises BrokerUnavailableError after `max.block.ms`, AuthenticationError, AuthorizationError, ConfigError, and
        IllegalStateError after `abandon`.
        """
        self._require(TransactionState.UNINITIALIZED, TransactionState.READY, TransactionState.FAILED)
        self._require_wanted()
        try:
            self._identity, self._version = self._take_over()
        except FencepostError:
            self._coordinator.close()
            self._move_to(TransactionState.FAILED)
            raise
        self._last_completes = False
        self._forget_writes()
        self._began_at = None
        self._move_to(TransactionState.READY)

    def begin_transaction(self) -> Transaction:
        """Begin a transaction and return its data for writers.

        Under transaction version 1 this bumps the epoch, and raises ProducerFencedError, LostEpochError (then the
        producer is FAILED), or BrokerUnavailableError after `max.block.ms`. Under version 2 no record is sent before
        the last transaction's markers are written. This method asks the coordinator whether they are written. The first
        writer waits for the answer, and may encode its records meanwhile.
        """
        self._require(TransactionState.READY)
        if self._last_completes and self._version is TransactionVersion.V1:
            self._bump_epoch()
            self._last_completes = False
        elif self._last_completes:
            self._coordinator.ask_completion()
        self._forget_writes()
        self._began_at = time.monotonic()
        self._move_to(TransactionState.IN_TRANSACTION)
        return self.transaction

    @property
    def transaction(self) -> Transaction:
        """The open transaction, with the next sequence numbers after all acknowledged batches.

        Writers in other processes get it through `lent`.
        """
        self._require(TransactionState.IN_TRANSACTION)
        return Transaction(
            transactional_id=self._transactional_id,
            producer_id=self._identity.producer_id,
            producer_epoch=self._identity.epoch,
            version=self._version,
            sequences=dict(self._sequences),
        )

    def writer(self) -> RecordWriter:
        """Return a writer into the open transaction, for this process. Close it before the commit."""
        writer = self._new_writer(self._config, self.transaction, self._await_last_transaction)
        # Any number of writers may write a transaction, one after the other.
        self._writers = [earlier for earlier in self._writers if not earlier.finished]
        self._writers.append(writer)
        return writer

    @contextmanager
    def lent(self) -> Iterator[Transaction]:
        """Lend the open transaction to writers in other processes.

        End the block without an exception only when each writer has answered and has stopped sending. After an
        exception the writers may still be alive, so the transaction can only be aborted. Like a writer, this waits for
        the markers of the last transaction.
        """
        transaction = self.transaction
        self._await_last_transaction()
        self._loans += 1
        yield transaction
        # This is not in a `finally` block: after an exception, the transaction stays lent until it ends.
        self._loans -= 1

    def acknowledge(self, acks: Iterable[Ack]) -> None:
        """Note the written batches, so that later writers of this transaction continue their sequence numbers."""
        self._require(TransactionState.IN_TRANSACTION)
        for ack in acks:
            self._sequences[ack.topic, ack.partition] = sequence_after(ack.base_sequence, ack.count)

    def commit_transaction(self) -> None:
        """Commit all acknowledged records.

        Raises ProducerFencedError, TransactionExpiredError (everything is aborted), TransactionAbortableError (also if
        not every writer is done), or UnknownOutcomeError when no coordinator answers within `max.block.ms`, and
        IllegalStateError after `abandon`.
        """
        self._require(TransactionState.IN_TRANSACTION)
        self._require_wanted()
        self._require_finished_writers()
        self._move_to(TransactionState.COMMITTING)
        if self._sequences:
            self._end(committed=True)
        # A transaction without records is unknown to the coordinator, so no EndTxn is needed.
        self._move_to(TransactionState.READY)

    def abort_transaction(self) -> None:
        """Abort everything that was written. From now on, brokers refuse writers that are still running.

        If a writer may still be sending under transaction version 1, the producer is FAILED afterwards, and must be
        initialized again. Raises ProducerFencedError, TransactionExpiredError, or BrokerUnavailableError after
        `max.block.ms`. The records are not visible in any of these cases either.
        """
        if self.state in (TransactionState.FENCED, TransactionState.FAILED):
            # The transaction is already aborted, or will be when the transactional id is initialized again.
            return
        self._require(TransactionState.IN_TRANSACTION)
        self._move_to(TransactionState.ABORTING)
        if self._last_completes:
            # The last transaction was not awaited, so this transaction sent nothing, and the coordinator does not know
            # it.
            self._move_to(TransactionState.READY)
            return
        if self._needs_retirement:
            self._retire()
            self._move_to(TransactionState.FAILED)
            return
        self._end(committed=False)
        self._move_to(TransactionState.READY)

    def resolve(self, error: FencepostError) -> FencepostError:
        """Return the reason for a writer's error if brokers refused its epoch. Other errors are returned unchanged.

        If a newer producer fenced this one, this producer becomes FENCED; after any other refusal, FAILED.
        """
        if not isinstance(error, InvalidProducerEpochError):
            return error
        reason = self._why_refused()
        self._move_to(TransactionState.FENCED if isinstance(reason, ProducerFencedError) else TransactionState.FAILED)
        reason.__cause__ = error
        return reason

    def abandon(self) -> None:
        """Abort the open transaction from another thread, because the thread that uses this producer hangs.

        Brokers refuse later requests of that thread. A newer owner of the transactional id is not affected. This never
        raises, and stops trying if no coordinator answers quickly. If the hanging thread waits for brokers, its wait
        ends.
        """
        # The flag is set before the abort: a thread that adds a partition after the abort notices the flag when it
        # commits.
        self._abandoned = True
        self._coordinator.cancel()
        for writer in list(self._writers):
            writer.cancel()
        identity = self._identity
        if identity == ProducerIdentity():
            return
        coordinator = self._new_coordinator(self._config.client, self._transactional_id)
        self._abort_quickly(coordinator, identity, retire=self._version is TransactionVersion.V1)
        coordinator.close()

    def close(self) -> None:
        """Abort an open transaction, quickly, and close all connections. Never raises."""
        if self.state is TransactionState.CLOSED:
            return
        if self.state in (TransactionState.IN_TRANSACTION, TransactionState.ABORTING) and not self._last_completes:
            self._abort_quickly(self._coordinator, self._identity, retire=self._needs_retirement)
        self._coordinator.close()
        self._move_to(TransactionState.CLOSED)
        POOL.leave(self._config.client)

    # ---------------------------------------------------------------------------------------------------------

    def _take_over(self) -> tuple[ProducerIdentity, TransactionVersion]:
        try:
            return self._init_producer_id(ProducerIdentity())
        except InvalidProducerEpochError:
            # The request has no epoch that could be outdated. A coordinator that refuses it has lost its state of the
            # last attempt (KAFKA-20310).
            return self._init_producer_id(ProducerIdentity())

    def _init_producer_id(self, current: ProducerIdentity) -> tuple[ProducerIdentity, TransactionVersion]:
        return self._coordinator.init_producer_id(
            current,
            timeout_ms=self._config.transaction_timeout_ms,
            deadline=Deadline.after(self._config.max_block_ms),
        )

    def _forget_writes(self) -> None:
        self._sequences = {}
        self._writers, self._loans = [], 0

    @property
    def _needs_retirement(self) -> bool:
        """Whether the abort must also invalidate the epoch, because brokers may still receive unanswered requests."""
        in_doubt = self._loans > 0 or any(writer.in_doubt for writer in self._writers)
        return in_doubt and self._version is TransactionVersion.V1

    def _retire(self) -> None:
        try:
            self._coordinator.retire(
                self._identity,
                timeout_ms=self._config.transaction_timeout_ms,
                deadline=Deadline.after(self._config.max_block_ms),
            )
        except InvalidProducerEpochError as error:
            raise self.resolve(error) from error
        except KafkaError:
            self._move_to(TransactionState.FAILED)
            raise

    def _abort_quickly(self, coordinator: TransactionCoordinator, identity: ProducerIdentity, *, retire: bool) -> None:
        deadline = Deadline.after(_CLOSING_MS)
        with suppress(FencepostError):
            if retire:
                coordinator.retire(identity, timeout_ms=self._config.transaction_timeout_ms, deadline=deadline)
            else:
                coordinator.end_transaction(identity, self._version, committed=False, deadline=deadline)

    def _await_last_transaction(self) -> None:
        """Before the first request of this transaction, wait for the last transaction's markers (version 2).

        Raises TransactionalIdExpiredError (then the producer is FAILED), and BrokerUnavailableError after
        `max.block.ms`.
        """
        if not self._last_completes:
            return
        # A broker that gets a batch before the markers are written retries after add.partitions.to.txn.retry.backoff.ms
        # (20). Waiting for the markers takes much less time.
        try:
            self._coordinator.await_completion(Deadline.after(self._config.max_block_ms))
        except TransactionalIdExpiredError:
            self._move_to(TransactionState.FAILED)
            raise
        self._last_completes = False

    def _bump_epoch(self) -> None:
        # InitProducerId checks the epoch only if no transaction is open: sent by a zombie, it would abort its
        # successor's transaction. So the epoch is checked first.
        try:
            self._coordinator.check_epoch(self._identity, Deadline.after(self._config.max_block_ms))
            self._identity, self._version = self._init_producer_id(self._identity)
        except InvalidProducerEpochError as error:
            # No transaction is open, so none can have expired.
            self._began_at = None
            raise self.resolve(error) from error
        except LostEpochError:
            # The id may have another owner. So the task must take over the id, and then read the committed offsets.
            self._move_to(TransactionState.FAILED)
            raise

    def _end(self, *, committed: bool) -> None:
        deadline = Deadline.after(self._config.max_block_ms)
        try:
            self._identity = self._coordinator.end_transaction(
                self._identity, self._version, committed=committed, deadline=deadline
            )
        except InvalidProducerEpochError as error:
            if committed or error.code_name != Code.INVALID_TXN_STATE.name:
                raise self.resolve(error) from error
            # The coordinator answers an abort with INVALID_TXN_STATE if no partition was added to the transaction (only
            # version 1).
        except TransactionAbortableError:
            self._move_to(TransactionState.IN_TRANSACTION if committed else TransactionState.FAILED)
            raise
        except KafkaError as error:
            self._move_to(TransactionState.FAILED)
            if committed and isinstance(error, BrokerUnavailableError):
                raise UnknownOutcomeError(self._transactional_id, str(error)) from error
            raise
        self._last_completes = True

    def _why_refused(self) -> ProducerFencedError | TransactionExpiredError | TransactionalIdExpiredError:
        open_ms = 0 if self._began_at is None else int((time.monotonic() - self._began_at) * 1000)
        timeout_ms = self._config.transaction_timeout_ms
        view = None
        try:
            view = self._coordinator.describe(Deadline.after(_ASKING_MS))
        except TransactionalIdExpiredError as error:
            return error
        except KafkaError as error:
            _log.debug("The reason why the epoch of %s is refused is unknown: %s", self._transactional_id, error)
        if has_expired(self._identity, view, open_ms=open_ms, timeout_ms=timeout_ms):
            return TransactionExpiredError(self._transactional_id, open_ms=open_ms, timeout_ms=timeout_ms)
        return ProducerFencedError(self._transactional_id)

    def _require_wanted(self) -> None:
        if self._abandoned:
            raise IllegalStateError(f"The producer of {self._transactional_id} was abandoned: it can only be closed")

    def _require_finished_writers(self) -> None:
        if self._loans or not all(writer.finished for writer in self._writers):
            raise TransactionAbortableError(
                f"Not every writer that was given the transaction of {self._transactional_id} has answered, and one of "
                "them may still be sending: the transaction is aborted and its records are sent again"
            )

    def _require(self, *states: TransactionState) -> None:
        if self.state is TransactionState.FENCED:
            raise ProducerFencedError(self._transactional_id)
        if self.state not in states:
            raise IllegalStateError(
                f"The producer of {self._transactional_id} is {self.state.name}, which does not allow this"
            )

    def _move_to(self, state: TransactionState) -> None:
        if state not in TRANSITIONS[self.state]:
            raise IllegalStateError(
                f"The producer of {self._transactional_id} cannot go from {self.state.name} to {state.name}"
            )
        self.state = state
