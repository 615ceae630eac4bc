"""Lists and deletes topics."""

from __future__ import annotations

from collections.abc import Collection

from kafka.protocol.admin import DeleteTopicsRequest
from kafka.protocol.metadata import MetadataRequest

from fencepost.kafka.admin.topic_creation import controller_of
from fencepost.kafka.deadline import Deadline
from fencepost.kafka.errors import AuthorizationError
from fencepost.kafka.transport.broker_client import TRANSIENT, BrokerClient, answered, remaining_ms
from fencepost.kafka.transport.error_codes import Code

_GONE = (Code.NONE, Code.UNKNOWN_TOPIC_OR_PARTITION)


def topic_names(client: BrokerClient) -> frozenset[str]:
    """Return the names of the topics that the principal may describe."""
    answer = client.send(MetadataRequest(topics=None, allow_auto_topic_creation=False))
    return frozenset(row.name for row in answer.topics if row.error_code != Code.UNKNOWN_TOPIC_OR_PARTITION)


def delete_topics(client: BrokerClient, names: Collection[str]) -> None:
    """Delete topics, and wait until the brokers do not list them any more. A missing topic is not an error.

    If the principal lacks DELETE on one of the topics, the other topics are deleted, and AuthorizationError is raised.
    """
    deadline = Deadline.after(client.config.request_timeout_ms)
    while left := topic_names(client).intersection(names):
        try:
            _delete(client, sorted(left), deadline)
        except TRANSIENT:
            if deadline.passed:
                raise
        client.sleep(remaining_ms(deadline, client.config.retry_backoff_ms))


def _delete(client: BrokerClient, names: list[str], deadline: Deadline) -> None:
    request = DeleteTopicsRequest(
        topics=[DeleteTopicsRequest.DeleteTopicState(name=name) for name in names],
        topic_names=names,
        timeout_ms=int(remaining_ms(deadline, 60_000)),
    )
    timeout_ms = remaining_ms(deadline, client.config.request_timeout_ms)
    for row in client.send(request, controller_of(client), timeout_ms=timeout_ms).responses:
        if row.error_code == Code.TOPIC_AUTHORIZATION_FAILED:
            raise AuthorizationError(f"topic {row.name}", "DELETE")
        if row.error_code not in _GONE or deadline.passed:
            raise answered(row.error_code, row.error_message)
