"""Finds the leaders of a topic's partitions, for administration and for reading."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any, Final
from uuid import UUID

from fencepost.kafka.deadline import Deadline
from fencepost.kafka.errors import AuthorizationError, KafkaError, TopicNotFoundError
from fencepost.kafka.transport.broker_client import BrokerClient, PassingError, remaining_ms
from fencepost.kafka.transport.created_topics import unknown_until
from fencepost.kafka.transport.error_codes import Code, is_retriable, refused

_NO_LEADER: Final = -1


def topic_row(client: BrokerClient, topic: str, timeout_ms: float | None = None) -> Any:
    """Return the metadata of a topic, whatever its error code. Never creates the topic."""
    return client.metadata([topic], timeout_ms=timeout_ms).topics[0]


def metadata_error(code: int, topic: str) -> KafkaError:
    """Return the typed form of a fatal error in a topic's metadata."""
    if code == Code.UNKNOWN_TOPIC_OR_PARTITION:
        return TopicNotFoundError(topic, to_read=True)
    if code == Code.TOPIC_AUTHORIZATION_FAILED:
        return AuthorizationError(f"topic {topic}", "DESCRIBE")
    return refused(f"describing topic {topic}", code)


def topic_leaders(client: BrokerClient, topic: str, deadline: Deadline) -> dict[int, int]:
    """Return the leader of each partition. If there is none, wait for an election until the deadline.

    Raises TopicNotFoundError, AuthorizationError, and one of TRANSIENT if no leader is elected in time.
    """
    return _leaders(_row_with_leaders(client, topic, deadline))


def wait_for_leaders(client: BrokerClient, topics: Iterable[str], deadline: Deadline) -> dict[str, Any]:
    """Return the metadata of each topic once all partitions have a leader. Raises the errors of `topic_leaders`."""
    graces = {topic: unknown_until(client.config.bootstrap_servers, topic) for topic in topics}
    found: dict[str, Any] = {}
    while waiting := [topic for topic in graces if topic not in found]:
        timeout_ms = remaining_ms(deadline, client.config.request_timeout_ms)
        rows = client.metadata(waiting, timeout_ms=timeout_ms).topics
        found |= {row.name: row for row in rows if _is_led(row)}
        for row in rows:
            code, grace = row.error_code, graces[row.name]
            fatal = code != Code.NONE and not is_retriable(code)
            if fatal or (code == Code.UNKNOWN_TOPIC_OR_PARTITION and grace.passed):
                raise metadata_error(code, row.name)
        if len(found) < len(graces):
            if deadline.passed:
                topic = next(topic for topic in waiting if topic not in found)
                raise PassingError(Code.LEADER_NOT_AVAILABLE, f"a partition of {topic} has no leader")
            client.sleep(remaining_ms(deadline, client.config.retry_backoff_ms))
    return found


def _row_with_leaders(client: BrokerClient, topic: str, deadline: Deadline) -> Any:
    return wait_for_leaders(client, [topic], deadline)[topic]


def _is_led(row: Any) -> bool:
    return row.error_code == Code.NONE and _NO_LEADER not in _leaders(row).values()


def _leaders(row: Any) -> dict[int, int]:
    return {partition.partition_index: partition.leader_id for partition in row.partitions}


class TopicLeaders:
    """The leaders of a topic's partitions.

    The leaders are remembered for `metadata.max.age.ms`, or until `forget` is called.
    """

    def __init__(self, client: BrokerClient, topic: str) -> None:
        self._client = client
        self._topic = topic
        self._known: dict[int, int] = {}
        self._learnt_at: float | None = None
        self._forgotten_at: float | None = None
        self.topic_id: UUID | None = None
        """The id of the topic at the last request; None before that, and from brokers before Kafka 2.8."""

    def find(self, deadline: Deadline, max_age_ms: float | None = None) -> dict[int, int]:
        """Return the leader of each partition, at most `max_age_ms` old. Raises the errors of `topic_leaders`."""
        max_age_ms = self._client.config.metadata_max_age_ms if max_age_ms is None else max_age_ms
        if self._learnt_at is None or self._is_stale(self._learnt_at, max_age_ms):
            # The age counts from the start of the request, because the answer may lack changes during the request.
            learnt_at = time.monotonic()
            row = _row_with_leaders(self._client, self._topic, deadline)
            # Known partitions are kept, because partitions never disappear, but a broker may not know a new partition
            # yet.
            same = row.topic_id is not None and row.topic_id == self.topic_id
            self._known = (self._known if same else {}) | _leaders(row)
            self._learnt_at, self.topic_id = learnt_at, row.topic_id
        return self._known

    def _is_stale(self, learnt_at: float, max_age_ms: float) -> bool:
        forgotten_at = self._forgotten_at
        if forgotten_at is not None and learnt_at <= forgotten_at:
            return True
        return learnt_at <= time.monotonic() - max_age_ms / 1000

    def forget(self) -> None:
        """Request the leaders again when they are needed next. Thread-safe."""
        self._forgotten_at = time.monotonic()
