"""Records in the status topic which topics each connector writes to (KIP-558), unless the settings disable this."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from fencepost.config.ids import ConnectorTaskId
from fencepost.config.worker_config import WorkerConfig
from fencepost.herder.errors import ForbiddenError
from fencepost.storage.statuses.codec import ActiveTopic
from fencepost.storage.statuses.table import StatusTable


class TopicStatuses(Protocol):
    """The methods of the status store that ActiveTopics calls."""

    @property
    def table(self) -> StatusTable:
        """The known statuses."""

    def put_active_topic(self, task: ConnectorTaskId, topic: str) -> None:
        """Report that a task wrote to a topic."""

    def delete_active_topic(self, active: ActiveTopic) -> None:
        """Remove a topic from a connector's active topics."""


class ActiveTopics:
    """Records, shows and resets active topics, if `topic.tracking.enable` and `topic.tracking.allow.reset` allow it."""

    def __init__(self, worker: WorkerConfig, statuses: TopicStatuses) -> None:
        self._worker = worker
        self._statuses = statuses

    def note(self, task: ConnectorTaskId, topics: Iterable[str]) -> None:
        """Record that a task wrote to topics. Thread-safe."""
        if self._worker.topic_tracking_enable:
            for topic in topics:
                self._statuses.put_active_topic(task, topic)

    def topics(self, connector: str) -> Sequence[str]:
        """Return the topics that a connector wrote to. Raises ForbiddenError if they are not tracked."""
        if not self._worker.topic_tracking_enable:
            raise ForbiddenError("Topic tracking is disabled: set topic.tracking.enable=true on all workers")
        return [status.topic for status in self._statuses.table.topics(connector)]

    def reset(self, connector: str) -> None:
        """Reset the topics of a connector. Raises ForbiddenError if they are not tracked, or may not be reset."""
        topics = self.topics(connector)
        if not self._worker.topic_tracking_allow_reset:
            raise ForbiddenError("Topic tracking reset is disabled: set topic.tracking.allow.reset=true on all workers")
        for topic in topics:
            self._statuses.delete_active_topic(ActiveTopic(connector, topic))
