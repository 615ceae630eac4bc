"""Creates the topics that a connector writes to, with the settings in its configuration (KIP-158)."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from fencepost.config.topic_creation import TopicCreation
from fencepost.kafka.admin.admin import Admin
from fencepost.kafka.admin.topic_creation import NewTopic
from fencepost.kafka.config.client_config import ClientConfig

_log: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class TopicCreator:
    """Creates topics with the settings of `creation` and the connector's credentials.

    The object can be pickled, for Spark's executors.
    """

    creation: TopicCreation
    admin: ClientConfig

    def create(self, topics: Iterable[str]) -> None:
        """Create the topics that are missing. Raises TopicCreationError or AuthorizationError."""
        with Admin(self.admin) as admin:
            created = admin.create_topics(*(self._new_topic(topic) for topic in sorted(topics)))
        for topic, is_new in created.items():
            if is_new:
                _log.info("Created topic %s with the settings of %s", topic, self.creation.group_of(topic).name)

    def _new_topic(self, topic: str) -> NewTopic:
        group = self.creation.group_of(topic)
        return NewTopic(topic, group.partitions, group.replication_factor, group.settings)
