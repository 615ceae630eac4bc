"""The checks around a task's start (KIP-618).

Before a task owns its transactional id, former tasks are fenced. Afterwards, there must be no newer tasks.

The first check also prevents a task that restarts in place from fencing its successor on another worker.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from fencepost.config.ids import ConnectorTaskId
from fencepost.herder.errors import SupersededError
from fencepost.herder.work.parts import HerderParts


class TaskFencing(Protocol):
    """Fences former tasks of a connector, wherever they run."""

    async def fence(self, connector: str) -> None:
        """Return once former tasks are fenced.

        Raises FencingRoundError for retriable failures. A fatal error is raised unchanged.
        """

    async def confirm(self, connector: str) -> None:
        """Read the config topic to its end. Raises an error if another worker may have started tasks meanwhile."""


class FencingChecks:
    """The checks before and after a task takes over its transactional id, on the task's thread."""

    def __init__(self, parts: HerderParts, fencing: TaskFencing, is_current: Callable[[], bool]) -> None:
        """`is_current` is called on the event loop. It returns whether the task should still run as it was started."""
        self._parts = parts
        self._fencing = fencing
        self._is_current = is_current

    def before_ownership(self, task: ConnectorTaskId) -> None:
        """Have former tasks fenced. Raises SupersededError, and the errors of `TaskFencing.fence`."""
        self._parts.on_loop(self._before(task))

    def after_ownership(self, task: ConnectorTaskId) -> None:
        """Check for newer tasks.

        Raises SupersededError if there are newer task configurations or the task was revoked, and the errors of
        `TaskFencing.confirm`.
        """
        self._parts.on_loop(self._after(task))

    async def _before(self, task: ConnectorTaskId) -> None:
        self._check(task)
        await self._fencing.fence(task.connector)

    async def _after(self, task: ConnectorTaskId) -> None:
        await self._fencing.confirm(task.connector)
        self._check(task)

    def _check(self, task: ConnectorTaskId) -> None:
        if not self._is_current():
            raise SupersededError(task.connector, task.task)
