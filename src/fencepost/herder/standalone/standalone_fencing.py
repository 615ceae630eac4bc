"""Ensures that one process at a time runs a connector: the last one to start its tasks fences the others (KIP-618).

    a task starts ──> fence: claim the leader's transactional id ──> a round ──> its count's offset is noted
                             ^                                         │
                             └──── another process claimed it ─────────┘

    before and after a task owns its transactional id: does the last task count still have the noted offset?

No other process may write a count between reading the previous count and writing the new one. So each round claims the
transactional id of the group's leader first, and rounds of one process run one after the other. A process that is
overtaken fails when it writes, and begins again; one that was suspended between its round and the start of its tasks
finds the newer count.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from fencepost.config.ids import ConnectorTaskId
from fencepost.config.log_context import log_context
from fencepost.herder.errors import OvertakenError, SupersededError
from fencepost.herder.standalone.standalone_parts import Fenced, StandaloneParts
from fencepost.herder.work.fencing_round import FencingRounds, retried, task_set
from fencepost.storage.errors import ConfigWriteError

_log: Final = logging.getLogger(__name__)

_ATTEMPTS: Final = 5


class StandaloneFencing:
    """Fences former tasks of connectors in any process, and detects when others have fenced this process's tasks."""

    def __init__(self, parts: StandaloneParts) -> None:
        self._parts = parts
        self._rounds = FencingRounds(parts, self)
        self._turn = asyncio.Lock()

    async def fence(self, connector: str) -> None:
        """Return once former tasks of a connector are fenced, before a task starts.

        Raises FencingRoundError for retriable failures, and the reason otherwise.
        """
        self._parts.check_config_topic()
        with retried(connector):
            await self.lead(connector)

    async def lead(self, connector: str) -> None:
        """Fence former tasks, unless that was done for the connector's current tasks.

        Raises OvertakenError if other processes interfere repeatedly, ConfigWriteError, and the errors of fencing.
        """
        async with self._turn:
            with log_context(connector):
                for _ in range(_ATTEMPTS):
                    if not self._parts.fencing_is_due(connector):
                        return
                    await self._try_round(connector)
        if self._parts.fencing_is_due(connector):
            raise OvertakenError(connector, self._parts.config.group_id)

    async def _try_round(self, connector: str) -> None:
        try:
            await self._rounds.lead(connector)
        except ConfigWriteError as error:
            if not error.privilege_lost:
                raise
            group = self._parts.config.group_id
            _log.info("Another worker of group %s wrote to the config topic meanwhile, or may have: %s", group, error)

    async def confirm(self, connector: str) -> None:
        """Raise OvertakenError if another process has fenced the connector's tasks since this one did."""
        await self._parts.read_config_topic()
        fenced = self._parts.fenced.get(connector)
        latest = self._parts.task_counts.state.entry(connector).task_count_offset
        if fenced is None or latest != fenced.offset:
            raise OvertakenError(connector, self._parts.config.group_id)

    # -- the writes of the rounds' counts ------------------------------------------------------------------------

    async def require(self) -> None:
        """Claim the transactional id of the group's leader. Raises the errors of initializing it."""
        await asyncio.wrap_future(self._parts.task_counts.claim_write_privilege())

    async def write_task_count(self, connector: str, count: int, *, check: Callable[[], None]) -> None:
        """Write a count, and store its offset. Raises ConfigWriteError, and the errors of `check`."""
        check()
        tasks = task_set(self._parts.state, connector)
        offset = await asyncio.wrap_future(self._parts.task_counts.put_task_count(connector, count))
        if offset is not None:
            self._parts.fenced[connector] = Fenced(tasks, offset)


class StandaloneChecks:
    """The checks before and after a task takes over its transactional id, on the task's thread.

    The one before prevents a task that restarts in place from fencing its successor in another process.
    """

    def __init__(self, parts: StandaloneParts, fencing: StandaloneFencing, is_current: Callable[[], bool]) -> None:
        """`is_current` returns, on the event loop, whether the task should still run as it was started."""
        self._parts = parts
        self._fencing = fencing
        self._is_current = is_current

    def before_ownership(self, task: ConnectorTaskId) -> None:
        """Let former tasks be fenced. Raises SupersededError, OvertakenError, and as `StandaloneFencing.fence`."""
        self._parts.on_loop(self._before(task))

    def after_ownership(self, task: ConnectorTaskId) -> None:
        """Raise OvertakenError if another process has newer tasks, SupersededError if this one has."""
        self._parts.on_loop(self._after(task))

    async def _before(self, task: ConnectorTaskId) -> None:
        self._check(task)
        await self._fencing.fence(task.connector)
        await self._fencing.confirm(task.connector)

    async def _after(self, task: ConnectorTaskId) -> None:
        await self._fencing.confirm(task.connector)
        self._check(task)

    def _check(self, task: ConnectorTaskId) -> None:
        if not self._is_current():
            raise SupersededError(task.connector, task.task)
