"""The content of a status topic, in memory. No I/O."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Mapping
from typing import Final, TypeVar

from fencepost.config.ids import ConnectorTaskId
from fencepost.storage.statuses.codec import ActiveTopic, Status, Subject, TopicStatus

K = TypeVar("K")
V = TypeVar("V")

_LATE_STATES: Final = frozenset({"UNASSIGNED", "FAILED"})


def is_late(stored: Status, report: Status) -> bool:
    """Whether a report is late: the stored report is from another worker, the next owner, in a newer generation."""
    return report.worker_id != stored.worker_id and report.generation < stored.generation


def may_overwrite(stored: Status | None, report: Status) -> bool:
    """Whether a report about a connector or task may replace the stored status.

    A report of a worker whose work was revoked may be late: the next owner may already have reported.
    """
    return report.state not in _LATE_STATES or stored is None or not is_late(stored, report)


class StatusTable:
    """The latest status of every subject. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._connectors: dict[str, Status] = {}
        self._tasks: dict[str, dict[int, Status]] = defaultdict(dict)
        self._topics: dict[str, dict[str, TopicStatus]] = defaultdict(dict)
        self._of_earlier_generations: set[Subject] = set()

    def apply(self, subject: Subject, status: Status | TopicStatus | None) -> None:
        """Add a record. None removes the subject's status."""
        with self._lock:
            self._of_earlier_generations.discard(subject)
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

    def join(self) -> None:
        """Record that this worker joins its group.

        All statuses that are known so far belong to earlier generations, even if their generation numbers are higher:
        after a coordinator removes an empty group, it counts from 1 again.
        """
        with self._lock:
            tasks = (ConnectorTaskId(name, task) for name, tasks in self._tasks.items() for task in tasks)
            self._of_earlier_generations = {*self._connectors, *tasks}

    def connectors(self) -> list[str]:
        """Return the connectors that have a status, sorted."""
        with self._lock:
            return sorted(self._connectors)

    def others(self, counts: Mapping[str, int]) -> tuple[list[str], list[ConnectorTaskId]]:
        """Return connectors and tasks that have a status but do not exist.

        `counts` has each connector's number of tasks.

        A connector exists if it is in `counts`, a task exists if its number is below its connector's count.
        """
        with self._lock:
            connectors = sorted(self._connectors.keys() - counts.keys())
            tasks = [
                ConnectorTaskId(name, number)
                for name in self._tasks.keys() - set(connectors)
                for number in self._tasks[name]
                if number >= counts.get(name, 0)
            ]
        return connectors, tasks

    def connector(self, connector: str) -> Status | None:
        """Return a connector's status; None if unknown."""
        with self._lock:
            return self._connectors.get(connector)

    def task(self, task: ConnectorTaskId) -> Status | None:
        """Return a task's status; None if unknown."""
        with self._lock:
            return self._tasks.get(task.connector, {}).get(task.task)

    def status(self, subject: Subject) -> Status | None:
        """Return the status of a connector or task; None if it is unknown, or if the subject is a topic."""
        match subject:
            case str():
                return self.connector(subject)
            case ConnectorTaskId():
                return self.task(subject)
        return None

    def tasks(self, connector: str) -> dict[ConnectorTaskId, Status]:
        """Return the known statuses of a connector's tasks, by number."""
        with self._lock:
            tasks = self._tasks.get(connector, {})
            return {ConnectorTaskId(connector, number): tasks[number] for number in sorted(tasks)}

    def topics(self, connector: str) -> list[TopicStatus]:
        """Return the topics that a connector wrote to, by name."""
        with self._lock:
            topics = self._topics.get(connector, {})
            return [topics[name] for name in sorted(topics)]

    def topic(self, active: ActiveTopic) -> TopicStatus | None:
        """Return since when a connector writes to a topic; None if it does not."""
        with self._lock:
            return self._topics.get(active.connector, {}).get(active.topic)

    def allows(self, subject: Subject, report: Status | TopicStatus | None) -> bool:
        """Return whether a report may be written: it must not be late."""
        with self._lock:
            if subject in self._of_earlier_generations:
                return True
        return not isinstance(report, Status) or may_overwrite(self.status(subject), report)


def _remove(by_connector: dict[str, dict[K, V]], connector: str, name: K) -> None:
    members = by_connector.get(connector, {})
    members.pop(name, None)
    if not members:
        by_connector.pop(connector, None)
