"""What a status topic says, in memory. No I/O."""

from __future__ import annotations

import threading
from collections import defaultdict
from typing import Final, TypeVar

from fencepost.config.ids import ConnectorTaskId
from fencepost.storage.status_records import ActiveTopic, Status, Subject, TopicStatus

K = TypeVar("K")
V = TypeVar("V")

_LATE_STATES: Final = frozenset({"UNASSIGNED", "FAILED"})


def may_overwrite(stored: Status | None, report: Status) -> bool:
    """Whether a report about a connector or task may take the place of what is stored about it.

    Those that a worker makes about what it gives up come late at times, when the next owner has reported already.
    """
    return (
        report.state not in _LATE_STATES
        or stored is None
        or stored.worker_id == report.worker_id
        or stored.generation <= report.generation
    )


class StatusTable:
    """The latest status of everything. Threads may share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._connectors: dict[str, Status] = {}
        self._tasks: dict[str, dict[int, Status]] = defaultdict(dict)
        self._topics: dict[str, dict[str, TopicStatus]] = defaultdict(dict)

    def apply(self, subject: Subject, status: Status | TopicStatus | None) -> None:
        """Take in a record; None removes what is known about the subject."""
        with self._lock:
            match subject, status:
                case str(), Status():
                    self._connectors[subject] = status
                case str(), None:
                    self._connectors.pop(subject, None)
                case ConnectorTaskId(connector, task), Status():
                    self._tasks[connector][task] = status
                case ConnectorTaskId(connector, task), None:
                    _remove(self._tasks, connector, task)
                case ActiveTopic(connector, topic), TopicStatus():
                    self._topics[connector][topic] = status
                case ActiveTopic(connector, topic), None:
                    _remove(self._topics, connector, topic)

    def connectors(self) -> list[str]:
        """The connectors that have a status, sorted."""
        with self._lock:
            return sorted(self._connectors)

    def connector(self, connector: str) -> Status | None:
        """How a connector is, None if nobody said."""
        with self._lock:
            return self._connectors.get(connector)

    def task(self, task: ConnectorTaskId) -> Status | None:
        """How a task is, None if nobody said."""
        with self._lock:
            return self._tasks.get(task.connector, {}).get(task.task)

    def tasks(self, connector: str) -> dict[ConnectorTaskId, Status]:
        """How the tasks of a connector are, by number; without those of which nobody said anything."""
        with self._lock:
            tasks = self._tasks.get(connector, {})
            return {ConnectorTaskId(connector, number): tasks[number] for number in sorted(tasks)}

    def topics(self, connector: str) -> list[TopicStatus]:
        """The topics that a connector wrote to, by name."""
        with self._lock:
            topics = self._topics.get(connector, {})
            return [topics[name] for name in sorted(topics)]

    def topic(self, active: ActiveTopic) -> TopicStatus | None:
        """Since when a topic is written to by a connector, None if it is not."""
        with self._lock:
            return self._topics.get(active.connector, {}).get(active.topic)

    def allows(self, subject: Subject, report: Status | TopicStatus | None) -> bool:
        """Whether a report may be written: it is not a late one."""
        match subject, report:
            case str(), Status():
                return may_overwrite(self.connector(subject), report)
            case ConnectorTaskId(), Status():
                return may_overwrite(self.task(subject), report)
        return True


def _remove(by_connector: dict[str, dict[K, V]], connector: str, name: K) -> None:
    members = by_connector.get(connector, {})
    members.pop(name, None)
    if not members:
        by_connector.pop(connector, None)
