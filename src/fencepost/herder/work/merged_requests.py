"""Handles requests about connectors. For each connector, one request is handled at a time."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod

from fencepost.config.log_context import log_context


class MergedRequests(ABC):
    """Handles requests in asyncio tasks. Requests that arrive while one is handled are handled together afterwards."""

    def __init__(self) -> None:
        # Connectors with requests whose handling has not begun yet.
        self._asked: set[str] = set()
        self._busy: dict[str, asyncio.Task[None]] = {}

    def request(self, connector: str) -> None:
        """Handle a request for a connector soon."""
        self._asked.add(connector)
        if connector not in self._busy:
            self._busy[connector] = asyncio.ensure_future(self._follow(connector))

    def is_asked(self, connector: str) -> bool:
        """Whether a request for the connector is waiting or being handled."""
        return connector in self._busy

    def close(self) -> None:
        """Stop handling requests."""
        for task in self._busy.values():
            task.cancel()

    async def _follow(self, connector: str) -> None:
        try:
            with log_context(connector):
                while connector in self._asked:
                    self._asked.discard(connector)
                    await self._handle(connector)
        finally:
            # The connector is removed here, and not in a callback when the asyncio task is done: a request that came
            # between the end of the loop and the callback would be lost.
            del self._busy[connector]

    @abstractmethod
    async def _handle(self, connector: str) -> None:
        """Handle all requests for a connector that arrived until now. Must not raise."""
