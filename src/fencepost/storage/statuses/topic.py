"""The status topic: the states of all connectors and tasks of a group of workers, as this worker reads them.

Every worker writes the states of its own connectors and tasks, and reads all states into memory. No call waits: a write
is queued, sent by a thread of the store, retried while it fails, and visible when it is read back. So a status may be
slightly outdated, even for this worker's own work.

A late report must not overwrite a newer one. When a worker stops a task because another worker will run it, or notices
that the task has failed, the other worker may have reported first. So UNASSIGNED and FAILED are not written if the
stored status is from another worker, in a newer generation of the group.

The rule is checked before a report is sent. But a report in flight may still be written after the next owner's report,
and then stay until the owner's next report. That can happen with any state, because a RUNNING report that waits for a
broker may also be late. So if a worker reads a report about its own work from another worker, with an older generation,
it writes its own report again. It also does so if its report was removed by a worker that did not know yet that the
connector was created again.

If a task does not stop in time, Apache's workers report this with their current generation, although the task may
already belong to this worker in that generation. Then this worker also writes its own report again, but only a few
times: two groups that share the topic would repeat this for ever. It would not be enough to ignore such a record when
reading: compaction keeps it and drops the record before it, and a worker that starts later would find nothing else.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter, deque
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

from fencepost.api.errors import FencepostError, IllegalStateError, RetriableError
from fencepost.config.ids import ConnectorTaskId
from fencepost.config.internal_topics import InternalTopic
from fencepost.kafka.clients import KafkaClients
from fencepost.kafka.config.client_config import ClientConfig, ProducerConfig
from fencepost.kafka.consumer.fetch_decoder import ConsumedRecord
from fencepost.kafka.deadline import Backoff
from fencepost.kafka.errors import AuthorizationError, InvalidTimestampError
from fencepost.storage.newest_records import NewestRecords
from fencepost.storage.statuses.codec import ActiveTopic, Status, Subject, TopicStatus, decode, encode
from fencepost.storage.statuses.table import StatusTable, is_late

_LOG: Final = logging.getLogger(__name__)

_FIRST_PAUSE_MS: Final = 200
_LONGEST_PAUSE_MS: Final = 1_000
_CLOSING_SECONDS: Final = 5.0
_MOST_DISPUTES: Final = 3

_GIVEN_UP: Final = "UNASSIGNED"

# After these errors, reports are sent again: a missing right may be granted later, and a clock may be corrected.
_SENT_AGAIN: Final = (RetriableError, AuthorizationError, InvalidTimestampError)


@dataclass(frozen=True, slots=True, eq=False)
class _Write:
    """A record to write. Writes are compared by identity."""

    subject: Subject
    status: Status | TopicStatus | None


class StatusBackingStore:
    """The status topic of a group of workers. Thread-safe; only `flush` and `close` block."""

    def __init__(
        self, topic: InternalTopic, *, clients: KafkaClients, consumer: ClientConfig, producer: ProducerConfig
    ) -> None:
        self.table = StatusTable()
        """The statuses that were read so far."""
        self._clients = clients
        self._topic = topic
        self._newest = NewestRecords()
        self._log = clients.topic_log(consumer, topic.name, self._take, self._say_all_again)
        self._producer = clients.plain_producer(producer)
        self._reading = ThreadPoolExecutor(max_workers=1, thread_name_prefix="status-reading")
        self._changed = threading.Condition()
        self._queue: deque[_Write] = deque()
        self._sending: Sequence[_Write] = ()
        self._latest: dict[Subject, _Write] = {}
        # The last report of this worker about each connector and task that it owns.
        self._own: dict[Subject, Status] = {}
        self._disputes: Counter[Subject] = Counter()
        self._closing = False
        self._refusal: InvalidTimestampError | None = None
        self._sender = threading.Thread(target=self._send_all, name="status-writing", daemon=True)
        self._sender.start()

    @property
    def fatal_failure(self) -> FencepostError | None:
        """The fatal error that ended the reading of the topic, for example because the topic was deleted."""
        return self._log.fatal_failure

    @property
    def refusal(self) -> InvalidTimestampError | None:
        """The error if the broker refuses statuses because this worker's clock is wrong; None otherwise."""
        return self._refusal

    def owns(self, subject: str | ConnectorTaskId) -> bool:
        """Whether this worker has reported on a connector or task, and still owns it."""
        with self._changed:
            return subject in self._own

    def start(self, admin: ClientConfig) -> Future[None]:
        """Create the topic if it is missing, read it to its end, and follow it from then on.

        The future fails with ConfigError for a topic that is not compacted, and with the errors of creating and reading
        a topic.
        """
        return self._reading.submit(self._start, admin)

    def put(self, subject: str | ConnectorTaskId, status: Status) -> None:
        """Report the state of a connector (by its name) or a task of this worker. A late report is dropped."""
        with self._changed:
            self._enqueue(_Write(subject, status))
            self._own[subject] = status
            self._disputes.pop(subject, None)
            if status.state == _GIVEN_UP:
                self.disown(subject)

    def disown(self, subject: str | ConnectorTaskId) -> None:
        """Stop reporting on a connector or task, because another worker may own it now."""
        with self._changed:
            self._own.pop(subject, None)

    def delete_connector(self, connector: str) -> None:
        """Remove a connector's status, and the statuses of its tasks and topics."""
        subjects: list[Subject] = [connector, *self.table.tasks(connector)]
        subjects += [ActiveTopic(connector, status.topic) for status in self.table.topics(connector)]
        for subject in subjects:
            self._enqueue(_Write(subject, None))

    def delete_task(self, task: ConnectorTaskId) -> None:
        """Remove a task's status."""
        self._enqueue(_Write(task, None))

    def put_active_topic(self, task: ConnectorTaskId, topic: str) -> None:
        """Report that a task wrote to a topic.

        This method may be called for each record: a known topic is not written again.
        """
        subject = ActiveTopic(task.connector, topic)
        with self._changed:
            pending = self._latest.get(subject)
        known = self.table.topic(subject) if pending is None else pending.status
        if known is None:
            self._enqueue(_Write(subject, TopicStatus(topic, task.connector, task.task, int(time.time() * 1000))))

    def delete_active_topic(self, active: ActiveTopic) -> None:
        """Remove a topic from a connector's active topics."""
        self._enqueue(_Write(active, None))

    def flush(self, timeout_s: float) -> bool:
        """Wait until all reports are written. Return False if some are not written before the time-out."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._queue and not self._sending, timeout_s)

    def close(self) -> None:
        """Write pending reports, for some seconds at most, and then close the connections."""
        self.flush(_CLOSING_SECONDS)
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        self._producer.close()
        self._log.close()
        self._sender.join()
        # If the topic is just being created, `close` does not wait for that.
        self._reading.shutdown(wait=False, cancel_futures=True)

    # -- on the threads of the store -----------------------------------------------------------------------------

    def _start(self, admin: ClientConfig) -> None:
        with self._clients.admin(admin) as client:
            client.ensure_compacted_topic(self._topic)
        self._log.start()
        self.table.join()

    def _take(self, record: ConsumedRecord) -> None:
        decoded = decode(record.key, record.value)
        if decoded is None:
            _LOG.warning(
                "Record %d of %s-%d is not a status (key %r): it is ignored. Allow only Connect workers to write to that "
                "topic",
                record.offset, record.topic, record.partition, record.key,
            )  # fmt: skip
        elif self._newest.take(record):
            self._apply(*decoded)

    def _apply(self, subject: Subject, status: Status | TopicStatus | None) -> None:
        before = self.table.status(subject)
        self.table.apply(subject, status)
        with self._changed:
            # If this worker's last report differs from `before`, it was not written yet. It will replace this record.
            if before is None or self._own.get(subject) != before or self._closing:
                return
            if (
                not isinstance(status, Status)
                or is_late(before, status)
                or self._disputes_again(subject, before, status)
            ):
                self._enqueue(_Write(subject, before))

    def _say_all_again(self) -> None:
        """Report this worker's own work again, because the topic was deleted and created again."""
        self._newest.clear()
        with self._changed:
            for subject, status in list(self._own.items()):
                self._enqueue(_Write(subject, status))

    def _disputes_again(self, subject: Subject, own: Status, status: Status) -> bool:
        """Whether to write this worker's report again after another worker's report from the same generation.

        The report is repeated only a few times.
        """
        if status.worker_id == own.worker_id or status.generation != own.generation:
            return False
        self._disputes[subject] += 1
        return self._disputes[subject] <= _MOST_DISPUTES

    def _enqueue(self, write: _Write) -> None:
        with self._changed:
            if self._closing:
                raise IllegalStateError(f"The store of status topic {self._topic.name} is closed")
            self._queue.append(write)
            self._latest[write.subject] = write
            if write.status is None:
                self._own.pop(write.subject, None)
            self._changed.notify_all()

    def _send_all(self) -> None:
        backoff = Backoff(_FIRST_PAUSE_MS, _LONGEST_PAUSE_MS)
        failing = False
        while writes := self._next():
            try:
                self._send(writes)
            except _SENT_AGAIN as error:
                if not failing:
                    _LOG.warning("Statuses cannot be written to %s; retrying: %s", self._topic.name, error)
                failing = True
                self._refusal = error if isinstance(error, InvalidTimestampError) else None
                self._put_back(writes, backoff.next_s())
            else:
                failing, self._refusal = False, None
                backoff.reset()
                self._done(writes)

    def _next(self) -> Sequence[_Write]:
        """Wait until writes are queued, and return all of them; empty if the store is closing."""
        with self._changed:
            self._changed.wait_for(lambda: self._queue or self._closing)
            if not self._closing:
                self._sending = tuple(self._queue)
                self._queue.clear()
            return self._sending

    def _send(self, writes: Sequence[_Write]) -> None:
        rows = [
            encode(write.subject, write.status) for write in writes if self.table.allows(write.subject, write.status)
        ]
        try:
            if rows:
                self._producer.write(self._topic.name, [record for row in rows for record in self._newest.placed(row)])
        except _SENT_AGAIN:
            raise
        except FencepostError as error:
            if len(writes) > 1:
                # One of the writes caused the failure. The other writes are sent without it.
                for write in writes:
                    self._send([write])
            elif not self._closing:
                _LOG.error("The status of %s could not be written: %s", writes[0].subject, error)

    def _done(self, writes: Sequence[_Write]) -> None:
        with self._changed:
            for write in writes:
                if self._latest.get(write.subject) is write:
                    del self._latest[write.subject]
            self._sending = ()
            self._changed.notify_all()

    def _put_back(self, writes: Sequence[_Write], pause_s: float) -> None:
        """After a pause, queue failed writes again, except for subjects with a newer report."""
        with self._changed:
            self._changed.wait_for(lambda: self._closing, pause_s)
            self._queue.extendleft(write for write in reversed(writes) if self._latest.get(write.subject) is write)
            self._sending = ()
            self._changed.notify_all()
