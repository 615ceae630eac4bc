"""The writes of a task's run. The kind of delivery determines the guarantee.

    Delivery        ExactlyOnceDelivery  AtLeastOnceDelivery
      makes             makes                makes
    TaskWrites      TaskTransaction      AcknowledgedWrites

`transactional_writes` implements exactly-once delivery. `acknowledged_writes` implements at-least-once delivery,
without transactions.

For uncommitted records, only their number and the last offset of each source partition are kept in memory.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa

from fencepost.api.record import RecordMetadata, SourceBatch, SourceRecord
from fencepost.config.error_handling import DEAD_LETTER_TOPIC
from fencepost.config.ids import ConnectorTaskId
from fencepost.engine.engine import SparkEngine, WriteResult
from fencepost.engine.errors import RecordRefusedError
from fencepost.engine.pipeline import Pipeline
from fencepost.engine.spark.jobs import Cancelled
from fencepost.engine.topic_gate import RefusedTopic, TopicGate
from fencepost.kafka.admin.topic_creator import TopicCreator
from fencepost.kafka.errors import TopicNotFoundError
from fencepost.kafka.producer.record_producer import RecordProducer, RecordsAlong, learn_topics, write_and_acknowledge
from fencepost.kafka.producer.transactional import TransactionalProducer
from fencepost.runtime.metrics.task_metrics import TaskMetrics
from fencepost.runtime.task.batch_offsets import batch_offsets
from fencepost.runtime.task.boundaries import Batch
from fencepost.storage.errors import OffsetsTopicMissingError
from fencepost.storage.offsets.uncommitted import OffsetRecords

_log: Final = logging.getLogger(__name__)

Settled = list[tuple[SourceRecord, RecordMetadata | None] | tuple[SourceBatch, pa.RecordBatch]]
"""Settled records (durably in Kafka), in order, with their metadata.

The metadata is None for a record that a transform dropped. For a batch of columns, it has the topic, partition and
offset of each row.
"""


@dataclass(frozen=True, slots=True)
class WritePath:
    """The objects through which the records and source offsets of a task get to Kafka."""

    engine: SparkEngine
    pipeline: Pipeline
    topic_creator: TopicCreator | None
    offsets_topic: str
    wrote_to: Callable[[Collection[str]], None]
    """Called on the task's thread with the topics of settled records."""
    state_topics: Mapping[str, RefusedTopic] = field(default_factory=dict)
    """The topics of the same cluster in which workers keep their state."""


@dataclass(frozen=True, slots=True)
class WritesContext:
    """The objects and settings that the writes of one run of a task share.

    `keeps_records`: the task is notified of each record. `keeps_batches`: it is notified of each batch of columns.
    `on_commit` is called after each commit, because the run has then made progress.
    """

    task: ConnectorTaskId
    path: WritePath
    offsets: OffsetRecords
    metrics: TaskMetrics
    cancelled: Cancelled
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
    """Writes the polled records of one run of a task, and commits their source offsets.

    Only for the task's own thread.
    """

    def __init__(self, context: WritesContext, *, refused_topic: str | None = None) -> None:
        self._context = context
        self._task = context.task
        self._path = context.path
        self._offsets = context.offsets
        self._metrics = context.metrics
        refused = {**context.path.state_topics, **_refused(context.task, refused_topic)}
        self._gate = TopicGate(context.path.topic_creator, refused)
        self._refused_for: str | None = None
        self._refused = 0
        self._warned_of_refusals = False

    @property
    @abstractmethod
    def is_open(self) -> bool:
        """Whether there is a transaction that a commit would end."""

    @abstractmethod
    def has_due_offsets(self, *, final: bool = False) -> bool:
        """Return whether source offsets must be committed although no transaction is open.

        `final` means that the run ends, so that no offset may wait any longer.
        """

    @abstractmethod
    def write(self, batch: Batch, *, ends: bool = False) -> Settled:
        """Write a batch. Return the records that are settled as a result.

        `ends` means that the caller will commit or discard next, so that the source offsets may be sent with the
        records. Raises ConfigError for a record with a forbidden topic, and the errors of the engine.
        """

    @abstractmethod
    def commit(self, *, final: bool = False) -> Settled | None:
        """Commit the written records with their source offsets. Return the records that are settled as a result.

        The result is None if the commit failed but will be retried. `final` has the same meaning as for
        `has_due_offsets`.
        """

    @abstractmethod
    def abort(self) -> None:
        """Abort the written records, if possible. Their source offsets are kept for the next commit."""

    @abstractmethod
    def discard(self) -> None:
        """Clean up, so that the next start of the task reads all unsettled records again."""

    def _create_topics(self, batch: Batch, producer: RecordProducer) -> None:
        """Create the topics of a batch, unless transforms may change the records' topics."""
        if isinstance(batch, SourceBatch) and batch.topics and self._path.pipeline.keeps_topics:
            topics = {self._path.pipeline.destination(topic) for topic in batch.topics}
            self._gate.admit(topics)
            learn_topics(producer, topics)

    def _write(
        self,
        batch: Batch,
        producer: RecordProducer,
        begin: Callable[[], None] = lambda: None,
        extra_records: RecordsAlong | None = None,
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
                extra_records=extra_records,
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
        """Record the result of a batch. Return its records if the task is notified of them."""
        self._warn_of_refusals(result)
        if isinstance(batch, SourceBatch):
            polled = result.written if batch.pipeline is None else batch.pipeline.polled
            self._metrics.wrote(polled, result.written, result.bytes, result.errors)
        else:
            self._metrics.wrote(len(batch), result.written, result.bytes, result.errors)
        if not offsets_sent:
            self._offsets.update(batch_offsets(batch))
        if isinstance(batch, SourceBatch):
            return [] if result.metadata is None else [(batch, result.metadata.columns())]
        return list(zip(batch, result.metadata or (), strict=True)) if self._context.keeps_records else []

    def _warn_of_refusals(self, result: WriteResult) -> None:
        """Warn if all records are refused for the same reason.

        The warning is not repeated until a record is written.

        A single refused record does not cause a warning.
        """
        if result.written:
            self._refused_for, self._warned_of_refusals = None, False
        if result.only_cause is None or self._warned_of_refusals:
            return
        before = self._refused if self._refused_for == result.only_cause else 0
        self._refused_for, self._refused = result.only_cause, before + result.errors.skipped
        if self._refused == 1:
            return
        self._warned_of_refusals = True
        letters = self._path.pipeline.dead_letter_topic
        _log.warning(
            "Task %s wrote none of %d records: they were refused, all for the same reason: %s. They are %s. There is no "
            "further warning until records pass",
            self._task,
            self._refused,
            result.only_cause,
            f"lost, because {DEAD_LETTER_TOPIC} is not set" if letters is None else f"in the topic {letters}",
        )


class Delivery(ABC):
    """Creates the writes of one run of a task. It is used from the run's start to its end, or until it is abandoned."""

    def own(self) -> None:  # noqa: B027 - not every kind owns something
        """Take over the transactional id, if there is one. Raises the errors of taking it over."""

    @property
    def producer(self) -> TransactionalProducer | None:
        """The owner of the task's transactional id, if it has one. Thread-safe."""
        return None

    @abstractmethod
    def writes(self, context: WritesContext) -> TaskWrites:
        """Return the writes of the run. Call this after `own` has returned."""

    @abstractmethod
    def abandon(self) -> None:
        """Prevent further writes of the run as far as possible. Thread-safe."""

    def close(self) -> None:  # noqa: B027 - not every kind holds something
        """Release all resources. Never raises."""
