"""Determines which parts a restart request restarts: the connector, and which of its tasks (KIP-745). Pure."""

from __future__ import annotations

from fencepost.config.ids import ConnectorTaskId
from fencepost.herder.core.assignor import Unit
from fencepost.runtime.state import State
from fencepost.storage.configs.codec import RestartRequest, TargetState
from fencepost.storage.configs.state import ClusterConfigState
from fencepost.storage.statuses.codec import Status
from fencepost.storage.statuses.table import StatusTable


def restart_plan(request: RestartRequest, state: ClusterConfigState, statuses: StatusTable) -> list[Unit]:
    """Return the connector and the tasks to restart.

    A stopped connector is included, too. After the restart it is stopped again, and it has no tasks.
    """
    name = request.connector
    if not state.contains(name):
        return []
    has_tasks = state.target_state(name) is not TargetState.STOPPED
    tasks: list[ConnectorTaskId] = state.tasks(name) if request.include_tasks and has_tasks else []
    every: list[tuple[Unit, Status | None]] = [(name, statuses.connector(name))]
    every += [(task, statuses.task(task)) for task in tasks]
    return [unit for unit, status in every if not request.only_failed or _failed(status)]


def _failed(status: Status | None) -> bool:
    return status is not None and status.state == State.FAILED
