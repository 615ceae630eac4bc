"""A task's transaction: batches go in, and with the commit the source offsets that they lead up to.

However many records a transaction holds, what is kept of them is their number and the last offset of each source
partition. Only for a task that overrides `commit_record` the records themselves are kept until the commit.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Final

from fencepost.api.errors import ConfigError, DataError, FencepostError
from fencepost.api.record import RecordMetadata, SourceBatch, SourceOffset, SourcePartition, SourceRecord
from fencepost.config.ids import ConnectorTaskId
from fencepost.failpoint import FailPoint, reach
from fencepost.kafka.producer import TransactionalProducer
from fencepost.runtime.boundaries import Batch
from fencepost.runtime.task_metrics import TaskMetrics
from fencepost.runtime.topic_creator import TopicCreator
from fencepost.spark.engine import SparkEngine, WriteResult
from fencepost.spark.error_counts import ErrorCounts
from fencepost.spark.pipeline import Pipeline
from fencepost.storage.offset_records import OffsetRecords

_log: Final = logging.getLogger(__name__)

_FATAL: Final = ErrorCounts(failures=1, errors=1)

Settled = list[tuple[SourceRecord, RecordMetadata | None]]
"""Records that a commit settled, in order; None instead of metadata for one that a transform dropped."""


@dataclass(frozen=True, slots=True)
class WritePath:
    """How a task's records get into Kafka, and where its source offsets go."""

    engine: SparkEngine
    pipeline: Pipeline
    topic_creator: TopicCreator
    offsets_topic: str
    wrote_to: Callable[[Collection[str]], None]
    """Told, on the task's thread, which topics a committed transaction has records in."""


class TaskTransaction:
    """What a task has written and not committed yet. For the task's own thread."""

    def __init__(
        self,
        task: ConnectorTaskId,
        path: WritePath,
        producer: TransactionalProducer,
        offsets: OffsetRecords,
        *,
        metrics: TaskMetrics,
        cancelled: threading.Event,
        keeps_records: bool,
        on_commit: Callable[[], None],
    ) -> None:
        self._task = task
        self._path = path
        self._producer = producer
        self._metrics = metrics
        self._cancelled = cancelled
        self._keeps_records = keeps_records
        self._on_commit = on_commit
        self._offsets = offsets
        self._settled: Settled = []
        self._size = 0
        self._topics: set[str] = set()
        self._open = False

    @property
    def is_open(self) -> bool:
        """Whether there is a transaction that a commit would end."""
        return self._open

    def write(self, batch: Batch) -> None:
        """Write a batch into the transaction, which begins if there is none.

        Raises ConfigError for a record that is meant for the task's own offsets topic, and what the engine raises.
        The transaction is then still open: abort it.
        """
        default_topic = self._path.pipeline.default_topic
        if isinstance(batch, SourceBatch) and default_topic is not None:
            self._prepare_topics({default_topic})
        self._begin()
        try:
            result = self._path.engine.write(
                batch,
                self._path.pipeline,
                self._producer,
                task=str(self._task),
                cancelled=self._cancelled,
                before_write=self._prepare_topics,
            )
        except FencepostError as error:
            if isinstance(error, DataError):
                self._metrics.failed_records(_FATAL)
            raise self._producer.resolve(error) from error
        # A SourceBatch's own column of topics, or a transform of it, is seen only now; the abort hides what it did.
        self._refuse_offsets_topic(result.topics)
        self._take(batch, result)

    def commit(self) -> Settled:
        """Commit what was written, with its source offsets, and return the records that are settled.

        Nothing is sent where there is neither an open transaction nor an offset to record.
        """
        started = time.monotonic()
        offsets = self._offsets.latest()
        if offsets:
            self._begin()
            reach(FailPoint.BEFORE_OFFSETS)
            self._write_offsets()
        if self._open:
            self._end()
            self._metrics.committed(self._size, time.monotonic() - started, offsets)
        self._size = 0
        settled, self._settled = self._settled, []
        return settled

    def abort(self) -> None:
        """Abort what was written. Its source offsets stay, for the next commit."""
        if not self._open:
            _log.info("Task %s asked to abort a transaction, but none is open: there is nothing to abort", self._task)
            return
        try:
            self._producer.abort_transaction()
        finally:
            self._metrics.aborted(self._size)
            self._size = 0
            self._topics.clear()
        self._open = False

    def discard(self) -> None:
        """Abort what was written and forget its source offsets: the task will read it again."""
        self._offsets.clear()
        self._settled = []
        if self._open:
            self.abort()

    def _begin(self) -> None:
        if self._open:
            return
        reach(FailPoint.BEFORE_BEGIN)
        self._producer.begin_transaction()
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
        self._on_commit()
        self._path.wrote_to(self._topics)
        self._topics.clear()
        reach(FailPoint.BEFORE_CALLBACKS)

    def _write_offsets(self) -> None:
        writer = self._producer.writer()
        try:
            topic = self._path.offsets_topic
            for partition, records in self._offsets.by_partition(writer.partitions(topic)):
                writer.write(topic, partition, records)
            self._producer.acknowledge(writer.flush())
        except FencepostError as error:
            raise self._producer.resolve(error) from error
        finally:
            writer.close()
        self._offsets.written()

    def _prepare_topics(self, topics: Collection[str]) -> None:
        self._refuse_offsets_topic(topics)
        self._path.topic_creator.ensure(topics)

    def _refuse_offsets_topic(self, topics: Iterable[str]) -> None:
        if self._path.offsets_topic in topics:
            raise ConfigError(
                f"Task {self._task} has a record for topic {self._path.offsets_topic}, which holds its own source "
                "offsets. Send the record to another topic, or give the connector another offsets.storage.topic",
                name="offsets.storage.topic",
            )

    def _take(self, batch: Batch, result: WriteResult) -> None:
        self._size += result.written
        self._topics |= result.topics
        if isinstance(batch, SourceBatch):
            self._metrics.wrote(result.written, result.written, result.bytes, result.errors)
            self._offsets.update(batch.offsets)
            return
        self._metrics.wrote(len(batch), result.written, result.bytes, result.errors)
        if result.metadata is None or result.written == len(batch):
            self._offsets.update(_last_offsets(batch))
        else:
            kept = (record for record, sent in zip(batch, result.metadata, strict=True) if sent is not None)
            self._offsets.update(_last_offsets(kept))
        if self._keeps_records:
            self._settled.extend(zip(batch, result.metadata or (), strict=True))


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
