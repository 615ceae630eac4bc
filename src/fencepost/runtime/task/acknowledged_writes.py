"""At-least-once writes of a task. Records are durable when they are acknowledged; their source offsets follow later.

Nothing is lost, because only offsets of acknowledged records are flushed. After a failure, the records since the last
flush may be written again.
"""

from __future__ import annotations

import logging
import time
from typing import Final

from fencepost.api.errors import FencepostError
from fencepost.kafka.producer.idempotent import IdempotentProducer
from fencepost.runtime.task.boundaries import Batch
from fencepost.runtime.task.writes import Delivery, Settled, TaskWrites, WritesContext
from fencepost.storage.errors import OffsetsTopicMissingError

_log: Final = logging.getLogger(__name__)


class AtLeastOnceDelivery(Delivery):
    """Writes records and source offsets with separate producers, outside of transactions."""

    def __init__(self, records: IdempotentProducer, offsets: IdempotentProducer) -> None:
        """A flush takes at most the delivery time-out of the producer `offsets`."""
        self._records = records
        self._offsets = offsets

    def writes(self, context: WritesContext) -> AcknowledgedWrites:
        """Return the writes of the run."""
        return AcknowledgedWrites(context, self._records, self._offsets)

    def abandon(self) -> None:
        """Prevent further writes. A write in progress may continue."""
        self._records.abandon()
        self._offsets.abandon()

    def close(self) -> None:
        """Close the connections."""
        self._records.close()
        self._offsets.close()


class AcknowledgedWrites(TaskWrites):
    """A task's writes, and the source offsets that are not flushed yet."""

    is_open = False

    def has_due_offsets(self, *, final: bool = False) -> bool:
        """Return False: all offsets are flushed together, at the flush interval and at the end."""
        del final
        return False

    def __init__(self, context: WritesContext, records: IdempotentProducer, offsets: IdempotentProducer) -> None:
        super().__init__(context)
        self._records_producer = records
        self._offsets_producer = offsets
        self._size = 0

    def write(self, batch: Batch, *, ends: bool = False) -> Settled:  # noqa: ARG002 - offsets follow their records
        """Write a batch. When this returns, its records are settled.

        After a failure, some of the batch's records may have been written.
        """
        self._create_topics(batch, self._records_producer)
        try:
            result = self._write(batch, self._records_producer)
        except FencepostError:
            self._records_producer.renew()
            raise
        settled = self._take(batch, result)
        self._size += result.written
        self._metrics.acknowledged(result.written)
        self._path.wrote_to(result.topics)
        return settled

    def commit(self, *, final: bool = False) -> Settled | None:  # noqa: ARG002 - all offsets are flushed at each commit
        """Flush the source offsets of the written records.

        Returns None if the flush fails. Then the offsets are kept for the next flush, because the records are already
        in Kafka. Raises OffsetsTopicMissingError.
        """
        started = time.monotonic()
        offsets = self._offsets.latest()
        if offsets:
            try:
                self._write_offsets(self._offsets_producer)
            except OffsetsTopicMissingError:
                # The topic is created only when the task starts again.
                raise
            except FencepostError as error:
                self._offsets_producer.renew()
                self._metrics.commit_failed()
                _log.warning(
                    "The source offsets of task %s were not flushed; retrying at the next flush. Until "
                    "then a restart would write its last records again. %s", self._task, error,
                )  # fmt: skip
                return None
            self._offsets.committed()
            self._context.on_commit()
            self._metrics.flushed(self._size, time.monotonic() - started, offsets)
            self._size = 0
        return []

    def abort(self) -> None:
        """Do nothing: written records stay."""

    def discard(self) -> None:
        """Flush the source offsets of the written records, unless the task was cancelled.

        After a cancellation, another instance of the task may have committed later offsets.
        """
        if not self._context.cancelled.is_set():
            self.commit()
