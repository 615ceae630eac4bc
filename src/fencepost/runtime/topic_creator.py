"""Creates the topics that a connector writes to, where its configuration says how (KIP-158)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Final

from fencepost.config.topic_creation import TopicCreation
from fencepost.kafka.admin import Admin, NewTopic

_log: Final = logging.getLogger(__name__)


class TopicCreator:
    """Creates each topic before its first write. Without a TopicCreation it leaves that to the brokers.

    Topics that only the rows of a SourceBatch name are left to them as well: Spark reads those where it writes them.

    `new_admin` connects with the connector's credentials; it is called only when there is a topic to create.
    """

    def __init__(self, creation: TopicCreation | None, new_admin: Callable[[], Admin]) -> None:
        self._creation = creation
        self._new_admin = new_admin
        self._known: set[str] = set()

    def ensure(self, topics: Iterable[str]) -> None:
        """Create those topics that are missing. Raises TopicCreationError or AuthorizationError."""
        missing = set(topics) - self._known
        if not missing:
            return
        if self._creation is not None:
            with self._new_admin() as admin:
                created = admin.create_topics(*(self._new_topic(self._creation, topic) for topic in sorted(missing)))
            for topic, is_new in created.items():
                if is_new:
                    _log.info("Created topic %s as %s says", topic, self._creation.group_of(topic).name)
        self._known |= missing

    @staticmethod
    def _new_topic(creation: TopicCreation, topic: str) -> NewTopic:
        group = creation.group_of(topic)
        return NewTopic(topic, group.partitions, group.replication_factor, group.settings)
