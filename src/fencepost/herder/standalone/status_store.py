"""The states of a standalone worker's connectors and tasks, in memory."""

from __future__ import annotations

import time

from fencepost.config.ids import ConnectorTaskId
from fencepost.storage.statuses.codec import ActiveTopic, Status, TopicStatus
from fencepost.storage.statuses.table import StatusTable


class MemoryStatuses:
    """The statuses of one process. Thread-safe."""

    def __init__(self) -> None:
        self.table = StatusTable()
        """The known statuses."""

    def put(self, subject: str | ConnectorTaskId, status: Status) -> None:
        """Set the status of a connector (by its name) or a task."""
        self.table.apply(subject, status)

    def delete_connector(self, connector: str) -> None:
        """Remove a connector's status, and the statuses of its tasks and topics."""
        for task in self.table.tasks(connector):
            self.delete_task(task)
        for status in self.table.topics(connector):
            self.delete_active_topic(ActiveTopic(connector, status.topic))
        self.table.apply(connector, None)

    def delete_task(self, task: ConnectorTaskId) -> None:
        """Remove a task's status."""
        self.table.apply(task, None)

    def put_active_topic(self, task: ConnectorTaskId, topic: str) -> None:
        """Record that a task wrote to a topic."""
        active = ActiveTopic(task.connector, topic)
        if self.table.topic(active) is None:
            self.table.apply(active, TopicStatus(topic, task.connector, task.task, time.time_ns() // 1_000_000))

    def delete_active_topic(self, active: ActiveTopic) -> None:
        """Remove a topic from a connector's active topics."""
        self.table.apply(active, None)
