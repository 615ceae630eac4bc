"""The writes of a task's run; the kind of delivery determines the guarantee.

    Delivery        ExactlyOnceDelivery  AtLeastOnceDelivery
      makes             makes                makes
    TaskWrites      TaskTransaction      AcknowledgedWrites

A TaskTransaction has the task's batches, and their source offsets, which are written at the commit. acknowledged_writes
does the same without transactions.

The source offsets of records that a transform dropped, or that were skipped because of an error, are committed as well.
A transaction with nothing else would be one more request for each poll of a source whose records are all dropped. So
such offsets wait for the next transaction with records, and for `offset.flush.interval.ms` at most. A crash before that
is harmless: the same records are read and dropped again.

For any number of uncommitted records, only their number and the last offset of each source partition are kept.
"""

from __future__ import annotations

import logging
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import pyarrow as pa

from fencepost.api.errors import FencepostError
from fencepost.api.record import RecordMetadata, SourceBatch, SourceOffset, SourcePartition, SourceRecord
from fencepost.config.ids import ConnectorTaskId
from fencepost.engine.engine import SparkEngine, WriteResult
from fencepost.engine.errors import RecordRefusedError
from fencepost.engine.pipeline import Pipeline
from fencepost.engine.topic_gate import RefusedTopic, TopicGate
from fencepost.failpoint import FailPoint, reach
from fencepost.kafka.admin.topic_creator import TopicCreator
from fencepost.kafka.errors import TopicNotFoundError
from fencepost.kafka.producer.record_producer import RecordProducer, RecordsAlong, learn_topics, write_and_acknowledge
from fencepost.kafka.producer.transaction import TransactionState
from fencepost.kafka.producer.transactional import TransactionalProducer
from fencepost.kafka.records.columns import Records
from fencepost.runtime.metrics.task_metrics import TaskMetrics
from fencepost.runtime.task.boundaries import Batch
from fencepost.storage.errors import OffsetsTopicMissingError, UnstorableOffsetError
from fencepost.storage.offsets.uncommitted import OffsetRecords

_log: Final = logging.getLogger(__name__)

Settled = list[tuple[SourceRecord, RecordMetadata | None] | tuple[SourceBatch, pa.RecordBatch]]
"""Settled records (durably in Kafka), in order; None instead of metadata for one that a transform dropped.

A batch of columns has the places of its rows.
"""


@dataclass(frozen=True, slots=True)
class WritePath:
    """The way of a task's records and source offsets to Kafka."""

    engine: SparkEngine
    pipeline: Pipeline
    topic_creator: TopicCreator | None
    offsets_topic: str
    wrote_to: Callable[[Collection[str]], None]
    """Called on the task's thread with the topics of settled records."""
    state_topics: Mapping[str, RefusedTopic] = field(default_factory=dict)
    """The topics of the same cluster that workers keep their state in."""


@dataclass(frozen=True, slots=True)
class WritesContext:
    """The parts of the writes of one run of a task.

    `keeps_records`: the task is notified of each record. `keeps_batches`: it is notified of each batch of columns. `on_commit` is called with all progress that a later start will
    find.
    """

    task: ConnectorTaskId
    path: WritePath
    offsets: OffsetRecords
    metrics: TaskMetrics
    cancelled: threading.Event
    keeps_records: bool
    keeps_batches: bool
    on_commit: Callable[[], None]


def _refused(task: ConnectorTaskId, offsets_topic: str | None) -> dict[str, RefusedTopic]:
    if offsets_topic is None:
        return {}
    reason = (
        f"Task {task} has a record for topic {offsets_topic}, which holds its own source offsets. Send the record to "
        "another topic, or give the connector another offsets.storage.topic"
    )
    return {offsets_topic: RefusedTopic(reason, "offsets.storage.topic")}


class TaskWrites(ABC):
    """Writes the polled records of one run of a task, and commits their source offsets. For the task's own thread."""

    def __init__(self, context: WritesContext, *, refused_topic: str | None = None) -> None:
        self._context = context
        self._task = context.task
        self._path = context.path
        self._offsets = context.offsets
        self._metrics = context.metrics
        refused = {**context.path.state_topics, **_refused(context.task, refused_topic)}
        self._gate = TopicGate(context.path.topic_creator, refused)

    @property
    @abstractmethod
    def is_open(self) -> bool:
        """Whether there is a transaction that a commit would end."""

    @abstractmethod
    def has_due_offsets(self, *, final: bool = False) -> bool:
        """Return whether source offsets have to be committed although no transaction is open.

        `final` means the end of a run, where no offset may wait any longer.
        """

    @abstractmethod
    def write(self, batch: Batch, *, ends: bool = False) -> Settled:
        """Write a batch and return the records that are settled by that.

        `ends` means that the caller commits next, or discards: then the source offsets may be sent with the records.
        Raises ConfigError for a record with a forbidden topic, and the errors of the engine.
        """

    @abstractmethod
    def commit(self, *, final: bool = False) -> Settled | None:
        """Commit the written records, with their source offsets, and return the records that are settled by that.

        None if the commit failed and will be retried later. `final` is as for `has_due_offsets`.
        """

    @abstractmethod
    def abort(self) -> None:
        """Revert the written records, if possible. Their source offsets stay, for the next commit."""

    @abstractmethod
    def discard(self) -> None:
        """Clean up so that a task that starts now reads again all records that are not settled."""

    def _create_topics(self, batch: Batch, producer: RecordProducer) -> None:
        """Create the topics of a batch, unless transforms may change them."""
        if isinstance(batch, SourceBatch) and batch.topics and self._path.pipeline.keeps_topics:
            topics = {self._path.pipeline.destination(topic) for topic in batch.topics}
            self._gate.admit(topics)
            learn_topics(producer, topics)

    def _write(
        self,
        batch: Batch,
        producer: RecordProducer,
        begin: Callable[[], None] = lambda: None,
        along: RecordsAlong | None = None,
    ) -> WriteResult:
        try:
            result = self._path.engine.write(
                batch,
                self._path.pipeline,
                producer,
                task=str(self._task),
                cancelled=self._context.cancelled,
                topic_gate=self._gate,
                begin=begin,
                along=along,
                places=self._context.keeps_batches,
            )
        except RecordRefusedError as error:
            self._metrics.failed_records(error.tally.counts)
            raise
        self._gate.learn(result.topics)
        return result

    def _write_offsets(self, producer: RecordProducer) -> None:
        topic = self._path.offsets_topic
        try:
            write_and_acknowledge(producer, topic, self._offsets.by_partition)
        except TopicNotFoundError as error:
            raise OffsetsTopicMissingError(topic) from error
        self._offsets.written()

    def _take(self, batch: Batch, result: WriteResult, *, offsets_sent: bool = False) -> Settled:
        """Record the result of a batch, and return its records if the task is notified of them."""
        if isinstance(batch, SourceBatch):
            polled = result.written if batch.pipeline is None else batch.pipeline.polled
            self._metrics.wrote(polled, result.written, result.bytes, result.errors)
        else:
            self._metrics.wrote(len(batch), result.written, result.bytes, result.errors)
        if not offsets_sent:
            self._offsets.update(_batch_offsets(batch))
        if isinstance(batch, SourceBatch):
            return [] if result.metadata is None else [(batch, result.metadata.columns())]
        return list(zip(batch, result.metadata or (), strict=True)) if self._context.keeps_records else []


class Delivery(ABC):
    """The means of one run of a task to write: from its start to its end, or until it is abandoned."""

    def own(self) -> None:  # noqa: B027 - not every kind owns something
        """Take over the transactional id, if there is one. Raises its errors."""

    @property
    def producer(self) -> TransactionalProducer | None:
        """The owner of the task's transactional id, if it has one. Thread-safe."""
        return None

    @abstractmethod
    def writes(self, context: WritesContext) -> TaskWrites:
        """Return the writes of the run, once `own` returned."""

    @abstractmethod
    def abandon(self) -> None:
        """Prevent further writes of the run, as far as possible. Thread-safe."""

    def close(self) -> None:  # noqa: B027 - not every kind holds something
        """Release all resources. Never raises."""


class ExactlyOnceDelivery(Delivery):
    """Writes in transactions under a transactional id, which the last instance of the task to start owns (KIP-618)."""

    def __init__(self, producer: TransactionalProducer, flush_interval_s: float) -> None:
        """`flush_interval_s` is the time for which offsets of dropped records wait for a transaction with records."""
        self._producer = producer
        self._flush_interval_s = flush_interval_s

    def own(self) -> None:
        """Take over the transactional id: earlier instances are fenced, and their open transactions are aborted."""
        self._producer.init_transactions()

    def writes(self, context: WritesContext) -> TaskTransaction:
        """Return the run's transactions."""
        return TaskTransaction(context, self._producer, self._flush_interval_s)

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

    The records themselves are kept until the commit only for a task that overrides `commit_record` or `commit_batch`.
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
        """Return whether offsets of dropped records have waited for the flush interval, since the last commit of any."""
        return not self._open and len(self._offsets) > 0 and (final or time.monotonic() >= self._flush_at)

    def write(self, batch: Batch, *, ends: bool = False) -> Settled:
        """Write a batch into the transaction; begin one if there is none. Nothing is settled before the commit.

        The source offsets of records that end the transaction are sent with them, if they were polled or are columns: that
        saves requests.

        Raises ConfigError for a record for the task's own offsets topic, and the errors of the engine. The transaction
        is then still open, if it was begun: abort it.
        """
        self._create_topics(batch, self._producer)
        along = None
        if ends and not (isinstance(batch, SourceBatch) and batch.columns is None):
            along = RecordsAlong(self._path.offsets_topic, partial(self._offsets_with, batch))
        try:
            result = self._write(batch, self._producer, self._begin, along)
        except FencepostError as error:
            raise self._resolved(error) from error
        self._size += result.written
        self._topics |= result.topics
        # Dead letters count as well: without their offsets they would be written again.
        self._only_drops = self._only_drops and not result.topics and not isinstance(batch, SourceBatch)
        self._settled += self._take(batch, result, offsets_sent=bool(self._sent_offsets))
        return []

    def commit(self, *, final: bool = False) -> Settled:
        """Commit the written records, with their source offsets, and return the settled records.

        Sends nothing if there is neither an open transaction nor an offset to write, or if only records were dropped and
        their offsets may wait.
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
        self._settled, self._sent_offsets = [], []
        if self._open:
            self.abort()

    def _offsets_with(self, batch: Batch, partitions: int) -> list[tuple[int, Records]]:
        """The records of all source offsets after a batch, to be sent with it."""
        self._offsets.update(_batch_offsets(batch))
        latest = self._offsets.latest()
        try:
            records = self._offsets.by_partition(partitions)
        except UnstorableOffsetError:
            # The commit writes them, and says so.
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


def _batch_offsets(batch: Batch) -> Iterable[tuple[SourcePartition | None, SourceOffset | None]]:
    return batch.offsets if isinstance(batch, SourceBatch) else _last_offsets(batch)


def _last_offsets(records: Iterable[SourceRecord]) -> list[tuple[SourcePartition, SourceOffset]]:
    """Return the last offset for each source partition object, the most recent at the end.

    Sources usually use one object for all records of a partition, or equal ones in a row, so few remain to be compared
    by content.
    """
    latest: dict[int, SourceRecord] = {}
    previous: SourcePartition | None = None
    identity = 0
    for record in records:
        partition = record.source_partition
        if partition is not previous and (previous is None or not _is_same(partition, previous)):
            identity = id(partition)
            latest.pop(identity, None)
        previous = partition
        latest[identity] = record
    return [(record.source_partition, record.source_offset) for record in latest.values()]


def _is_same(partition: SourcePartition, other: SourcePartition) -> bool:
    """Whether two source partitions are the same: in Python 1, 1.0 and True are equal, in JSON they are not."""
    try:
        return (
            partition == other
            and [*partition] == [*other]
            and [*map(type, partition.values())] == [*map(type, other.values())]
        )
    except Exception:  # noqa: BLE001 - values of the connector that cannot be compared are refused where they are stored
        return False
