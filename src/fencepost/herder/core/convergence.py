"""Brings a connector or a task to its wanted state, one step after the other.

    want(plan) ──> wanted != is ──step──> wanted != is ──step──> ... ──> wanted == is

Only the latest plan counts: intermediate plans are skipped. A plan of None means not to run. An asyncio task exists
only while the state differs from the plan.
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
        """The latest plan."""
        return self._wanted

    @property
    def gone(self) -> bool:
        """Whether it is stopped, and its plan is to be stopped."""
        return self._wanted is None and self._is is None and self._moving is None

    @property
    def is_settled(self) -> bool:
        """Whether it has reached its plan."""
        return self._moving is None

    def want(self, plan: Plan | None) -> None:
        """Set the plan, which it follows soon."""
        self._wanted = plan
        if self._moving is None and plan != self._is:
            self._moving = asyncio.ensure_future(self._converge())

    async def settled(self) -> None:
        """Wait until it has reached its plan."""
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
        """Take one step towards `wanted`; return the new state. Must not raise."""
