"""Lets the leader of the group fence former tasks, for tasks that this worker will start (KIP-618).

After a request to another worker, this worker also reads the config topic, and starts nothing unless it has the new
count.
"""

from __future__ import annotations

from functools import partial

from fencepost.herder.distributed.group_parts import GroupParts
from fencepost.herder.distributed.leadership import Leadership
from fencepost.herder.errors import RebalanceNeededError, RequestTargetError
from fencepost.herder.work.fencing_round import FencingRounds, SharedCalls, retried


class GroupFencing:
    """Runs fencing rounds if this worker leads, else requests them from the leader."""

    def __init__(self, parts: GroupParts, leadership: Leadership, rounds: FencingRounds) -> None:
        self._parts = parts
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
            fence = self._parts.client.fence_zombie_source_tasks
            await self._leadership.signed(partial(fence, elsewhere.forward_url, connector))
            await self._parts.read_config_topic()
        if self._parts.fencing_is_due(connector):
            raise RebalanceNeededError(
                f"The leader reported connector {connector} as fenced, but the config topic has no task count record "
                "after the connector's latest task configurations"
            )
