"""Handles requests about connectors: for each connector one at a time."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod

from fencepost.config.log_context import log_context


class MergedRequests(ABC):
    """Handles requests in tasks of the event loop. Requests that come meanwhile are handled as one, afterwards."""

    def __init__(self) -> None:
        # Connectors with requests that are not handled yet.
        self._asked: set[str] = set()
        self._busy: dict[str, asyncio.Task[None]] = {}

    def request(self, connector: str) -> None:
        """Handle a connector soon."""
        self._asked.add(connector)
        if connector not in self._busy:
            self._busy[connector] = asyncio.ensure_future(self._follow(connector))

    def is_asked(self, connector: str) -> bool:
        """Whether the connector has a request that is not handled, or still being handled."""
        return connector in self._busy

    def close(self) -> None:
        """Stop."""
        for task in self._busy.values():
            task.cancel()

    async def _follow(self, connector: str) -> None:
        try:
            with log_context(connector):
                while connector in self._asked:
                    self._asked.discard(connector)
                    await self._handle(connector)
        finally:
            # Not in a callback of the task: a request before that would be lost.
            del self._busy[connector]

    @abstractmethod
    async def _handle(self, connector: str) -> None:
        """Handle the requests of a connector until now. Must not raise."""
