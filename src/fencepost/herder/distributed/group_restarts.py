"""Restarts of a connector or a task by request, on the worker of the group that runs it."""

from __future__ import annotations

import asyncio

from fencepost.api.errors import FencepostError
from fencepost.config.ids import ConnectorTaskId
from fencepost.herder.core.assignor import Unit
from fencepost.herder.distributed.assignor_leader import LeaderAssignor
from fencepost.herder.distributed.config_topic import ConfigTopic
from fencepost.herder.distributed.group_work import GroupWork
from fencepost.herder.distributed.leadership import Leadership
from fencepost.herder.errors import NotAssignedError, RebalanceNeededError, RequestFailedError
from fencepost.herder.requests.connector_states import ConnectorStates


class GroupRestarts:
    """Restarts connectors and tasks of this worker. If another worker runs them, raises an error with its address.

    `url` is this worker's address. `sync_timeout_ms` limits how long a restart of a task waits for the config topic.
    """

    def __init__(  # noqa: PLR0917 - each is used
        self,
        url: str,
        sync_timeout_ms: int,
        config_topic: ConfigTopic,
        leadership: Leadership,
        work: GroupWork,
        assignor: LeaderAssignor,
        states: ConnectorStates,
    ) -> None:
        self._url = url
        self._sync_timeout_ms = sync_timeout_ms
        self._topic = config_topic
        self._leadership = leadership
        self._work = work
        self._assignor = assignor
        self._states = states

    async def restart(self, unit: Unit) -> None:
        """Restart a connector or a task of this worker.

        Raises NotAssignedError if another worker runs the connector or task. For a task, raises RebalanceNeededError
        while a rebalance is pending.
        """
        if isinstance(unit, ConnectorTaskId):
            # A request must not start a task that should not run any more.
            await self._catch_up(unit)
            self._states.check_task(unit)
            if self._work.rebalance_due:
                raise RebalanceNeededError(
                    f"Task {unit} cannot be restarted now, because a rebalance is pending: ask again soon"
                )
        else:
            self._states.config(unit)
        if not self._work.has(unit):
            leader = self._leadership.leads
            url = self._assignor.owner_url(unit) if leader else self._leadership.leader_url
            here = url is not None and url.rstrip("/") == self._url.rstrip("/")
            raise NotAssignedError(f"Another worker runs {unit}", forward_url=None if here else url)
        self._work.local.restart(unit, announce=False)

    async def _catch_up(self, task: ConnectorTaskId) -> None:
        try:
            async with asyncio.timeout(self._sync_timeout_ms / 1000):
                await self._topic.read()
        except (TimeoutError, FencepostError) as error:
            why = f": {error}" if isinstance(error, FencepostError) else ""
            raise RequestFailedError(
                f"Task {task} is not restarted, because this worker could not learn within "
                f"{self._sync_timeout_ms} ms (worker.sync.timeout.ms) whether it should still run{why}. "
                "This can be retried; if it keeps failing, check the brokers that hold the config topic "
                f"{self._topic.name}"
            ) from error
