"""Makes changes that must not overlap: for each connector one at a time, in the order of the requests."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from fencepost.herder.core.calls import outcome_of
from fencepost.herder.errors import RebalanceNeededError
from fencepost.herder.peers.rest_client import REQUEST_TIMEOUT_SECONDS

_PATIENCE_SECONDS: Final = REQUEST_TIMEOUT_SECONDS / 2
"""The time after which a request that waits for its turn is refused: a change after that may take as long again."""

T = TypeVar("T")


@dataclass(slots=True)
class _Line:
    """The requests for one connector: the one that has its turn, and those that wait."""

    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    length: int = 0


class OneAtATime:
    """Makes one change after the other for each connector. A change goes on if its request is cancelled.

    A request that is cancelled while it waits changes nothing.
    """

    def __init__(self, what: str, patience_s: float = _PATIENCE_SECONDS) -> None:
        """`what` names the change in messages, as in `the offsets`."""
        self._what = what
        self._patience_s = patience_s
        self._lines: dict[str, _Line] = {}

    async def run(self, connector: str, change: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Wait until earlier changes have ended, and make this one. Return its result, or raise its error.

        Raises RebalanceNeededError if the earlier changes do not end in time.
        """
        line = self._lines.setdefault(connector, _Line())
        line.length += 1
        try:
            await self._wait(connector, line)
        except BaseException:
            self._leave(connector, line)
            raise
        # The change keeps the turn until its end, also if the client stops waiting: its thread cannot be interrupted.
        return await outcome_of(asyncio.ensure_future(self._in_turn(connector, line, change)))

    async def _wait(self, connector: str, line: _Line) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(self._patience_s):
                await line.turn.acquire()
                return
        raise RebalanceNeededError(
            f"Another request changes {self._what} of connector {connector}, and has not ended within "
            f"{self._patience_s:g} s. This request changed nothing: send it again soon. If the other one never ends, the "
            "connector's code hangs: restart the worker that leads the group"
        )

    async def _in_turn(self, connector: str, line: _Line, change: Callable[[], Coroutine[Any, Any, T]]) -> T:
        try:
            return await change()
        finally:
            line.turn.release()
            self._leave(connector, line)

    def _leave(self, connector: str, line: _Line) -> None:
        line.length -= 1
        if not line.length:
            del self._lines[connector]
