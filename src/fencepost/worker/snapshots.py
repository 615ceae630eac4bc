"""Answers to requests that only look: from what is read of the config and status topics."""

from __future__ import annotations

from fencepost.config.ids import ConnectorTaskId
from fencepost.runtime.task_state import State
from fencepost.storage.status_records import Status
from fencepost.worker.errors import NotFoundError
from fencepost.worker.group_parts import GroupParts
from fencepost.worker.herder_interface import ConnectorInfo, ConnectorState, ConnectorStateInfo, TaskInfo, TaskState


class Snapshots:
    """Shows connectors and tasks as this worker knows them. All raise NotFoundError for what is not there."""

    def __init__(self, parts: GroupParts) -> None:
        self._parts = parts

    def config(self, name: str) -> dict[str, str]:
        """A connector's configuration."""
        config = self._parts.state.connector_config(name)
        if config is None:
            raise NotFoundError(f"There is no connector {name}")
        return {key: text for key, text in config.items() if text is not None}

    def info(self, name: str) -> ConnectorInfo:
        """A connector's configuration and tasks."""
        return ConnectorInfo(name, self.config(name), self._parts.state.tasks(name))

    def tasks(self, name: str) -> list[TaskInfo]:
        """The configurations of a connector's tasks."""
        self.config(name)
        configs = enumerate(self._parts.state.task_configs(name))
        return [
            TaskInfo(ConnectorTaskId(name, number), {key: text for key, text in config.items() if text is not None})
            for number, config in configs
        ]

    def status(self, name: str) -> ConnectorStateInfo:
        """The states of a connector and its tasks. One that nobody has reported on yet is not there."""
        self.config(name)
        status = self._parts.statuses.table.connector(name)
        if status is None:
            raise NotFoundError(f"Nobody has reported on connector {name} yet: ask again soon")
        known = self._parts.statuses.table.tasks(name)
        tasks = [self._task(task, known[task]) for task in self._parts.state.tasks(name) if task in known]
        connector = ConnectorState(status.state, status.worker_id, status.trace, status.version)
        return ConnectorStateInfo(name, connector, tasks)

    def task_status(self, task: ConnectorTaskId) -> TaskState:
        """A task's state, UNASSIGNED if nobody has reported on it yet."""
        self.check_task(task)
        status = self._parts.statuses.table.task(task)
        if status is None:
            return TaskState(task.task, State.UNASSIGNED, self._parts.worker_id)
        return self._task(task, status)

    def check_task(self, task: ConnectorTaskId) -> None:
        """Raise NotFoundError unless there is such a task."""
        self.config(task.connector)
        if self._parts.state.task_config(task) is None:
            raise NotFoundError(f"Connector {task.connector} has no task {task.task}")

    @staticmethod
    def _task(task: ConnectorTaskId, status: Status) -> TaskState:
        return TaskState(task.task, status.state, status.worker_id, status.trace, status.version)
