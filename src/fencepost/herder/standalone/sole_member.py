"""The membership and the leadership of a standalone worker: it runs everything, and is the leader."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

from fencepost.config.ids import ConnectorTaskId
from fencepost.herder.core.assignor import Unit
from fencepost.herder.requests.connector_states import ConnectorStates
from fencepost.herder.work.local_work import LocalWork

T = TypeVar("T")


class SoleMember:
    """Assigns all connectors and tasks to this process, until it is closed."""

    def __init__(self) -> None:
        self._closed = False

    def has(self, unit: Unit) -> bool:
        """Whether a connector or task should run."""
        del unit
        return not self._closed

    def held(self, connector: str) -> None:
        """Return None: no task is held."""

    def close(self) -> None:
        """From now on, let nothing run."""
        self._closed = True


class SoleLeader:
    """Allows all writes."""

    async def require(self) -> None:
        """Do nothing: this worker is always the leader."""

    async def write(self, write: Callable[[], Future[T]], *, check: Callable[[], None] = lambda: None) -> T:
        """Call `check`, and then write."""
        check()
        return await asyncio.wrap_future(write())


class SoleMemberRestarts:
    """Restarts any connector or task."""

    def __init__(self, states: ConnectorStates, work: LocalWork) -> None:
        self._states = states
        self._work = work

    async def restart(self, unit: Unit) -> None:
        """Restart a connector or a task. Raises NotFoundError."""
        if isinstance(unit, ConnectorTaskId):
            self._states.check_task(unit)
        else:
            self._states.config(unit)
        self._work.restart(unit, announce=False)
