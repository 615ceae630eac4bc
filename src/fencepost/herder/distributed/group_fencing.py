"""Ensures at a task's start that it is the only instance in the group (KIP-618): the leader fences former tasks.

After a request to another worker, this worker also reads the config topic, and starts nothing unless it has the new
count.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from fencepost.config.ids import ConnectorTaskId
from fencepost.herder.distributed.leadership import Leadership
from fencepost.herder.errors import RebalanceNeededError, RequestTargetError, SupersededError
from fencepost.herder.peers.rest_client import RestClient
from fencepost.herder.work.fencing_round import FencingRounds, SharedCalls, retried
from fencepost.herder.work.parts import HerderParts


class GroupFencing:
    """Runs fencing rounds if this worker leads, else requests them from the leader."""

    def __init__(self, parts: HerderParts, leadership: Leadership, rounds: FencingRounds, client: RestClient) -> None:
        self._parts = parts
        self._client = client
        self._leadership = leadership
        self._rounds = rounds
        self._waiting = SharedCalls(parts)

    async def fence(self, connector: str) -> None:
        """Return once former tasks of a connector are fenced, before a task of this worker starts.

        Concurrent calls share one request to the leader. Raises FencingRoundError for retriable failures, and the reason
        otherwise.
        """
        with retried(connector):
            await self._waiting.call(connector, self._fence_by_leader)

    async def _fence_by_leader(self, connector: str) -> None:
        if not self._parts.fencing_is_due(connector):
            return
        try:
            await self._rounds.lead(connector)
        except RequestTargetError as elsewhere:
            if elsewhere.forward_url is None:
                raise
            fence = self._client.fence_zombie_source_tasks
            await self._leadership.signed(partial(fence, elsewhere.forward_url, connector))
            await self._parts.read_config_topic()
        if self._parts.fencing_is_due(connector):
            raise RebalanceNeededError(
                f"The leader reported connector {connector} as fenced, but the config topic has no task count record "
                "after the connector's latest task configurations"
            )


class GroupChecks:
    """The checks before and after a task takes over its transactional id, on the task's thread."""

    def __init__(self, parts: HerderParts, fencing: GroupFencing, is_current: Callable[[], bool]) -> None:
        """`is_current` returns, on the event loop, whether the task should still run as it was started."""
        self._parts = parts
        self._fencing = fencing
        self._is_current = is_current

    def before_ownership(self, task: ConnectorTaskId) -> None:
        """Let the leader fence former tasks. Raises its refusal, or SupersededError."""
        self._parts.on_loop(self._check(task))
        self._parts.on_loop(self._fencing.fence(task.connector))

    def after_ownership(self, task: ConnectorTaskId) -> None:
        """Raise SupersededError if the config topic has newer task configurations, or the task was revoked."""
        self._parts.on_loop(self._read_and_check(task))

    async def _read_and_check(self, task: ConnectorTaskId) -> None:
        await self._parts.read_config_topic()
        await self._check(task)

    async def _check(self, task: ConnectorTaskId) -> None:
        if not self._is_current():
            raise SupersededError(task.connector, task.task)
