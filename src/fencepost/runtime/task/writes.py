"""What a run of a task does with what it polled; how sure the delivery is, is up to the kind of it.

    Delivery        ExactlyOnce          AtLeastOnce
      makes             makes                makes
    TaskWrites      TaskTransaction      AcknowledgedWrites

However many records wait for a commit, what is kept of them is their number and the last offset of each source
partition.
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
"""Records that are in Kafka for good, in order; None instead of metadata for one that a transform dropped."""


@dataclass(frozen=True, slots=True)
class WritePath:
    """How a task's records get into Kafka, and where its source offsets go."""

    engine: SparkEngine
    pipeline: Pipeline
    topic_creator: TopicCreator | None
    offsets_topic: str
    wrote_to: Callable[[Collection[str]], None]
    """Told, on the task's thread, which topics have records that are there for good."""


@dataclass(frozen=True, slots=True)
class WritesContext:
    """What the writes of one run of a task are made of.

    `keeps_records` says whether the task wants to hear of each record. `on_commit` is told of every progress that a
    later start will find.
    """

    task: ConnectorTaskId
    path: WritePath
    offsets: OffsetRecords
    metrics: TaskMetrics
    cancelled: threading.Event
    keeps_records: bool
    on_commit: Callable[[], None]


class TaskWrites(ABC):
    """Writes what one run of a task polled, and commits its source offsets. For the task's own thread."""

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

        Raises ConfigError for a record that may not go where it is meant to go, and what the engine raises.
        """

    @abstractmethod
    def commit(self) -> Settled | None:
        """Commit what was written, with its source offsets, and return the records that are settled by that.

        None where the commit failed and is to be tried again later.
        """

    @abstractmethod
    def abort(self) -> None:
        """Take back what was written, where that can be done. Its source offsets stay, for the next commit."""

    @abstractmethod
    def discard(self) -> None:
        """Leave things such that a task that starts now reads again what is not in Kafka for good."""

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
        """Take note of what a batch became, and return its records, if the task wants to hear of them."""
        if isinstance(batch, SourceBatch):
            self._metrics.wrote(result.written, result.written, result.bytes, result.errors)
            self._offsets.update(batch.offsets)
            return []
        self._metrics.wrote(len(batch), result.written, result.bytes, result.errors)
        if result.metadata is None or result.written == len(batch):
            self._offsets.update(_last_offsets(batch))
        else:
            kept = (record for record, sent in zip(batch, result.metadata, strict=True) if sent is not None)
            self._offsets.update(_last_offsets(kept))
        return list(zip(batch, result.metadata or (), strict=True)) if self._context.keeps_records else []


class Delivery(ABC):
    """What one run of a task may write with: from its start to its end, or until it is given up."""

    def own(self) -> None:  # noqa: B027 - not every kind owns something
        """Own what no other instance of the task may write under. Raises what that raises."""

    @property
    def producer(self) -> TransactionalProducer | None:
        """The owner of the task's transactional id, if it has one. Any thread may look at it."""
        return None

    @abstractmethod
    def writes(self, context: WritesContext) -> TaskWrites:
        """Return the writes of the run, once `own` returned."""

    @abstractmethod
    def abandon(self) -> None:
        """Let the run write no more, as far as that can be had. From any thread."""

    def close(self) -> None:  # noqa: B027 - not every kind holds something
        """Let go of what is owned. Never raises."""


def _last_offsets(records: Iterable[SourceRecord]) -> list[tuple[SourcePartition, SourceOffset]]:
    """Return the last offset for each source partition object, those that came last at the end.

    Sources usually use one object for all records of a partition, so little is left to compare by content.
    """
    latest: dict[int, SourceRecord] = {}
    for record in records:
        identity = id(record.source_partition)
        latest.pop(identity, None)
        latest[identity] = record
    return [(record.source_partition, record.source_offset) for record in latest.values()]
