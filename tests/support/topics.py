"""Topics for tests: created with confluent-kafka, under names that no other test has."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewPartitions, NewTopic, ResourceType

from tests.support.processes import wait_for

_TIMEOUT_SECONDS = 120.0


def unique(prefix: str) -> str:
    """A name for a topic, transactional id, group or connector that no other test uses."""
    return f"{prefix}-{uuid.uuid4().hex[:12]}"


class Topics:
    """Creates and describes topics. `settings` are librdkafka's, for example those of a secured broker."""

    def __init__(self, bootstrap_servers: str, settings: Mapping[str, Any] | None = None) -> None:
        self._admin = AdminClient({"bootstrap.servers": bootstrap_servers, **(settings or {})})

    def create(
        self,
        name: str | None = None,
        *,
        partitions: int = 1,
        replication: int = -1,
        config: Mapping[str, str] | None = None,
    ) -> str:
        """Create a topic, wait until it is there, and return its name (a unique one if none is given)."""
        name = name or unique("topic")
        # librdkafka looks for the controller only once, and waits in vain if a broker that has just started names none.
        wait_for(lambda: self._admin.list_topics(timeout=_TIMEOUT_SECONDS).controller_id >= 0, what="a controller")
        topic = NewTopic(name, partitions, replication, config=dict(config or {}))
        self._admin.create_topics([topic], operation_timeout=_TIMEOUT_SECONDS)[name].result(_TIMEOUT_SECONDS)
        # The controller answers before every broker knows the topic.
        wait_for(lambda: self.partitions(name) == partitions)
        return name

    def delete(self, name: str) -> None:
        self._admin.delete_topics([name], operation_timeout=_TIMEOUT_SECONDS)[name].result(_TIMEOUT_SECONDS)

    def partitions(self, name: str) -> int | None:
        """The number of partitions; None if there is no such topic."""
        topic = self._admin.list_topics(timeout=_TIMEOUT_SECONDS).topics.get(name)
        return None if topic is None else len(topic.partitions)

    def grow(self, name: str, partitions: int) -> None:
        """Increase the number of partitions to `count`, and wait until they exist."""
        self._admin.create_partitions([NewPartitions(name, partitions)], operation_timeout=_TIMEOUT_SECONDS)[
            name
        ].result(_TIMEOUT_SECONDS)
        wait_for(lambda: self.partitions(name) == partitions, what=f"{partitions} partitions of {name}")

    def config(self, name: str) -> dict[str, str]:
        """All settings of a topic, including defaults."""
        resource = ConfigResource(ResourceType.TOPIC, name)
        entries = self._admin.describe_configs([resource])[resource].result(_TIMEOUT_SECONDS)
        return {key: entry.value for key, entry in entries.items()}

    def truncate(self, name: str, partition: int, before_offset: int) -> None:
        """Delete the records before an offset."""
        where = TopicPartition(name, partition, before_offset)
        self._admin.delete_records([where])[where].result(_TIMEOUT_SECONDS)
