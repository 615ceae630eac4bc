"""Whether a worker of a group can answer requests.

    STARTING ──topics read──> JOINING ──assigned, config topic read that far──> MEMBER
                                 ^                                                │
                                 └──── lost, behind the config topic, ────────────┘
                                       or a leader that lost the right to write
    any of them ──the worker stops──> CLOSED

Requests wait as in Kafka Connect, whose herder processes them once it is in its group.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Final

from fencepost.api.errors import IllegalStateError
from fencepost.herder.errors import ServiceUnavailableError
from fencepost.herder.peers.rest_client import REQUEST_TIMEOUT_SECONDS

# Requests wait a bit less than their time limit, so that there is time to process them, or to answer why they failed.
_PATIENCE_SECONDS: Final = REQUEST_TIMEOUT_SECONDS - 5.0


class Standing(Enum):
    """The states in the module's diagram. The values describe the state in messages."""

    STARTING = "has yet to reach the brokers and to read its topics"
    JOINING = "is joining its group"
    MEMBER = "is in its group and takes requests"
    CLOSED = "stops"


TRANSITIONS: Final[Mapping[Standing, frozenset[Standing]]] = {
    Standing.STARTING: frozenset({Standing.JOINING, Standing.CLOSED}),
    Standing.JOINING: frozenset({Standing.JOINING, Standing.MEMBER, Standing.CLOSED}),
    Standing.MEMBER: frozenset({Standing.JOINING, Standing.MEMBER, Standing.CLOSED}),
    Standing.CLOSED: frozenset(Standing),
}
"""The states that may follow each state. Changes after CLOSED are ignored."""


class Readiness:
    """The state of a worker. Only for its event loop."""

    def __init__(self, group_id: str) -> None:
        self._group_id = group_id
        self._standing = Standing.STARTING
        self._waiting: set[asyncio.Future[None]] = set()

    @property
    def standing(self) -> Standing:
        """The worker's state."""
        return self._standing

    def become(self, standing: Standing) -> None:
        """Set the worker's state, and wake the waiters."""
        if standing not in TRANSITIONS[self._standing]:
            raise IllegalStateError(f"A worker is {self._standing.name} and cannot become {standing.name}")
        if self._standing is not Standing.CLOSED:
            self._standing = standing
        self.wake_waiters()

    def wake_waiters(self) -> None:
        """Let the waiters check again whether to keep waiting."""
        for waiting in self._waiting:
            if not waiting.done():
                waiting.set_result(None)

    async def started(self) -> None:
        """Wait until the worker has read its topics. Raises ServiceUnavailableError if that takes too long."""
        await self._until(lambda: self._standing is not Standing.STARTING)

    async def joined(self, check: Callable[[], None]) -> None:
        """Wait until the worker is in its group and has read the config topic.

        `check` may raise an error that makes waiting pointless; it is called at every change. Raises
        ServiceUnavailableError if it takes too long, or the worker stops.
        """

        def is_member() -> bool:
            check()
            return self._standing is Standing.MEMBER

        await self._until(is_member)

    async def _until(self, reached: Callable[[], bool]) -> None:
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                while self._standing is not Standing.CLOSED and not reached():
                    await self._change()
        except TimeoutError:
            raise ServiceUnavailableError(
                f"The worker {self._standing.value} ({self._group_id}) and could not answer within "
                f"{_PATIENCE_SECONDS:.0f} s: check the brokers, and ask again"
            ) from None
        if self._standing is Standing.CLOSED:
            raise ServiceUnavailableError("The worker stops: ask another one of the group")

    async def _change(self) -> None:
        waiting = asyncio.get_running_loop().create_future()
        self._waiting.add(waiting)
        try:
            await waiting
        finally:
            self._waiting.discard(waiting)
