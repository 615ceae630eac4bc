"""Has the leader of the group fence former tasks, for tasks of this worker that are to start (KIP-618).

Whoever asked another worker reads the config topic as well, and starts nothing without the new count in it.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from fencepost.api.errors import ConfigError, FencepostError
from fencepost.herder.distributed.group_parts import GroupParts
from fencepost.herder.distributed.leadership import Leadership
from fencepost.herder.errors import (
    BadRequestError,
    FencingRoundError,
    ForbiddenError,
    MissingRightError,
    NotFoundError,
    RebalanceNeededError,
    RequestTargetError,
)
from fencepost.herder.work.fencing_round import FencingRounds, SharedCalls
from fencepost.kafka.errors import AuthorizationError

_LASTING: Final = (AuthorizationError, ConfigError, BadRequestError, ForbiddenError, MissingRightError, NotFoundError)


class GroupFencing:
    """Fences by this worker's own rounds if it leads, else by those of the leader."""

    def __init__(self, parts: GroupParts, leadership: Leadership, rounds: FencingRounds) -> None:
        self._parts = parts
        self._leadership = leadership
        self._rounds = rounds
        self._waiting = SharedCalls(parts)

    async def fence(self, connector: str) -> None:
        """Return once former tasks of a connector are fenced, for a task of this worker that is to start.

        Tasks that ask at once share one request to the leader. Raises FencingRoundError if that may pass, and the
        reason otherwise.
        """
        try:
            await self._waiting.call(connector, self._fence_by_leader)
        except _LASTING:
            raise
        except FencepostError as error:
            raise FencingRoundError(f"The former tasks of connector {connector} are not fenced: {error}") from error

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
                f"The leader took connector {connector} for fenced, but the config topic has no task count record "
                "behind the connector's latest task configurations"
            )
