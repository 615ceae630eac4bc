"""The connectors and tasks of this process, and their plans, which follow from the configurations.

    assignment ────┐
                   ├──> a plan for each connector and task ──> ConnectorWork, TaskWork
    configurations ┘

Every change updates the plans of the connectors and tasks that it concerns.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from typing import Protocol

from fencepost.config.ids import ConnectorTaskId
from fencepost.herder.core.assignor import Unit
from fencepost.herder.core.restart_plan import restart_plan
from fencepost.herder.work.connector_work import ConnectorPlan, ConnectorWork
from fencepost.herder.work.parts import HerderParts
from fencepost.herder.work.task_work import TaskPlan, TaskWork
from fencepost.runtime.task.source_task import TransactionStatus
from fencepost.storage.configs.codec import RestartRequest, TargetState
from fencepost.storage.configs.state import (
    ConfigEvent,
    ConnectorConfigRemoval,
    ConnectorConfigUpdate,
    TargetStateChange,
    TaskConfigUpdate,
)


class AssignedWork(Protocol):
    """Decides what this process runs."""

    def has(self, unit: Unit) -> bool:
        """Whether this process should run a connector or task."""

    def held(self, connector: str) -> str | None:
        """The reason why tasks of a connector must not be started; None if they may start."""


class LocalWork:
    """Plans connectors and tasks of this process, and follows changes of their configurations."""

    def __init__(
        self,
        parts: HerderParts,
        assigned: AssignedWork,
        *,
        new_task: Callable[[ConnectorTaskId], TaskWork],
        configure_tasks: Callable[[str], None],
    ) -> None:
        """`configure_tasks` is called with a connector's name when its task configurations should be requested."""
        self._parts = parts
        self._assigned = assigned
        self._new_task = new_task
        self._configure_tasks = configure_tasks
        self._connectors: dict[str, ConnectorWork] = {}
        self._tasks: dict[ConnectorTaskId, TaskWork] = {}
        self._by_connector: defaultdict[str, set[ConnectorTaskId]] = defaultdict(set)
        self._versions: Counter[str] = Counter()
        self._restarts: Counter[Unit] = Counter()

    @property
    def units(self) -> frozenset[Unit]:
        """The running connectors and tasks, and the revoked ones that have not stopped yet."""
        return frozenset().union(self._connectors, self._tasks)

    @property
    def tasks(self) -> Iterable[TaskWork]:
        """The tasks of this process."""
        return self._tasks.values()

    def find(self, connector: str) -> ConnectorWork | None:
        """Return a connector of this process; None if it does not run here."""
        return self._connectors.get(connector) if self._assigned.has(connector) else None

    def settled(self, connector: str) -> bool:
        """Whether a connector and its tasks have reached their plans."""
        units: list[Unit] = [connector, *self.tasks_of(connector)]
        return all(work is None or work.is_settled for work in map(self._find_work, units))

    async def settle(self) -> None:
        """Wait until all connectors and tasks have reached their plans."""
        for unit in self.units:
            work = self._find_work(unit)
            if work is not None:
                await work.settled()

    def transactions(self, connector: str) -> dict[ConnectorTaskId, TransactionStatus]:
        """Return the transactions of a connector's tasks in this process."""
        found = ((task, self._tasks[task].transaction) for task in self.tasks_of(connector))
        return {task: status for task, status in found if status is not None}

    def tasks_of(self, connector: str) -> set[ConnectorTaskId]:
        """Return the tasks of a connector in this process."""
        return set(self._by_connector.get(connector, ()))

    def restart(self, unit: Unit, *, announce: bool) -> None:
        """Restart a connector or task of this process. With `announce` it is reported as RESTARTING.

        The count of its automatic restarts is reset, because the user may have fixed the cause.
        """
        work = self._find_work(unit)
        if work is not None:
            work.announce_restart = announce
        if isinstance(work, ConnectorWork):
            work.forget_failures()
        self._start_again(unit)

    def _start_again(self, unit: Unit) -> None:
        self._restarts[unit] += 1
        self.plan(unit)

    async def revoke(self, units: Iterable[Unit]) -> None:
        """Stop revoked work, and return once it has stopped."""
        units = list(units)
        for unit in units:
            self.plan(unit)
        works = [self._find_work(unit) for unit in units]
        await asyncio.gather(*(work.settled() for work in works if work is not None))
        for unit in units:
            self._forget(unit)

    def on_config(self, event: ConfigEvent) -> None:
        """Apply a change of configurations, except a session key or a logger level."""
        match event:
            case ConnectorConfigUpdate(name):
                self._versions[name] += 1
                self.plan(name)
            case ConnectorConfigRemoval(name):
                self.plan(name, *self.tasks_of(name))
            case TaskConfigUpdate(name, tasks):
                self.plan(*{*tasks, *self.tasks_of(name)})
            case TargetStateChange(name):
                # Tasks that were assigned while the connector was stopped have no plan yet, so they are planned, too.
                self.plan(name, *{*self._parts.state.tasks(name), *self.tasks_of(name)})
            case RestartRequest():
                self._restart_as_asked(event)

    def _restart_as_asked(self, request: RestartRequest) -> None:
        for unit in restart_plan(request, self._parts.state, self._parts.statuses.table):
            if self._assigned.has(unit):
                self.restart(unit, announce=True)

    def plan(self, *units: Unit) -> None:
        """Update the plans of connectors and tasks."""
        for unit in units:
            self._plan(unit)

    def _plan(self, unit: Unit) -> None:
        if isinstance(unit, ConnectorTaskId):
            plan = self._task_plan(unit)
            if unit not in self._tasks and plan is not None:
                self._tasks[unit] = self._new_task(unit)
                self._by_connector[unit.connector].add(unit)
            if unit in self._tasks:
                self._tasks[unit].want(plan)
        else:
            wanted = self._connector_plan(unit)
            if unit not in self._connectors and wanted is not None:
                self._connectors[unit] = ConnectorWork(unit, self._parts, self._configure_tasks, self._start_again)
            if unit in self._connectors:
                self._connectors[unit].want(wanted)
        self._forget(unit)

    def _connector_plan(self, name: str) -> ConnectorPlan | None:
        state = self._parts.state
        if not (self._assigned.has(name) and state.contains(name)):
            return None
        target = state.target_state(name) or TargetState.STARTED
        return ConnectorPlan(self._versions[name], target, self._restarts[name])

    def _task_plan(self, task: ConnectorTaskId) -> TaskPlan | None:
        state = self._parts.state
        config = state.task_config(task)
        target = state.target_state(task.connector)
        if config is None or not self._assigned.has(task) or target is TargetState.STOPPED:
            return None
        held = self._assigned.held(task.connector)
        return TaskPlan(state.task_generation(task), config, target is TargetState.PAUSED, self._restarts[task], held)

    def _find_work(self, unit: Unit) -> ConnectorWork | TaskWork | None:
        return self._tasks.get(unit) if isinstance(unit, ConnectorTaskId) else self._connectors.get(unit)

    def _forget(self, unit: Unit) -> None:
        work = self._find_work(unit)
        if work is None or not work.gone:
            return
        if not isinstance(unit, ConnectorTaskId):
            del self._connectors[unit]
            return
        del self._tasks[unit]
        others = self._by_connector[unit.connector]
        others.remove(unit)
        if not others:
            del self._by_connector[unit.connector]
