"""The writes of a task's run; the kind of delivery determines the guarantee.

    Delivery        ExactlyOnce          AtLeastOnce
      makes             makes                makes
    TaskWrites      TaskTransaction      AcknowledgedWrites

For any number of uncommitted records, only their number and the last offset of each source partition are kept.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

from fencepost.api.record import RecordMetadata, SourceBatch, SourceOffset, SourcePartition, SourceRecord
from fencepost.config.ids import ConnectorTaskId
from fencepost.engine.engine import SparkEngine, WriteResult
from fencepost.engine.errors import RecordRefusedError
from fencepost.engine.pipeline import Pipeline
from fencepost.engine.topic_gate import TopicGate
from fencepost.kafka.admin.topic_creator import TopicCreator
from fencepost.kafka.errors import TopicNotFoundError
from fencepost.kafka.producer.record_producer import RecordProducer, write_and_acknowledge
from fencepost.kafka.producer.transactional import TransactionalProducer
from fencepost.runtime.metrics.task_metrics import TaskMetrics
from fencepost.runtime.task.boundaries import Batch
from fencepost.storage.errors import OffsetsTopicMissingError
from fencepost.storage.offsets.uncommitted import OffsetRecords

Settled = list[tuple[SourceRecord, RecordMetadata | None]]
"""Settled records (durably in Kafka), in order; None instead of metadata for one that a transform dropped."""


@dataclass(frozen=True, slots=True)
class WritePath:
    """The way of a task's records and source offsets to Kafka."""

    engine: SparkEngine
    pipeline: Pipeline
    topic_creator: TopicCreator | None
    offsets_topic: str
    wrote_to: Callable[[Collection[str]], None]
    """Called on the task's thread with the topics of settled records."""


@dataclass(frozen=True, slots=True)
class WritesContext:
    """The parts of the writes of one run of a task.

    `keeps_records`: the task is notified of each record. `on_commit` is called with all progress that a later start will
    find.
    """

    task: ConnectorTaskId
    path: WritePath
    offsets: OffsetRecords
    metrics: TaskMetrics
    cancelled: threading.Event
    keeps_records: bool
    on_commit: Callable[[], None]


class TaskWrites(ABC):
    """Writes the polled records of one run of a task, and commits their source offsets. For the task's own thread."""

    def __init__(self, context: WritesContext, *, refused_topic: str | None = None) -> None:
        self._context = context
        self._task = context.task
        self._path = context.path
        self._offsets = context.offsets
        self._metrics = context.metrics
        self._gate = TopicGate(str(context.task), context.path.topic_creator, offsets_topic=refused_topic)

    @property
    @abstractmethod
    def is_open(self) -> bool:
        """Whether there is a transaction that a commit would end."""

    @abstractmethod
    def write(self, batch: Batch) -> Settled:
        """Write a batch and return the records that are settled by that.

        Raises ConfigError for a record with a forbidden topic, and what the engine raises.
        """

    @abstractmethod
    def commit(self) -> Settled | None:
        """Commit the written records, with their source offsets, and return the records that are settled by that.

        None if the commit failed and will be retried later.
        """

    @abstractmethod
    def abort(self) -> None:
        """Revert the written records, if possible. Their source offsets stay, for the next commit."""

    @abstractmethod
    def discard(self) -> None:
        """Clean up so that a task that starts now reads again all records that are not settled."""

    def _write(self, batch: Batch, producer: RecordProducer) -> WriteResult:
        try:
            result = self._path.engine.write(
                batch,
                self._path.pipeline,
                producer,
                task=str(self._task),
                cancelled=self._context.cancelled,
                topic_gate=self._gate,
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

    def _take(self, batch: Batch, result: WriteResult) -> Settled:
        """Record the result of a batch, and return its records if the task is notified of them."""
        if isinstance(batch, SourceBatch):
            self._metrics.wrote(result.written, result.written, result.bytes, result.errors)
            self._offsets.update(batch.offsets)
            return []
        self._metrics.wrote(len(batch), result.written, result.bytes, result.errors)
        if result.metadata is None or result.written == len(batch):
            self._offsets.update(_last_offsets(batch))
        else:
            # A dead letter is in Kafka as well: without its offset it would be written again.
            kept = (
                record
                for position, (record, sent) in enumerate(zip(batch, result.metadata, strict=True))
                if sent is not None or position in result.lettered
            )
            self._offsets.update(_last_offsets(kept))
        return list(zip(batch, result.metadata or (), strict=True)) if self._context.keeps_records else []


class Delivery(ABC):
    """The means of one run of a task to write: from its start to its end, or until it is abandoned."""

    def own(self) -> None:  # noqa: B027 - not every kind owns something
        """Take over the transactional id, if there is one. Raises what that raises."""

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


def _last_offsets(records: Iterable[SourceRecord]) -> list[tuple[SourcePartition, SourceOffset]]:
    """Return the last offset for each source partition object, the most recent at the end.

    Sources usually use one object for all records of a partition, so few remain to be compared by content.
    """
    latest: dict[int, SourceRecord] = {}
    for record in records:
        identity = id(record.source_partition)
        latest.pop(identity, None)
        latest[identity] = record
    return [(record.source_partition, record.source_offset) for record in latest.values()]
