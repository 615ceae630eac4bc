"""The limits that topics have for the batches that a producer sends to them."""

from __future__ import annotations

from fencepost.kafka.config.client_config import ProducerConfig
from fencepost.kafka.deadline import Deadline
from fencepost.kafka.errors import DisklessTopicError, RecordTooLargeError
from fencepost.kafka.records.compression import Compression
from fencepost.kafka.transport.cluster import Cluster
from fencepost.kafka.transport.topic_settings import TopicSettings


class TopicLimits:
    """Requests from the cluster the topic settings that limit batches. A request takes `max.block.ms` at most."""

    def __init__(self, config: ProducerConfig, cluster: Cluster) -> None:
        self._config = config
        self._cluster = cluster

    def batch_bytes(self, topic: str) -> int:
        """Return the maximum size of a batch of several records."""
        limit = min(self._config.batch_size, self._config.max_request_size)
        allowed = self._message_bytes(topic)
        return limit if allowed is None else min(limit, allowed)

    def check_record(self, topic: str, size: int) -> None:
        """Raise RecordTooLargeError for a record that is too large for any batch.

        `batch.size` does not limit a single record.
        """
        limit = self._config.max_request_size
        if size > limit:
            raise RecordTooLargeError(topic, size, limit, "producer.override.max.request.size")
        # The compressed size is known only after encoding. If the limit is unknown, the broker checks the size.
        if self._config.compression is Compression.NONE and self._exceeds(topic, size):
            # The limit may have been raised since it was requested.
            self._cluster.forget_settings(topic)
            if self._exceeds(topic, size):
                raise self.too_large(topic, size)

    def check_diskless(self, topic: str) -> None:
        """Raise DisklessTopicError for a topic that does not accept transactions."""
        if self._settings(topic).diskless:
            raise DisklessTopicError(topic)

    def forget(self, topic: str) -> None:
        """Forget the settings: they were changed, or the topic was deleted and created again."""
        self._cluster.forget_settings(topic)

    def too_large(self, topic: str, size: int) -> RecordTooLargeError:
        """Return the error for a record that exceeds the topic's limit."""
        return RecordTooLargeError(topic, size, self._message_bytes(topic), f"max.message.bytes of topic {topic}")

    def _exceeds(self, topic: str, size: int) -> bool:
        allowed = self._message_bytes(topic)
        return allowed is not None and size > allowed

    def _message_bytes(self, topic: str) -> int | None:
        return self._settings(topic).message_bytes

    def _settings(self, topic: str) -> TopicSettings:
        return self._cluster.topic_settings(topic, Deadline.after(self._config.max_block_ms))
