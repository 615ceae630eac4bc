"""Ensures that only one process at a time runs a connector: the last to start its tasks fences the others (KIP-618).

    a task starts ──> fence: claim the leader's transactional id ──> a round ──> the offset of its count is noted
                             ^                                         │
                             └──── another process claimed it ─────────┘

    before and after a task owns its transactional id: does the last task count still have the noted offset?

No other process may write a count between reading the previous count and writing the new one. So each round first
claims the transactional id of the group's leader, and the rounds of one process run one after the other. If another
process claims the id during a round, the write fails, and the round begins again. A process that was suspended between
its round and the start of its tasks finds the newer count.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from fencepost.config.log_context import log_context
from fencepost.herder.errors import OvertakenError
from fencepost.herder.standalone.standalone_parts import Fenced, StandaloneParts
from fencepost.herder.work.fencing_round import FencingRounds, retried, task_set
from fencepost.storage.errors import ConfigWriteError

_log: Final = logging.getLogger(__name__)

_ATTEMPTS: Final = 5


class StandaloneFencing:
    """Fences a connector's former tasks, whichever process runs them.

    This class also detects that another process has fenced this process's tasks.
    """

    def __init__(self, parts: StandaloneParts) -> None:
        self._parts = parts
        self._rounds = FencingRounds(parts, self)
        self._turn = asyncio.Lock()

    async def fence(self, connector: str) -> None:
        """Return once former tasks of a connector are fenced, before a task starts.

        Raises FencingRoundError for retriable failures, and the error itself if it is fatal. Raises OvertakenError if
        another process has fenced the tasks after this round.
        """
        self._parts.check_config_topic()
        with retried(connector):
            await self.lead(connector)
        await self.confirm(connector)

    async def lead(self, connector: str) -> None:
        """Fence former tasks, unless they were already fenced for the connector's current tasks.

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
            _log.info("Another worker of group %s may have written to the config topic: %s", group, error)

    async def confirm(self, connector: str) -> None:
        """Raise OvertakenError if another process has fenced the connector's tasks since this process did."""
        await self._parts.read_config_topic()
        fenced = self._parts.fenced.get(connector)
        latest = self._parts.task_counts.state.entry(connector).task_count_offset
        if fenced is None or latest != fenced.offset:
            raise OvertakenError(connector, self._parts.config.group_id)

    # -- the writes of the rounds' counts ------------------------------------------------------------------------

    async def require(self) -> None:
        """Claim the transactional id of the group's leader. Raises the errors of its initialization."""
        await asyncio.wrap_future(self._parts.task_counts.claim_write_privilege())

    async def write_task_count(self, connector: str, count: int, *, check: Callable[[], None]) -> None:
        """Write a count, and remember its offset. Raises ConfigWriteError, and the errors of `check`."""
        check()
        tasks = task_set(self._parts.state, connector)
        offset = await asyncio.wrap_future(self._parts.task_counts.put_task_count(connector, count))
        if offset is not None:
            self._parts.fenced[connector] = Fenced(tasks, offset)
