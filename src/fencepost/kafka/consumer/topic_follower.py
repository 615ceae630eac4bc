"""Follows a topic: delivers each committed record once, from the first one on, and tracks its position.

A TopicLog has a thread that waits for records with long polls. To read to the end, the end offsets are listed over a
separate connection, because the broker answers one request of a connection at a time. Then the caller waits until the
thread has reached the ends. If the thread has already reached the ends, the caller does not wait, even during a long
poll. If the ends show partitions that the thread does not know, or another topic with that name, the thread determines
the partitions again.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from typing import Final
from uuid import UUID

from fencepost.api.closing import Closing
from fencepost.api.errors import FencepostError, IllegalStateError
from fencepost.kafka.config.client_config import ClientConfig
from fencepost.kafka.consumer.fetch_decoder import ConsumedRecord
from fencepost.kafka.consumer.read_to_end import DEFAULT_TIMEOUT_MS, TopicReader, TopicReadTimeoutError
from fencepost.kafka.deadline import Backoff, Deadline
from fencepost.kafka.errors import AuthorizationError, BrokerUnavailableError, TopicNotFoundError

_LOG: Final = logging.getLogger(__name__)

_FIRST_PAUSE_MS: Final = 100
_LONGEST_PAUSE_MS: Final = 1_000
_MISSING_SECONDS: Final = 2.0


class TopicLog(Closing):
    """All partitions of a topic, followed by a thread that calls `on_record`. Several threads may use it.

    Records of a partition come in order, and one call of `on_record` ends before the next begins.
    """

    def __init__(
        self,
        config: ClientConfig,
        topic: str,
        on_record: Callable[[ConsumedRecord], None],
        on_another_topic: Callable[[], None] = lambda: None,
    ) -> None:
        """`on_another_topic` is called before the first record of a topic that was deleted and then created again."""
        self.topic = topic
        self._on_another_topic = on_another_topic
        self._on_record = on_record
        self._reader = TopicReader(config, topic)
        self._ends = TopicReader(config, topic)
        self._listing = threading.Lock()
        self._moved = threading.Condition()
        self._positions: Mapping[int, int] = {}
        self._topic_id: UUID | None = None
        self._closing = threading.Event()
        self._refusal: AuthorizationError | None = None
        self._failure: FencepostError | None = None
        self._missing_since: float | None = None
        self._hurried = False
        self._thread = threading.Thread(target=self._follow, name=f"log of {topic}", daemon=True)

    def start(self, timeout_ms: float = DEFAULT_TIMEOUT_MS) -> None:
        """Deliver the committed records on the calling thread, and follow the topic from then on.

        Raises the errors of `TopicReader.read_to_end`.
        """
        for record in self._reader.read_to_end(timeout_ms):
            self._on_record(record)
        self._positions, self._topic_id = self._reader.positions, self._reader.topic_id
        self._thread.start()

    def partitions(self, timeout_ms: float = DEFAULT_TIMEOUT_MS) -> int:
        """Return how many partitions the topic has. Raises the errors of `start`."""
        return len(self._list_ends(timeout_ms)[0])

    def read_to_end(self, timeout_ms: float = DEFAULT_TIMEOUT_MS) -> None:
        """Wait until all records that were committed before this call, or are in open transactions, are delivered.

        Raises the errors of `TopicReader.read_to_end`, and IllegalStateError once the log is closed.
        """
        self._wait(*self._list_ends(timeout_ms), timeout_ms)

    def wait_for(self, ends: Mapping[int, int], timeout_ms: float = DEFAULT_TIMEOUT_MS) -> None:
        """Wait until the records before the given offsets, one per partition, are delivered.

        Raises the errors of `read_to_end`.
        """
        self._wait(ends, self._topic_id, timeout_ms)

    def _wait(self, ends: Mapping[int, int], topic_id: UUID | None, timeout_ms: float) -> None:
        deadline = Deadline.after(timeout_ms)
        with self._moved:
            # A missing right may have been granted since the last attempt, so the thread tries again at once.
            self._refusal, self._hurried = None, True
            self._moved.notify_all()
            self._moved.wait_for(
                lambda: self._closing.is_set() or self._refusal or not self._behind(ends, topic_id),
                deadline.remaining_s,
            )
            behind, refusal = self._behind(ends, topic_id), self._refusal
        if self._closing.is_set():
            raise IllegalStateError(f"The log of topic {self.topic} was closed while it was read")
        if behind and refusal is not None:
            raise AuthorizationError(refusal.resource, refusal.operation) from refusal
        if behind:
            partition, position = next(iter(behind.items()))
            with self._listing:
                raise self._ends.late(partition, position, ends[partition], timeout_ms)

    @property
    def fatal_failure(self) -> FencepostError | None:
        """The fatal error that stops following the topic, for example that it was deleted."""
        failure = self._failure
        return None if isinstance(failure, BrokerUnavailableError | TopicReadTimeoutError) else failure

    def close(self) -> None:
        """Stop following, and close the connections. Waiting calls raise an IllegalStateError."""
        self._closing.set()
        with self._moved:
            self._moved.notify_all()
        self._reader.close()
        self._ends.close()
        if self._thread.is_alive():
            self._thread.join()

    def _list_ends(self, timeout_ms: float) -> tuple[dict[int, int], UUID | None]:
        with self._listing:
            ends, topic_id = self._ends.end_offsets(timeout_ms), self._ends.topic_id
        if topic_id != self._topic_id or not ends.keys() <= self._positions.keys():
            self._reader.request_metadata_update()
        return ends, topic_id

    def _behind(self, ends: Mapping[int, int], topic_id: UUID | None) -> dict[int, int]:
        positions = self._positions if self._topic_id == topic_id else {}
        return {
            partition: positions.get(partition, 0)
            for partition, end in ends.items()
            if positions.get(partition, 0) < end
        }

    def _follow(self) -> None:
        backoff = Backoff(_FIRST_PAUSE_MS, _LONGEST_PAUSE_MS)
        failing = False
        while not self._closing.is_set():
            try:
                records = self._reader.poll()
            except FencepostError as error:
                if self._closing.is_set():
                    return
                if not failing:
                    _LOG.warning("Topic %s cannot be followed; retrying: %s", self.topic, error)
                failing = True
                self._failure = self._cause(error)
                self._rest(error, backoff.next_s())
                continue
            if failing:
                _LOG.info("Topic %s is followed again", self.topic)
                failing = False
                self._failure = self._missing_since = None
                backoff.reset()
            self._hand_over(records)

    def _cause(self, failure: FencepostError) -> FencepostError:
        """Return the cause of a failure: a deleted topic first appears as a topic without leaders.

        The topic counts as deleted only after some time, because brokers that have just started may not know it yet.
        """
        if not self._reader.is_missing():
            self._missing_since = None
            return failure
        now = time.monotonic()
        if self._missing_since is None:
            self._missing_since = now
        return (
            TopicNotFoundError(self.topic, to_read=True) if now - self._missing_since >= _MISSING_SECONDS else failure
        )

    def _rest(self, failure: FencepostError, seconds: float) -> None:
        """Pause after a failure. The pause ends when another thread begins to wait for the topic's end."""
        with self._moved:
            if isinstance(failure, AuthorizationError):
                self._refusal = failure
                self._moved.notify_all()
            self._hurried = False
            self._moved.wait_for(lambda: self._hurried or self._closing.is_set(), seconds)

    def _hand_over(self, records: list[ConsumedRecord]) -> None:
        if self._topic_id not in (None, self._reader.topic_id):
            _LOG.warning(
                "Topic %s was deleted and created again, and is read from its beginning. Prevent others from deleting it",
                self.topic,
            )
            self._on_another_topic()
        for record in records:
            try:
                self._on_record(record)
            except Exception:  # noqa: BLE001 - the records behind it must not be lost for one that cannot be taken
                _LOG.exception("Record %d of %s-%d was not processed", record.offset, self.topic, record.partition)
        with self._moved:
            self._positions, self._topic_id = self._reader.positions, self._reader.topic_id
            self._moved.notify_all()
