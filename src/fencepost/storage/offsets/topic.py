"""An offsets topic as a store. It is compacted, and has the offsets of all connectors that commit to it.

Tasks collect their offsets in OffsetRecords, and write them in the transaction of the data. The store only reads the
topic. Committed offsets are recorded nowhere else.
"""

from __future__ import annotations

import logging
import threading
import weakref
from typing import Final

from fencepost.api.closing import Closing
from fencepost.config.internal_topics import InternalTopic
from fencepost.kafka.clients import KafkaClients
from fencepost.kafka.config.client_config import ClientConfig
from fencepost.kafka.consumer.read_to_end import DEFAULT_TIMEOUT_MS
from fencepost.kafka.deadline import Deadline
from fencepost.kafka.errors import TopicNotFoundError
from fencepost.storage.offsets.table import OffsetTable

_LOG: Final = logging.getLogger(__name__)

_DIAGNOSIS_TIMEOUT_MS: Final = 5_000
"""After the time-out of a read, this is the time limit for finding out the reason."""


class OffsetStore(Closing):
    """The offsets of all connectors in one offsets topic. Thread-safe.

    `consumer` reads the topic, `admin` creates it. The connections are closed together with the last reference to this
    object, unless they were closed before.
    """

    def __init__(
        self, topic: InternalTopic, *, clients: KafkaClients, consumer: ClientConfig, admin: ClientConfig
    ) -> None:
        self.topic = topic.name
        self.table = OffsetTable()
        self.is_ensured = False
        """Whether the topic existed, and was compacted, at the last check."""
        self._settings = topic
        self._clients = clients
        self._admin = admin
        self._consumer = consumer
        self._reader = clients.topic_reader(consumer, topic.name)
        self._topic_id: object = None
        self._reading = threading.Lock()
        self._close = weakref.finalize(self, self._reader.close)
        self._close.atexit = False

    def ensure_topic(self) -> bool:
        """Create the topic, compacted, if it does not exist. Returns True if it was created.

        Raises the errors of `Admin.ensure_compacted_topic`.
        """
        with self._clients.admin(self._admin) as admin:
            created = admin.ensure_compacted_topic(self._settings)
        self.is_ensured = True
        return created

    def refresh(self, timeout_ms: float = DEFAULT_TIMEOUT_MS, *, create: bool = True) -> None:
        """Read all offsets that were committed before this call. This waits for open transactions.

        The call takes a few milliseconds if nothing is new. If the topic was deleted, it is created again (unless
        `create` is False), and the offsets that were read before stay valid. Raises the errors of
        `TopicReader.read_to_end`, and of creating a topic.
        """
        deadline = Deadline.after(timeout_ms)
        if not self._reading.acquire(timeout=timeout_ms / 1000):
            self._check_read(timeout_ms)
            return
        try:
            self._read(timeout_ms, deadline)
        except TopicNotFoundError:
            if not create:
                raise
            if self._settings.created:
                _LOG.warning(
                    "Offsets topic %s was deleted, and is created again. Offsets in it that this worker has not read "
                    "are lost. Prevent others from deleting it",
                    self.topic,
                )
            self.ensure_topic()
            self._read(timeout_ms, deadline)
        finally:
            self._reading.release()

    def close(self) -> None:
        """Close the connections. A read on another thread ends with an IllegalStateError."""
        self._close()

    def _check_read(self, timeout_ms: float) -> None:
        """Raise an error that says why another thread has not read the topic to its end.

        Returns if that thread has just finished.
        """
        positions = self._reader.positions
        with self._clients.topic_reader(self._consumer, self.topic) as reader:
            for partition, end in reader.end_offsets(_DIAGNOSIS_TIMEOUT_MS).items():
                if positions.get(partition, 0) < end:
                    raise reader.late(partition, positions.get(partition, 0), end, timeout_ms)

    def _read(self, timeout_ms: float, deadline: Deadline) -> None:
        ignored, first = 0, None
        for record in self._reader.read_to_end(timeout_ms, deadline=deadline):
            self._notice_another_topic()
            if not self.table.apply(record):
                ignored, first = ignored + 1, first or record
        self._notice_another_topic()
        self.table.forget_removed()
        if first is not None:
            # Only one log line is written for all such records: there may be many, if this is another program's topic
            # by mistake.
            _LOG.warning(
                "Record %d of %s-%d is not a source offset (key %r): it is ignored, as are %d other records. Allow only "
                "Connect workers to write to that topic",
                first.offset, self.topic, first.partition, first.key, ignored - 1,
            )  # fmt: skip

    def _notice_another_topic(self) -> None:
        topic_id = self._reader.topic_id
        if self._topic_id not in (None, topic_id):
            _LOG.warning(
                "Offsets topic %s was deleted and created again. Offsets that this worker has read from the deleted topic stay "
                "valid unless the new topic has newer offsets. Prevent others from deleting it", self.topic,
            )  # fmt: skip
            self.table.leave_places()
        self._topic_id = topic_id
