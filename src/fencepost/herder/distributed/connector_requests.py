"""Requests that create, change, pause, restart and delete connectors: checked here, written by the leader."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace

from fencepost.api.errors import FencepostError
from fencepost.api.secrets import HIDDEN
from fencepost.config.ids import ConnectorTaskId
from fencepost.herder.core.assignor import Unit
from fencepost.herder.distributed.assignor_leader import LeaderAssignor
from fencepost.herder.distributed.group_parts import GroupParts
from fencepost.herder.distributed.group_work import GroupWork
from fencepost.herder.distributed.leadership import Leadership
from fencepost.herder.distributed.snapshots import Snapshots
from fencepost.herder.errors import (
    AlreadyExistsError,
    BadRequestError,
    ConflictError,
    NotAssignedError,
    NotFoundError,
    RebalanceNeededError,
    RequestFailedError,
)
from fencepost.herder.interface import ConnectorInfo, ConnectorStateInfo, PutConnectorConfig
from fencepost.herder.requests.config_infos import error_message
from fencepost.herder.requests.restart_plan import restart_plan
from fencepost.herder.requests.shown_configs import check_passwords_stay_hidden, restored_config
from fencepost.herder.requests.validation import validate_connector_config
from fencepost.runtime.connector.password_properties import password_properties
from fencepost.runtime.state import State
from fencepost.storage.configs.codec import RestartRequest, TargetState


class ConnectorRequests:
    """Carries out changes of connectors."""

    def __init__(
        self,
        parts: GroupParts,
        leadership: Leadership,
        work: GroupWork,
        assignor: LeaderAssignor,
        snapshots: Snapshots,
    ) -> None:
        self._parts = parts
        self._leadership = leadership
        self._work = work
        self._assignor = assignor
        self._snapshots = snapshots

    async def put(
        self, name: str, config: Mapping[str, str], target_state: TargetState | None, *, allow_replace: bool
    ) -> PutConnectorConfig:
        """Validate and write a configuration. Raises BadRequestError or AlreadyExistsError."""
        await self._leadership.require()
        self._check_new(name, allow_replace=allow_replace)
        former = self._parts.state.connector_config(name)
        kept = [key for key, value in config.items() if value == HIDDEN]
        config = restored_config(config, former)
        await self._check(config)
        await self._check_passwords(config, kept, former or {})
        created = not self._parts.state.contains(name)
        await self._leadership.write(
            lambda: self._parts.configs.put_connector(name, config, target_state),
            check=lambda: self._check_new(name, allow_replace=allow_replace),
        )
        return PutConnectorConfig(created, self._written(name, config))

    async def patch(self, name: str, patch: Mapping[str, str | None]) -> ConnectorInfo:
        """Change some properties of a configuration. Raises BadRequestError."""
        await self._leadership.require()
        former = self._snapshots.config(name)
        patched = {key: text for key, text in {**former, **patch}.items() if text is not None}
        config = restored_config(patched, former)
        await self._check(config)
        kept = [key for key in config if patch.get(key, HIDDEN) == HIDDEN]
        await self._check_passwords(config, kept, former)
        await self._leadership.write(
            lambda: self._parts.configs.put_connector(name, config), check=lambda: self._check_unchanged(name, former)
        )
        return self._written(name, config)

    async def delete(self, name: str) -> None:
        """Delete a connector."""
        await self._leadership.require()
        await self._leadership.write(
            lambda: self._parts.configs.remove_connector(name), check=lambda: self._check_exists(name)
        )

    async def set_target_state(self, name: str, state: TargetState) -> None:
        """Have a connector run or pause."""
        self._check_exists(name)
        try:
            await asyncio.wrap_future(self._parts.configs.put_target_state(name, state))
        except FencepostError as error:
            raise RequestFailedError(str(error)) from error

    async def stop(self, name: str) -> None:
        """Stop a connector and remove its tasks."""
        await self._leadership.require()
        self._check_exists(name)
        await self._leadership.write(
            lambda: self._parts.configs.stop_connector(name), check=lambda: self._check_exists(name)
        )

    async def restart(self, unit: Unit) -> None:
        """Restart a connector or a task of this worker.

        Raises NotAssignedError if another one has it, and for a task RebalanceNeededError while the group is to share
        out its work.
        """
        if isinstance(unit, ConnectorTaskId):
            # One that is not to run any more must not be started by hand.
            await self._catch_up(unit)
            self._snapshots.check_task(unit)
            if self._work.rebalance_due:
                raise RebalanceNeededError(
                    f"Task {unit} cannot be restarted now, because the group is sharing out its work: ask again soon"
                )
        else:
            self._check_exists(unit)
        if not self._work.has(unit):
            leader = self._leadership.leads
            url = self._assignor.owner_url(unit) if leader else self._leadership.leader_url
            here = url is not None and url.rstrip("/") == self._parts.url.rstrip("/")
            raise NotAssignedError(f"Another worker runs {unit}", forward_url=None if here else url)
        self._work.restart(unit, announce=False)

    async def restart_all(self, name: str, *, include_tasks: bool, only_failed: bool) -> ConnectorStateInfo:
        """Have all workers restart what is asked for, and return what the states will be."""
        await self._leadership.require()
        self._check_exists(name)
        request = RestartRequest(name, include_tasks, only_failed)
        status = self._snapshots.status(name)
        plan = restart_plan(request, self._parts.state, self._parts.statuses.table)
        await self._leadership.write(lambda: self._parts.configs.put_restart_request(request))
        return replace(
            status,
            connector=replace(status.connector, state=State.RESTARTING) if name in plan else status.connector,
            tasks=[
                replace(task, state=State.RESTARTING) if ConnectorTaskId(name, task.id) in plan else task
                for task in status.tasks
            ],
        )

    async def _catch_up(self, task: ConnectorTaskId) -> None:
        try:
            async with asyncio.timeout(self._parts.group.sync_timeout_ms / 1000):
                await self._parts.read_config_topic()
        except (TimeoutError, FencepostError) as error:
            why = f": {error}" if isinstance(error, FencepostError) else ""
            raise RequestFailedError(
                f"Task {task} is not restarted, because this worker could not learn within "
                f"{self._parts.group.sync_timeout_ms} ms (worker.sync.timeout.ms) whether it is still to run{why}. "
                "This can be retried; if it keeps failing, check the brokers that hold the config topic "
                f"{self._parts.config.config_storage.name}"
            ) from error

    async def _check(self, config: Mapping[str, str]) -> None:
        infos = await self._parts.run(validate_connector_config, self._parts.worker, config)
        if infos.error_count:
            raise BadRequestError(error_message(infos))

    async def _check_passwords(
        self, config: Mapping[str, str], kept: Sequence[str], former: Mapping[str, str | None]
    ) -> None:
        if kept:
            before = {key: value for key, value in former.items() if value is not None}
            worker = self._parts.worker.config
            passwords_before = await self._parts.run(password_properties, worker, before)
            passwords_now = await self._parts.run(password_properties, worker, config)
            check_passwords_stay_hidden(config, kept, passwords_before, passwords_now)

    def _check_new(self, name: str, *, allow_replace: bool) -> None:
        if not allow_replace and self._parts.state.contains(name):
            raise AlreadyExistsError(f"Connector {name} already exists")

    def _check_exists(self, name: str) -> None:
        if not self._parts.state.contains(name):
            raise NotFoundError(f"There is no connector {name}")

    def _check_unchanged(self, name: str, former: Mapping[str, str]) -> None:
        if self._snapshots.config(name) != former:
            raise ConflictError(
                f"The configuration of connector {name} was changed meanwhile: look at it and ask again"
            )

    def _written(self, name: str, config: Mapping[str, str]) -> ConnectorInfo:
        return ConnectorInfo(name, dict(config), self._parts.state.tasks(name))
