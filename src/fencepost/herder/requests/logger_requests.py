"""Requests about the levels of loggers, of this worker or of all."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from fencepost.herder.entities import LoggerLevel
from fencepost.herder.interface import Loggers
from fencepost.herder.requests.logger_registry import LoggerRegistry
from fencepost.herder.work.parts import HerderParts


class LoggerRequests(Loggers):
    """Shows and sets levels."""

    def __init__(self, parts: HerderParts, registry: LoggerRegistry) -> None:
        self._parts = parts
        self._registry = registry

    def levels(self) -> Mapping[str, LoggerLevel]:
        """Return the loggers whose levels are set."""
        return self._registry.levels()

    def level(self, name: str) -> LoggerLevel:
        """Return a logger's level. Raises NotFoundError."""
        return self._registry.level(name)

    def set_level(self, namespace: str, level: str) -> list[str]:
        """Set the level of a logger and those below it on this worker. Raises BadRequestError."""
        return self._registry.set_level(namespace, level)

    async def set_everywhere(self, namespace: str, level: str) -> None:
        """Set the level of a logger and those below it on all workers. Raises BadRequestError."""
        await self._parts.joined()
        # Here it is set at once, or refused.
        self._registry.set_level(namespace, level)
        await asyncio.wrap_future(self._parts.configs.put_logger_level(namespace, level))
