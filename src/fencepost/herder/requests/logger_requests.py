"""Requests about the levels of loggers, on this worker or on all workers."""

from __future__ import annotations

import asyncio

from fencepost.herder.interface import Loggers
from fencepost.herder.requests.logger_registry import LoggerRegistry
from fencepost.herder.work.parts import HerderParts


class LoggerRequests(LoggerRegistry, Loggers):
    """The registry of this worker, which also sets levels on all workers."""

    def __init__(self, parts: HerderParts) -> None:
        super().__init__()
        self._parts = parts

    async def set_everywhere(self, namespace: str, level: str) -> None:
        """Set the level of a logger and those below it on all workers. Raises BadRequestError."""
        await self._parts.joined()
        # On this worker, the level is set at once. An invalid level raises an error here, before other workers are
        # asked.
        self.set_level(namespace, level)
        await asyncio.wrap_future(self._parts.configs.put_logger_level(namespace, level))
