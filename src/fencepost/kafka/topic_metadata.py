"""Which brokers lead a topic's partitions, as the control plane asks for it."""

from __future__ import annotations

import time
from typing import Any, Final

import kafka.errors as client_errors
from kafka.protocol.metadata import MetadataRequest

from fencepost.kafka.control_client import TRANSIENT, ControlClient, refusal, remaining_ms
from fencepost.kafka.deadline import Deadline
from fencepost.kafka.errors import AuthorizationError, KafkaError, TopicNotFoundError

# A broker learns of a topic some milliseconds after it was created through another one.
_UNKNOWN_TOPIC_GRACE_MS: Final = 2_000

_NO_LEADER: Final = -1


async def topic_row(client: ControlClient, topic: str, timeout_ms: float | None = None) -> Any:
    """Return Metadata's row about a topic, whatever error code it holds. Never creates the topic."""
    request = MetadataRequest(
        topics=[MetadataRequest.MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False
    )
    response = await client.send(request, timeout_ms=timeout_ms)
    return response.topics[0]


def metadata_error(error: type[client_errors.KafkaError], topic: str) -> KafkaError:
    """Return the typed form of a lasting error in Metadata's row about a topic."""
    if error is client_errors.UnknownTopicOrPartitionError:
        return TopicNotFoundError(topic)
    if error is client_errors.TopicAuthorizationFailedError:
        return AuthorizationError(f"topic {topic}", "DESCRIBE")
    return refusal(error(), f"describing topic {topic}")


async def topic_leaders(client: ControlClient, topic: str, deadline: Deadline) -> dict[int, int]:
    """Return the leader of each partition, waiting for elections until the deadline.

    Raises TopicNotFoundError, AuthorizationError, and one of TRANSIENT if there is no leader in time.
    """
    grace = Deadline.after(_UNKNOWN_TOPIC_GRACE_MS)
    while True:
        row = await topic_row(client, topic, remaining_ms(deadline, client.config.request_timeout_ms))
        error = client_errors.for_code(row.error_code)
        leaders = {partition.partition_index: partition.leader_id for partition in row.partitions}
        if error is client_errors.NoError and _NO_LEADER not in leaders.values():
            return leaders
        lasting = not issubclass(error, TRANSIENT) and error is not client_errors.NoError
        if lasting or (error is client_errors.UnknownTopicOrPartitionError and grace.passed):
            raise metadata_error(error, topic)
        if deadline.passed:
            raise client_errors.LeaderNotAvailableError(f"a partition of {topic} has no leader")
        await client.sleep(remaining_ms(deadline, client.config.retry_backoff_ms))


class TopicLeaders:
    """The leaders of a topic's partitions, known for `metadata.max.age.ms` or until they are forgotten."""

    def __init__(self, client: ControlClient, topic: str) -> None:
        self._client = client
        self._topic = topic
        self._known: dict[int, int] = {}
        self._known_until = 0.0

    async def find(self, deadline: Deadline) -> dict[int, int]:
        """Return the leader of each partition. Raises as `topic_leaders` does."""
        if not self._known or time.monotonic() >= self._known_until:
            self._known = await topic_leaders(self._client, self._topic, deadline)
            self._known_until = Deadline.after(self._client.config.metadata_max_age_ms).at
        return self._known

    def forget(self) -> None:
        """Ask anew when they are needed next."""
        self._known_until = 0.0
