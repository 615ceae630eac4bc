"""Brings a connector or a task to what is wanted of it, one step after the other.

    want(plan) ──> wanted != is ──step──> wanted != is ──step──> ... ──> wanted == is

The latest wish counts: whatever was wanted in between is skipped. A plan of None is not to run. There is something
that waits only while there is a difference.
"""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from typing import Final, Generic, TypeVar

from fencepost.config.ids import ConnectorTaskId
from fencepost.config.log_context import log_context

_log: Final = logging.getLogger(__name__)

Plan = TypeVar("Plan")


class Converging(ABC, Generic[Plan]):
    """Something that follows plans, on the event loop."""

    def __init__(self, subject: str | ConnectorTaskId) -> None:
        """`subject` is the connector, given by its name, or the task that follows the plans."""
        self._subject = subject
        self._wanted: Plan | None = None
        self._is: Plan | None = None
        self._moving: asyncio.Task[None] | None = None

    @property
    def wanted(self) -> Plan | None:
        """What was last asked for."""
        return self._wanted

    @property
    def gone(self) -> bool:
        """Whether it does not run, and is not to."""
        return self._wanted is None and self._is is None and self._moving is None

    @property
    def is_settled(self) -> bool:
        """Whether it is as wanted."""
        return self._moving is None

    def want(self, plan: Plan | None) -> None:
        """Have it follow a plan, soon."""
        self._wanted = plan
        if self._moving is None and plan != self._is:
            self._moving = asyncio.ensure_future(self._converge())

    async def settled(self) -> None:
        """Wait until it is as wanted."""
        while self._moving is not None:
            await asyncio.wait([self._moving])

    async def _converge(self) -> None:
        try:
            with log_context(self._subject):
                while self._wanted != self._is:
                    self._is = await self._step(self._is, self._wanted)
        except Exception:
            _log.exception("A fault of this worker: it cannot follow its plan")
            raise
        finally:
            self._moving = None

    @abstractmethod
    async def _step(self, before: Plan | None, wanted: Plan | None) -> Plan | None:
        """Come nearer to what is wanted and return what it is then. Not to raise."""
