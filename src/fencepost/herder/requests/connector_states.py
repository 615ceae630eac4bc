"""Answers to read requests, from the known configurations and statuses."""

from __future__ import annotations

from collections.abc import Callable

from fencepost.config.ids import ConnectorTaskId
from fencepost.herder.entities import ConnectorInfo, ConnectorStateInfo, ConnectorStatus, TaskInfo, TaskState
from fencepost.herder.errors import NotFoundError
from fencepost.herder.work.parts import HerderParts
from fencepost.runtime.state import State
from fencepost.storage.statuses.codec import Status

Shown = Callable[[str | ConnectorTaskId, Status], tuple[str, str | None]]
"""Returns which state and trace to show for a connector or a task."""


def _as_reported(subject: str | ConnectorTaskId, status: Status) -> tuple[str, str | None]:
    del subject
    return status.state, status.trace


class ConnectorStates:
    """Shows connectors and tasks as this worker knows them.

    All methods raise NotFoundError for an unknown connector.
    """

    def __init__(self, parts: HerderParts, shown: Shown = _as_reported) -> None:
        """`shown` returns a status's state and trace, corrected if they are not valid any more."""
        self._parts = parts
        self._shown = shown

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
        """The states of a connector and its tasks. Raises NotFoundError before the first report."""
        self.config(name)
        status = self._parts.statuses.table.connector(name)
        if status is None:
            raise NotFoundError(f"There is no status of connector {name} yet: ask again soon")
        known = self._parts.statuses.table.tasks(name)
        tasks = [self._task(task, known[task]) for task in self._parts.state.tasks(name) if task in known]
        state, trace = self._shown(name, status)
        connector = ConnectorStatus(state, status.worker_id, trace, status.version)
        return ConnectorStateInfo(name, connector, tasks)

    def task_status(self, task: ConnectorTaskId) -> TaskState:
        """A task's state, UNASSIGNED before the first report."""
        self.check_task(task)
        status = self._parts.statuses.table.task(task)
        if status is None:
            return TaskState(task.task, State.UNASSIGNED, self._parts.worker_id)
        return self._task(task, status)

    def check_task(self, task: ConnectorTaskId) -> None:
        """Raise NotFoundError if the connector has no task with this number."""
        self.config(task.connector)
        if self._parts.state.task_config(task) is None:
            raise NotFoundError(f"Connector {task.connector} has no task {task.task}")

    def _task(self, task: ConnectorTaskId, status: Status) -> TaskState:
        state, trace = self._shown(task, status)
        return TaskState(task.task, state, status.worker_id, trace, status.version)
