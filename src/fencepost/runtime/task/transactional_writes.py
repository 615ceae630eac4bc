"""Exactly-once writes of a task: a TaskTransaction writes its batches, and at the commit their source offsets.

The source offsets of records that a transform dropped, or that were skipped because of an error, are committed as well.
If all records of a source are dropped, a transaction with only their offsets would be one more request for each poll.
So such offsets wait for the next transaction with records, for `offset.flush.interval.ms` at most. A crash before that
is harmless, because the same records are read and dropped again.
"""

from __future__ import annotations

import logging
import time
from functools import partial
from typing import Final

from fencepost.api.errors import FencepostError
from fencepost.api.record import SourceBatch, SourceOffset, SourcePartition
from fencepost.failpoint import FailPoint, reach
from fencepost.kafka.errors import TopicNotFoundError
from fencepost.kafka.producer.record_producer import RecordsAlong
from fencepost.kafka.producer.transaction import TransactionState
from fencepost.kafka.producer.transactional import TransactionalProducer
from fencepost.kafka.records.columns import Records
from fencepost.runtime.task.batch_offsets import batch_offsets
from fencepost.runtime.task.boundaries import Batch
from fencepost.runtime.task.writes import Delivery, Settled, TaskWrites, WritesContext
from fencepost.storage.errors import OffsetsTopicMissingError, UnstorableOffsetError

_log: Final = logging.getLogger(__name__)


class ExactlyOnceDelivery(Delivery):
    """Writes in transactions under a transactional id. The last instance of the task that started owns it (KIP-618)."""

    def __init__(self, producer: TransactionalProducer, flush_interval_s: float) -> None:
        """`flush_interval_s` is how long offsets of dropped records may wait for a transaction with records."""
        self._producer = producer
        self._flush_interval_s = flush_interval_s

    def own(self) -> None:
        """Take over the transactional id: earlier instances are fenced, and their open transactions are aborted."""
        self._producer.init_transactions()

    def writes(self, context: WritesContext) -> TaskTransaction:
        """Return the transactions of the run."""
        return TaskTransaction(context, self._producer, self._flush_interval_s)

    @property
    def producer(self) -> TransactionalProducer:
        """The owner of the transactional id."""
        return self._producer

    def abandon(self) -> None:
        """Abort the open transaction, and make brokers refuse later writes."""
        self._producer.abandon()

    def close(self) -> None:
        """Abort an open transaction, because it would block the readers of its topics until it expires."""
        self._producer.close()


class TaskTransaction(TaskWrites):
    """A task's uncommitted writes.

    The records themselves are kept until the commit only if the task overrides `commit_record` or `commit_batch`.
    """

    def __init__(self, context: WritesContext, producer: TransactionalProducer, flush_interval_s: float) -> None:
        super().__init__(context, refused_topic=context.path.offsets_topic)
        self._producer = producer
        self._flush_interval_s = flush_interval_s
        self._flush_at = time.monotonic() + flush_interval_s
        self._only_drops = True
        self._settled: Settled = []
        self._sent_offsets: list[tuple[SourcePartition | None, SourceOffset | None]] = []
        self._size = 0
        self._topics: set[str] = set()
        self._open = False

    @property
    def is_open(self) -> bool:
        """Whether there is a transaction that a commit would end."""
        return self._open

    def has_due_offsets(self, *, final: bool = False) -> bool:
        """Return whether offsets of dropped records wait, and the flush interval has passed since the last commit."""
        return not self._open and len(self._offsets) > 0 and (final or time.monotonic() >= self._flush_at)

    def write(self, batch: Batch, *, ends: bool = False) -> Settled:
        """Write a batch into the transaction; begin one if there is none. No record is settled before the commit.

        `ends` means that the caller will end the transaction after this batch. Then the source offsets of a list of
        records, or of a batch of columns, are sent together with the records, which saves requests.

        Raises ConfigError for a record whose topic is the task's own offsets topic, and the errors of the engine. After
        an error, a transaction that was begun is still open: abort it.
        """
        self._create_topics(batch, self._producer)
        offset_records = None
        if ends and not (isinstance(batch, SourceBatch) and batch.columns is None):
            offset_records = RecordsAlong(self._path.offsets_topic, partial(self._offsets_with, batch))
        try:
            result = self._write(batch, self._producer, self._begin, offset_records)
        except FencepostError as error:
            raise self._resolved(error) from error
        self._size += result.written
        self._topics |= result.topics
        # Dead letters count as records: without their offsets they would be written again.
        self._only_drops = self._only_drops and not result.topics and not isinstance(batch, SourceBatch)
        self._settled += self._take(batch, result, offsets_sent=bool(self._sent_offsets))
        return []

    def commit(self, *, final: bool = False) -> Settled:
        """Commit the written records with their source offsets. Return the settled records.

        Sends nothing if there is neither an open transaction nor an offset to write, or if all records were dropped and
        their offsets may wait longer.
        """
        started = time.monotonic()
        waits = self._only_drops and not final and started < self._flush_at
        offsets = [] if waits else self._offsets.latest()
        if offsets:
            self._begin()
            reach(FailPoint.BEFORE_OFFSETS)
            try:
                self._write_offsets(self._producer)
            except FencepostError as error:
                raise self._resolved(error) from error
        offsets += self._sent_offsets
        if offsets:
            self._flush_at = started + self._flush_interval_s
        if self._open:
            self._end()
            self._metrics.committed(self._size, time.monotonic() - started, offsets)
        self._size = 0
        settled, self._settled = self._settled, []
        return settled

    def abort(self) -> None:
        """Abort the written records. Their source offsets are kept for the next commit."""
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
        """Abort the written records, and drop their source offsets, because the task will read the records again."""
        self._offsets.clear()
        self._settled, self._sent_offsets = [], []
        if self._open:
            self.abort()

    def _offsets_with(self, batch: Batch, partitions: int) -> list[tuple[int, Records]]:
        """Return all source offsets up to the end of a batch, as records. They are sent together with the batch."""
        self._offsets.update(batch_offsets(batch))
        latest = self._offsets.latest()
        try:
            records = self._offsets.by_partition(partitions)
        except UnstorableOffsetError:
            # The commit tries to write these offsets again, and raises the error.
            return []
        reach(FailPoint.BEFORE_OFFSETS)
        self._offsets.written()
        self._sent_offsets = latest
        return records

    def _resolved(self, error: FencepostError) -> FencepostError:
        if isinstance(error, TopicNotFoundError) and error.topic == self._path.offsets_topic:
            return OffsetsTopicMissingError(error.topic)
        return self._producer.resolve(error)

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
        self._only_drops = True
        self._sent_offsets = []
        self._offsets.committed()
        self._context.on_commit()
        self._path.wrote_to(self._topics)
        self._topics.clear()
        reach(FailPoint.BEFORE_CALLBACKS)
