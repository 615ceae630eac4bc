"""The states of a standalone worker's connectors and tasks, in memory."""

from __future__ import annotations

import time

from fencepost.config.ids import ConnectorTaskId
from fencepost.storage.statuses.codec import ActiveTopic, Status, TopicStatus
from fencepost.storage.statuses.table import StatusTable


class MemoryStatuses:
    """Threads may share it."""

    def __init__(self) -> None:
        self.table = StatusTable()
        """What is known."""

    def put(self, subject: str | ConnectorTaskId, status: Status) -> None:
        """Take note of how a connector (by its name) or a task is."""
        self.table.apply(subject, status)

    def delete_connector(self, connector: str) -> None:
        """Forget a connector, and all that is known about its tasks and topics."""
        for task in self.table.tasks(connector):
            self.delete_task(task)
        for status in self.table.topics(connector):
            self.delete_active_topic(ActiveTopic(connector, status.topic))
        self.table.apply(connector, None)

    def delete_task(self, task: ConnectorTaskId) -> None:
        """Forget a task."""
        self.table.apply(task, None)

    def put_active_topic(self, task: ConnectorTaskId, topic: str) -> None:
        """Take note that a task wrote to a topic."""
        active = ActiveTopic(task.connector, topic)
        if self.table.topic(active) is None:
            self.table.apply(active, TopicStatus(topic, task.connector, task.task, time.time_ns() // 1_000_000))

    def delete_active_topic(self, active: ActiveTopic) -> None:
        """Forget that a connector wrote to a topic."""
        self.table.apply(active, None)
