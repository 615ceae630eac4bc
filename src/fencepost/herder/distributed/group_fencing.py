"""Ensures that a starting task is its only instance in the group (KIP-618): the leader fences former tasks.

If another worker leads, this worker also reads the config topic after its request. It starts nothing unless the topic
has the new task count.
"""

from __future__ import annotations

from functools import partial

from fencepost.herder.distributed.leadership import Leadership
from fencepost.herder.errors import RebalanceNeededError, RequestTargetError
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

        Concurrent calls share one request to the leader. Raises FencingRoundError for retriable failures, and the error
        itself if it is fatal.
        """
        with retried(connector):
            await self._waiting.call(connector, self._fence_by_leader)

    async def confirm(self, connector: str) -> None:
        """Read the config topic to its end, to learn of newer task configurations."""
        del connector
        await self._parts.read_config_topic()

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
