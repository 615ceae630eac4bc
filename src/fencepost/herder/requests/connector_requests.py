"""Requests that create, change, pause, restart and delete connectors: validated here, written by the leader."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from fencepost.api.errors import ConfigError, FencepostError
from fencepost.api.secrets import HIDDEN
from fencepost.config.ids import ConnectorTaskId
from fencepost.herder.core.active_topics import ActiveTopics
from fencepost.herder.core.assignor import Unit
from fencepost.herder.core.restart_plan import restart_plan
from fencepost.herder.entities import ConnectorInfo, ConnectorStateInfo, PutConnectorConfig, TaskInfo, TaskState
from fencepost.herder.errors import (
    AlreadyExistsError,
    ConflictError,
    NotFoundError,
    RequestFailedError,
)
from fencepost.herder.interface import Connectors
from fencepost.herder.requests.connector_states import ConnectorStates
from fencepost.herder.work.parts import HerderParts, Leader
from fencepost.runtime.connector.passwords import (
    check_passwords_stay_hidden,
    password_properties,
    restored_config,
    shown_config,
    shown_task_config,
)
from fencepost.runtime.state import State
from fencepost.storage.configs.codec import RestartRequest, TargetState


class Restarts(Protocol):
    """Restarts connectors and tasks of this process."""

    async def restart(self, unit: Unit) -> None:
        """Restart a connector or a task. Raises NotFoundError, and NotAssignedError if another worker runs it."""


class ConnectorRequests(Connectors):
    """Validates requests, and lets the leader write the changes."""

    def __init__(self, parts: HerderParts, leader: Leader, restarts: Restarts, states: ConnectorStates) -> None:
        self._parts = parts
        self._leader = leader
        self._restarts = restarts
        self._states = states
        self._topics = ActiveTopics(parts.config, parts.statuses)

    async def names(self) -> list[str]:
        """Return the names of all connectors."""
        await self._parts.joined()
        return self._parts.state.connectors()

    async def info(self, name: str) -> ConnectorInfo:
        """Return a connector's configuration, without its passwords, and tasks."""
        await self._parts.joined()
        return await self._shown(self._states.info(name))

    async def status(self, name: str) -> ConnectorStateInfo:
        """Return the states of a connector and its tasks."""
        await self._parts.started()
        return self._states.status(name)

    async def put(
        self, name: str, config: Mapping[str, str], target_state: TargetState | None = None, *, allow_replace: bool
    ) -> PutConnectorConfig:
        """Validate and write a configuration. Raises ConfigError or AlreadyExistsError."""
        await self._parts.joined()
        await self._leader.require()
        self._check_new(name, allow_replace=allow_replace)
        former = self._parts.state.connector_config(name)
        kept = [key for key, value in config.items() if value == HIDDEN]
        config = restored_config(config, former)
        await self._parts.run(self._validate, config)
        await self._check_passwords(config, kept, former or {})
        created = not self._parts.state.contains(name)
        await self._leader.write(
            lambda: self._parts.configs.put_connector(name, config, target_state),
            check=lambda: self._check_new(name, allow_replace=allow_replace),
        )
        return PutConnectorConfig(created, await self._shown(self._written(name, config)))

    async def patch(self, name: str, patch: Mapping[str, str | None]) -> ConnectorInfo:
        """Change some properties of a configuration. Raises ConfigError."""
        await self._parts.joined()
        await self._leader.require()
        former = self._states.config(name)
        patched = {key: text for key, text in {**former, **patch}.items() if text is not None}
        config = restored_config(patched, former)
        await self._parts.run(self._validate, config)
        kept = [key for key in config if patch.get(key, HIDDEN) == HIDDEN]
        await self._check_passwords(config, kept, former)
        await self._leader.write(
            lambda: self._parts.configs.put_connector(name, config), check=lambda: self._check_unchanged(name, former)
        )
        return await self._shown(self._written(name, config))

    async def delete(self, name: str) -> None:
        """Delete a connector."""
        await self._parts.joined()
        await self._leader.require()
        await self._leader.write(
            lambda: self._parts.configs.remove_connector(name), check=lambda: self._check_exists(name)
        )

    async def pause(self, name: str) -> None:
        """Pause a connector and its tasks."""
        await self._set_target_state(name, TargetState.PAUSED)

    async def resume(self, name: str) -> None:
        """Resume a paused or stopped connector."""
        await self._set_target_state(name, TargetState.STARTED)

    async def _set_target_state(self, name: str, state: TargetState) -> None:
        await self._parts.joined()
        self._check_exists(name)
        try:
            await asyncio.wrap_future(self._parts.configs.put_target_state(name, state))
        except FencepostError as error:
            raise RequestFailedError(str(error)) from error

    async def stop(self, name: str) -> None:
        """Stop a connector and remove its tasks."""
        await self._parts.joined()
        await self._leader.require()
        self._check_exists(name)
        await self._leader.write(
            lambda: self._parts.configs.stop_connector(name), check=lambda: self._check_exists(name)
        )

    async def restart(self, unit: Unit) -> None:
        """Restart a connector or a task of this worker. Raises NotAssignedError if another worker runs it."""
        await self._parts.joined()
        await self._restarts.restart(unit)

    async def restart_all(self, name: str, *, include_tasks: bool, only_failed: bool) -> ConnectorStateInfo:
        """Request the restart from all workers, and return the resulting states."""
        await self._parts.joined()
        await self._leader.require()
        self._check_exists(name)
        request = RestartRequest(name, include_tasks, only_failed)
        status = self._states.status(name)
        plan = restart_plan(request, self._parts.state, self._parts.statuses.table)
        await self._leader.write(lambda: self._parts.configs.put_restart_request(request))
        return replace(
            status,
            connector=replace(status.connector, state=State.RESTARTING) if name in plan else status.connector,
            tasks=[
                replace(task, state=State.RESTARTING) if ConnectorTaskId(name, task.id) in plan else task
                for task in status.tasks
            ],
        )

    async def task_configs(self, name: str) -> list[TaskInfo]:
        """Return the configurations of a connector's tasks, without passwords."""
        await self._parts.joined()
        config, tasks = self._states.config(name), self._states.tasks(name)
        passwords = await self._passwords(config)
        return [replace(task, config=shown_task_config(task.config, config, passwords)) for task in tasks]

    async def task_status(self, task: ConnectorTaskId) -> TaskState:
        """Return a task's state."""
        await self._parts.started()
        return self._states.task_status(task)

    async def active_topics(self, name: str) -> Sequence[str]:
        """Return the topics that a connector has written to. Raises ForbiddenError."""
        await self._parts.started()
        return self._topics.topics(name)

    async def reset_active_topics(self, name: str) -> None:
        """Reset the topics that a connector has written to. Raises ForbiddenError."""
        await self._parts.started()
        self._topics.reset(name)

    def _validate(self, config: Mapping[str, str]) -> None:
        validation = self._parts.requested.validate(config)
        validation.warn_of_unknown()
        if validation.errors:
            raise ConfigError(validation.error_message)

    async def _check_passwords(
        self, config: Mapping[str, str], kept: Sequence[str], former: Mapping[str, str | None]
    ) -> None:
        if kept:
            before = {key: value for key, value in former.items() if value is not None}
            check_passwords_stay_hidden(config, kept, await self._passwords(before), await self._passwords(config))

    async def _shown(self, info: ConnectorInfo) -> ConnectorInfo:
        return replace(info, config=shown_config(info.config, await self._passwords(info.config)))

    async def _passwords(self, config: Mapping[str, str]) -> frozenset[str]:
        # The properties are determined on a thread, because the first use of a plugin imports it.
        return await self._parts.run(password_properties, self._parts.config, config)

    def _check_new(self, name: str, *, allow_replace: bool) -> None:
        if not allow_replace and self._parts.state.contains(name):
            raise AlreadyExistsError(f"Connector {name} already exists")

    def _check_exists(self, name: str) -> None:
        if not self._parts.state.contains(name):
            raise NotFoundError(f"There is no connector {name}")

    def _check_unchanged(self, name: str, former: Mapping[str, str]) -> None:
        if self._states.config(name) != former:
            raise ConflictError(
                f"The configuration of connector {name} was changed meanwhile: look at it and ask again"
            )

    def _written(self, name: str, config: Mapping[str, str]) -> ConnectorInfo:
        return ConnectorInfo(name, dict(config), self._parts.state.tasks(name))
