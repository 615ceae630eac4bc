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
    """A connector or a task that follows plans, on the event loop."""

    def __init__(self, subject: str | ConnectorTaskId) -> None:
        """`subject` is the name of the connector, or the id of the task."""
        self._subject = subject
        self._wanted: Plan | None = None
        self._current: Plan | None = None
        self._again = False
        self._converging: asyncio.Task[None] | None = None

    @property
    def wanted(self) -> Plan | None:
        """The latest plan."""
        return self._wanted

    @property
    def gone(self) -> bool:
        """Whether the connector or task is stopped, and is not planned to run."""
        return self._wanted is None and self._current is None and self._converging is None

    @property
    def is_settled(self) -> bool:
        """Whether the connector or task has reached its plan."""
        return self._converging is None

    def want(self, plan: Plan | None) -> None:
        """Set the plan, which the connector or task follows soon."""
        self._wanted = plan
        if self._converging is None and plan != self._current:
            self._converging = asyncio.ensure_future(self._converge())

    def step_again(self) -> None:
        """Schedule another step soon, even if the plan is complete. Without a plan, do nothing."""
        if self._wanted is not None:
            self._again = True
            if self._converging is None:
                self._converging = asyncio.ensure_future(self._converge())

    async def settled(self) -> None:
        """Wait until the connector or task has reached its plan."""
        while self._converging is not None:
            await asyncio.wait([self._converging])

    async def _converge(self) -> None:
        try:
            with log_context(self._subject):
                while self._wanted != self._current or (self._again and self._wanted is not None):
                    self._again = False
                    self._current = await self._step(self._current, self._wanted)
        except Exception:
            _log.exception("A fault of this worker: the connector or task cannot follow its plan")
            raise
        finally:
            self._converging = None

    @abstractmethod
    async def _step(self, before: Plan | None, wanted: Plan | None) -> Plan | None:
        """Take one step towards `wanted`; return the new state. Must not raise.

        `before` equals `wanted` only after `step_again`.
        """
