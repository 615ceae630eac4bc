"""A task's transaction: its batches, and their source offsets, which are written at the commit."""

from __future__ import annotations

import logging
import time
from typing import Final

from fencepost.api.errors import FencepostError
from fencepost.failpoint import FailPoint, reach
from fencepost.kafka.producer.transaction import TransactionState
from fencepost.kafka.producer.transactional import TransactionalProducer
from fencepost.runtime.task.boundaries import Batch
from fencepost.runtime.task.writes import Delivery, Settled, TaskWrites, WritesContext

_log: Final = logging.getLogger(__name__)


class ExactlyOnce(Delivery):
    """Writes in transactions under a transactional id, which the last instance of the task to start owns (KIP-618)."""

    def __init__(self, producer: TransactionalProducer) -> None:
        self._producer = producer

    def own(self) -> None:
        """Take over the transactional id: earlier instances are fenced, and their open transactions are aborted."""
        self._producer.init_transactions()

    def writes(self, context: WritesContext) -> TaskTransaction:
        """Return the run's transactions."""
        return TaskTransaction(context, self._producer)

    @property
    def producer(self) -> TransactionalProducer:
        """The owner of the transactional id."""
        return self._producer

    def abandon(self) -> None:
        """Abort the open transaction, and make brokers refuse later writes."""
        self._producer.abandon()

    def close(self) -> None:
        """Abort an open transaction: it would block the readers of its topics until it expires."""
        self._producer.close()


class TaskTransaction(TaskWrites):
    """A task's uncommitted writes.

    The records themselves are kept until the commit only for a task that overrides `commit_record`.
    """

    def __init__(self, context: WritesContext, producer: TransactionalProducer) -> None:
        super().__init__(context, refused_topic=context.path.offsets_topic)
        self._producer = producer
        self._settled: Settled = []
        self._size = 0
        self._topics: set[str] = set()
        self._open = False

    @property
    def is_open(self) -> bool:
        """Whether there is a transaction that a commit would end."""
        return self._open

    def write(self, batch: Batch) -> Settled:
        """Write a batch into the transaction; begin one if there is none. Nothing is settled before the commit.

        Raises ConfigError for a record for the task's own offsets topic, and what the engine raises. The transaction is
        then still open: abort it.
        """
        self._begin()
        try:
            result = self._write(batch, self._producer)
        except FencepostError as error:
            raise self._producer.resolve(error) from error
        self._size += result.written
        self._topics |= result.topics
        self._settled += self._take(batch, result)
        return []

    def commit(self) -> Settled:
        """Commit the written records, with their source offsets, and return the settled records.

        Sends nothing if there is neither an open transaction nor an offset to write.
        """
        started = time.monotonic()
        offsets = self._offsets.latest()
        if offsets:
            self._begin()
            reach(FailPoint.BEFORE_OFFSETS)
            try:
                self._write_offsets(self._producer)
            except FencepostError as error:
                raise self._producer.resolve(error) from error
        if self._open:
            self._end()
            self._metrics.committed(self._size, time.monotonic() - started, offsets)
        self._size = 0
        settled, self._settled = self._settled, []
        return settled

    def abort(self) -> None:
        """Abort the written records. Their source offsets stay, for the next commit."""
        if not self._open:
            _log.info("Task %s asked to abort a transaction, but none is open: there is nothing to abort", self._task)
            return
        try:
            self._producer.abort_transaction()
        finally:
            self._metrics.aborted(self._size, fenced=self._producer.state is TransactionState.FENCED)
            self._size = 0
            self._topics.clear()
        self._open = False

    def discard(self) -> None:
        """Abort the written records and drop their source offsets: the task will read them again."""
        self._offsets.clear()
        self._settled = []
        if self._open:
            self.abort()

    def _begin(self) -> None:
        if self._open:
            return
        reach(FailPoint.BEFORE_BEGIN)
        self._producer.begin_transaction()
        reach(FailPoint.AFTER_BEGIN)
        self._open = True
        self._metrics.began()

    def _end(self) -> None:
        reach(FailPoint.BEFORE_END_TXN)
        try:
            self._producer.commit_transaction()
        except Exception:
            self._metrics.commit_failed()
            raise
        self._open = False
        self._offsets.committed()
        self._context.on_commit()
        self._path.wrote_to(self._topics)
        self._topics.clear()
        reach(FailPoint.BEFORE_CALLBACKS)
