"""Creates topics."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from kafka.protocol.admin import CreateTopicsRequest

from fencepost.kafka.deadline import Deadline
from fencepost.kafka.errors import AuthorizationError, KafkaError, TopicCreationError
from fencepost.kafka.transport.broker_client import TRANSIENT, BrokerClient, remaining_ms
from fencepost.kafka.transport.created_topics import LEARNING_MS, note_created
from fencepost.kafka.transport.error_codes import Code, code_name, is_retriable
from fencepost.kafka.transport.topic_leaders import wait_for_leaders

BROKER_DEFAULT: Final = -1
"""As the number of partitions or replicas, this value requests the broker's default."""

_RECORDS_OF_A_REQUEST: Final = 5_000
"""The maximum number of metadata records per request: a controller refuses more than 10,000."""

_DEFAULT_PARTITIONS: Final = 10
"""The assumed number of partitions of a topic that requests the brokers' `num.partitions`, which is unknown here."""

_NAMED: Final = 3
"""The maximum number of topics that a message names."""


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to create; `configs` are topic settings such as `retention.ms`, as text."""

    name: str
    partitions: int = BROKER_DEFAULT
    replication_factor: int = BROKER_DEFAULT
    configs: Mapping[str, str] = field(default_factory=dict)


def create_topics(client: BrokerClient, topics: Sequence[NewTopic]) -> dict[str, bool]:
    """Create topics. See `Admin.create_topics`."""
    created: dict[str, bool] = {}
    failure: KafkaError | None = None
    for part in _requests(topics):
        deadline = Deadline.after(client.config.request_timeout_ms)
        for topic, row in zip(part, _rows(client, part, deadline), strict=True):
            if row.error_code in (Code.NONE, Code.TOPIC_ALREADY_EXISTS):
                created[topic.name] = row.error_code == Code.NONE
            else:
                failure = failure or _error(topic, row.error_code, row.error_message)
    for name in created:
        note_created(client.config.bootstrap_servers, name)
    wait_for_leaders(client, created, Deadline.after(LEARNING_MS))
    if failure is not None:
        raise failure
    return created


def _rows(client: BrokerClient, topics: Sequence[NewTopic], deadline: Deadline) -> list[Any]:
    """Send the request; return the answer's row of each topic, in order.

    Retries while the controller moves or throttles.
    """
    while True:
        try:
            response = client.send(
                _request(topics, deadline),
                controller_of(client),
                timeout_ms=remaining_ms(deadline, client.config.request_timeout_ms),
            )
            rows = {row.name: row for row in response.topics}
            if deadline.passed or not any(is_retriable(row.error_code) for row in rows.values()):
                return [rows[topic.name] for topic in topics]
        except TRANSIENT:
            if deadline.passed:
                raise
        client.sleep(remaining_ms(deadline, client.config.retry_backoff_ms))


def controller_of(client: BrokerClient) -> int | None:
    """Return the broker that gets requests to create or delete topics: the controller; None (any broker) if unknown."""
    controller: int = client.metadata().controller_id
    return controller if controller in client.cluster.broker_ids() else None


def _requests(topics: Iterable[NewTopic]) -> Iterator[list[NewTopic]]:
    """Divide topics among requests, because one request may create only a limited number of metadata records."""
    part: list[NewTopic] = []
    records = 0
    for topic in topics:
        needed = 1 + len(topic.configs) + (_DEFAULT_PARTITIONS if topic.partitions < 0 else topic.partitions)
        if part and records + needed > _RECORDS_OF_A_REQUEST:
            yield part
            part, records = [], 0
        part.append(topic)
        records += needed
    if part:
        yield part


def listed(names: Sequence[str]) -> str:
    """Return a list of names for a message: the first few, and the number of the others."""
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more


def _request(topics: Iterable[NewTopic], deadline: Deadline) -> Any:
    creatable = CreateTopicsRequest.CreatableTopic
    return CreateTopicsRequest(
        topics=[
            creatable(
                name=topic.name,
                num_partitions=topic.partitions,
                replication_factor=topic.replication_factor,
                assignments=[],
                configs=[
                    creatable.CreatableTopicConfig(name=name, value=value) for name, value in topic.configs.items()
                ],
            )
            for topic in topics
        ],
        timeout_ms=int(remaining_ms(deadline, 60_000)),
        validate_only=False,
    )


def _error(topic: NewTopic, code: int, message: str | None) -> KafkaError:
    """Return the error, with the remedy in one line, for a topic that the cluster refuses to create."""
    if code in (Code.TOPIC_AUTHORIZATION_FAILED, Code.CLUSTER_AUTHORIZATION_FAILED):
        return AuthorizationError(f"topic {topic.name}", "CREATE (or CREATE on the cluster)")
    reason = (message or code_name(code)).rstrip(". ")
    if code == Code.INVALID_REPLICATION_FACTOR:
        advice = (
            f"start more brokers, or set a lower replication factor than {topic.replication_factor} "
            "(*.storage.replication.factor for an internal topic, topic.creation.default.replication.factor for others)"
        )
    elif code == Code.INVALID_PARTITIONS:
        advice = f"set another number of partitions than {topic.partitions}"
    elif code == Code.INVALID_CONFIG:
        advice = f"correct the topic's settings ({_shown(topic.configs)})"
    elif code == Code.POLICY_VIOLATION:
        advice = (
            f"choose settings that the cluster's create.topic.policy.class.name accepts (now {topic.partitions} "
            f"partitions, {topic.replication_factor} replicas, {_shown(topic.configs)}), or have an administrator create it"
        )
    elif code == Code.INVALID_TOPIC:
        advice = (
            "use a name of at most 249 letters, digits, '.', '_' and '-' that differs from others in more than '.' and '_', "
            "which are one character to Kafka"
        )
    else:
        advice = "check the cluster's health and its brokers' logs"
    return TopicCreationError(topic.name, f"{reason}: {advice}")


def _shown(configs: Mapping[str, str]) -> str:
    return ", ".join(f"{name}={value}" for name, value in configs.items()) or "no settings"
