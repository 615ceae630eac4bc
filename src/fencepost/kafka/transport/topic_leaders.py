"""Finds the leaders of a topic's partitions, for the control plane."""

from __future__ import annotations

import time
from typing import Any, Final
from uuid import UUID

import kafka.errors as client_errors
from kafka.protocol.metadata import MetadataRequest

from fencepost.kafka.deadline import Deadline
from fencepost.kafka.errors import AuthorizationError, KafkaError, TopicNotFoundError
from fencepost.kafka.transport.control_client import TRANSIENT, ControlClient, refusal, remaining_ms
from fencepost.kafka.transport.created_topics import unknown_until

# A broker learns of a topic some milliseconds after it was created through another one.
_UNKNOWN_TOPIC_GRACE_MS: Final = 2_000

_NO_LEADER: Final = -1


async def topic_row(client: ControlClient, topic: str, timeout_ms: float | None = None) -> Any:
    """Return the metadata of a topic, with any error code. Never creates the topic."""
    request = MetadataRequest(
        topics=[MetadataRequest.MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False
    )
    response = await client.send(request, timeout_ms=timeout_ms)
    return response.topics[0]


def metadata_error(error: type[client_errors.KafkaError], topic: str) -> KafkaError:
    """Return the typed form of a fatal error in a topic's metadata."""
    if error is client_errors.UnknownTopicOrPartitionError:
        return TopicNotFoundError(topic)
    if error is client_errors.TopicAuthorizationFailedError:
        return AuthorizationError(f"topic {topic}", "DESCRIBE")
    return refusal(error(), f"describing topic {topic}")


async def topic_leaders(client: ControlClient, topic: str, deadline: Deadline) -> dict[int, int]:
    """Return the leader of each partition, waiting for elections until the deadline.

    Raises TopicNotFoundError, AuthorizationError, and one of TRANSIENT if there is no leader in time.
    """
    return _leaders(await _row_with_leaders(client, topic, deadline))


async def _row_with_leaders(client: ControlClient, topic: str, deadline: Deadline) -> Any:
    grace = unknown_until(client.config.bootstrap_servers, topic, _UNKNOWN_TOPIC_GRACE_MS)
    while True:
        row = await topic_row(client, topic, remaining_ms(deadline, client.config.request_timeout_ms))
        error = client_errors.for_code(row.error_code)
        if error is client_errors.NoError and _NO_LEADER not in _leaders(row).values():
            return row
        lasting = not issubclass(error, TRANSIENT) and error is not client_errors.NoError
        if lasting or (error is client_errors.UnknownTopicOrPartitionError and grace.passed):
            raise metadata_error(error, topic)
        if deadline.passed:
            raise client_errors.LeaderNotAvailableError(f"a partition of {topic} has no leader")
        await client.sleep(remaining_ms(deadline, client.config.retry_backoff_ms))


def _leaders(row: Any) -> dict[int, int]:
    return {partition.partition_index: partition.leader_id for partition in row.partitions}


class TopicLeaders:
    """The leaders of a topic's partitions, known for `metadata.max.age.ms` or until they are forgotten."""

    def __init__(self, client: ControlClient, topic: str) -> None:
        self._client = client
        self._topic = topic
        self._known: dict[int, int] = {}
        self._learnt_at: float | None = None
        self._forgotten_at: float | None = None
        self.topic_id: UUID | None = None
        """The id of the topic when it was last asked for; None before that, and from brokers before 2.8."""

    async def find(self, deadline: Deadline, max_age_ms: float | None = None) -> dict[int, int]:
        """Return the leader of each partition, learnt at most `max_age_ms` ago. Raises as `topic_leaders` does."""
        max_age_ms = self._client.config.metadata_max_age_ms if max_age_ms is None else max_age_ms
        if self._learnt_at is None or self._is_stale(self._learnt_at, max_age_ms):
            # Before the request: changes during the request may be missing in the answer.
            learnt_at = time.monotonic()
            row = await _row_with_leaders(self._client, self._topic, deadline)
            # A broker that lags behind may not know a new partition that another one reported.
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
