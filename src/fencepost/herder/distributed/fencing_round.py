"""Rounds of fencing: former tasks of a connector lose the right to write before newer ones start (KIP-618).

    asked ──> read the config topic ──> fence the transactional ids of the former count ──> read the config topic
              (fenced already: done)    (not where one task follows one,                       │
                         │               nor those of tasks that are unchanged)                │
                         │ for the first tasks                                                 v
                         └───────────────────────────> write the new count (newer task configurations: 409)

Whoever asked another worker reads the config topic as well, and starts nothing without the new count in it.

Tasks that deliver at least once have no transactional ids: their count is 0. They wait for a round only where tasks
came before that had some, so that none of these can still commit.

Tasks of a connector that ask at once share one round; rounds of several connectors go on side by side.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Final

from fencepost.api.errors import ConfigError, FencepostError
from fencepost.config.log_context import log_context
from fencepost.herder.core.outliving import outcome_of
from fencepost.herder.distributed.group_parts import GroupParts
from fencepost.herder.distributed.leadership import Leadership
from fencepost.herder.errors import (
    BadRequestError,
    FencingRoundError,
    ForbiddenError,
    MissingRightError,
    NotFoundError,
    RebalanceNeededError,
    RequestTargetError,
)
from fencepost.kafka.errors import AuthorizationError
from fencepost.runtime.connector.client_properties import admin_config
from fencepost.storage.configs.codec import Config
from fencepost.storage.configs.task_count import fencing_plan, task_transactional_id

_log: Final = logging.getLogger(__name__)

_LASTING: Final = (AuthorizationError, ConfigError, BadRequestError, ForbiddenError, MissingRightError, NotFoundError)


_Work = tuple[str, int | None, int]
"""A connector, the generation of its task configurations, and how many there are."""


class FencingRounds:
    """Fences as the leader, and has the leader fence for tasks of this worker."""

    def __init__(self, parts: GroupParts, leadership: Leadership) -> None:
        self._parts = parts
        self._leadership = leadership
        self._rounds: dict[_Work, asyncio.Task[None]] = {}
        self._waiting: dict[_Work, asyncio.Task[None]] = {}

    async def fence(self, connector: str) -> None:
        """Return once former tasks of a connector are fenced, for a task of this worker that is to start.

        Tasks that ask at once share one request to the leader. Raises FencingRoundError if that may pass, and the
        reason otherwise.
        """
        try:
            await self._shared(self._waiting, connector, self._fence_by_leader)
        except _LASTING:
            raise
        except FencepostError as error:
            raise FencingRoundError(f"The former tasks of connector {connector} are not fenced: {error}") from error

    async def lead(self, connector: str) -> None:
        """Fence as the leader.

        Raises NotLeaderError, NotFoundError, RebalanceNeededError for newer task configurations, RequestFailedError
        if the count cannot be written, and what fencing raises.
        """
        await self._leadership.require()
        # Whoever asks may have read a commit that this worker has not: it must not be told that all is fenced.
        await self._parts.read_config_topic()
        await self._shared(self._rounds, connector, self._round)

    async def _fence_by_leader(self, connector: str) -> None:
        if not self._is_due(connector):
            return
        try:
            await self.lead(connector)
        except RequestTargetError as elsewhere:
            if elsewhere.forward_url is None:
                raise
            fence = self._parts.client.fence_zombie_source_tasks
            await self._leadership.signed(partial(fence, elsewhere.forward_url, connector))
            await self._parts.read_config_topic()
        if self._is_due(connector):
            raise RebalanceNeededError(
                f"The leader took connector {connector} for fenced, but the config topic has no task count record "
                "behind the connector's latest task configurations"
            )

    async def _shared(
        self,
        running: dict[_Work, asyncio.Task[None]],
        connector: str,
        start: Callable[[str], Coroutine[Any, Any, None]],
    ) -> None:
        work = self._work(connector)
        task = running.get(work)
        if task is None:
            task = running[work] = asyncio.ensure_future(self._logged(connector, start))
            task.add_done_callback(lambda _: running.pop(work, None))
        # One that waits may be cancelled without the others.
        await outcome_of(task)

    @staticmethod
    async def _logged(connector: str, start: Callable[[str], Coroutine[Any, Any, None]]) -> None:
        # Not about the task that happened to ask first.
        with log_context(connector):
            await start(connector)

    def _work(self, connector: str) -> _Work:
        state = self._parts.state
        return connector, state.task_config_generation(connector), len(state.tasks(connector))

    async def _round(self, connector: str) -> None:
        work, state = self._work(connector), self._parts.state
        config = state.connector_config(connector)
        if config is None:
            raise NotFoundError(f"There is no connector {connector}: nothing is to be fenced")
        if not self._is_due(connector):
            return
        count = self._count(connector)
        old_count = state.task_count_record(connector)
        former = fencing_plan(old_count, count, unchanged=state.unchanged_tasks(connector))
        with self._measured():
            if former:
                await self._parts.run(self._fence, config, former)
            if old_count is not None:
                await self._parts.read_config_topic()
            await self._leadership.write(
                lambda: self._parts.configs.put_task_count(connector, count), check=lambda: self._check(work)
            )

    @contextmanager
    def _measured(self) -> Iterator[None]:
        started, success = self._parts.loop.time(), False
        try:
            yield
            success = True
        finally:
            self._parts.metrics.fenced(self._parts.loop.time() - started, success=success)

    def _is_due(self, connector: str) -> bool:
        state = self._parts.state
        if self._parts.at_least_once(connector) and not state.task_count_record(connector):
            return False
        return state.pending_fencing(connector)

    def _count(self, connector: str) -> int:
        """How many transactional ids the connector's tasks write under."""
        return 0 if self._parts.at_least_once(connector) else len(self._parts.state.tasks(connector))

    def _check(self, work: _Work) -> None:
        if self._work(work[0]) != work:
            raise RebalanceNeededError(f"Connector {work[0]} has got newer task configurations: ask again")

    def _fence(self, config: Config, former: Sequence[int]) -> None:
        connector = self._parts.worker.connector_config(config)
        group = self._parts.config.group_id
        ids = [task_transactional_id(group, connector.name, task) for task in former]
        _log.info("Fencing %d former tasks of connector %s", len(ids), connector.name)
        with self._parts.worker.clients.admin(admin_config(self._parts.config, connector)) as admin:
            admin.fence_producers(ids).all()
