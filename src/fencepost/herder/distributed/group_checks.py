"""The checks at a task's start that ensure that it is the only instance in the group (KIP-618)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from fencepost.config.ids import ConnectorTaskId
from fencepost.herder.errors import SupersededError
from fencepost.herder.work.parts import HerderParts


class Fencing(Protocol):
    """Requests the leader's fencing of former task generations."""

    async def fence(self, connector: str) -> None:
        """Return once no former task can write any more."""


class GroupChecks:
    """The checks before and after a task takes over its transactional id, on the task's thread."""

    def __init__(self, parts: HerderParts, fencing: Fencing, is_current: Callable[[], bool]) -> None:
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
