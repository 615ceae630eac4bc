"""Fencing rounds: the former tasks of a connector lose the right to write before newer tasks start (KIP-618).

    asked ──> read the config topic ──> fence the transactional ids of the former count ──> read the config topic
              (fenced already: done)    (not if one task replaces one task,                    │
                         │               nor for unchanged tasks)                              │
                         │ for the first tasks                                                 v
                         └───────────────────────────> write the new count (newer task configurations: 409)

At-least-once tasks have no transactional ids: their count is 0. They wait for a round only if earlier tasks had
transactional ids, so that no earlier task can still commit.

Concurrent requests for one connector share a round; rounds of several connectors run concurrently.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, Protocol

from fencepost.api.errors import ConfigError, FencepostError
from fencepost.config.log_context import log_context
from fencepost.herder.core.calls import outcome_of
from fencepost.herder.errors import (
    BadRequestError,
    FencingRoundError,
    ForbiddenError,
    MissingRightError,
    NotFoundError,
    RebalanceNeededError,
)
from fencepost.herder.work.parts import HerderParts, delivers_at_least_once
from fencepost.kafka.errors import AuthorizationError
from fencepost.runtime.connector.client_properties import admin_config
from fencepost.runtime.state import ReplacedError
from fencepost.storage.configs.codec import Config
from fencepost.storage.configs.state import ClusterConfigState
from fencepost.storage.configs.task_count import fencing_plan, task_transactional_id

_log: Final = logging.getLogger(__name__)

_LASTING: Final = (
    AuthorizationError, BadRequestError, ConfigError, ForbiddenError, MissingRightError, NotFoundError, ReplacedError,
)  # fmt: skip

TaskSet = tuple[str, int | None, int]
"""A connector, the generation of its task configurations, and their number."""


def task_set(state: ClusterConfigState, connector: str) -> TaskSet:
    """Return the task set of a connector."""
    return connector, state.task_config_generation(connector), len(state.tasks(connector))


class SharedCalls:
    """Shares one call between concurrent requests for the same tasks of a connector."""

    def __init__(self, parts: HerderParts) -> None:
        self._parts = parts
        self._running: dict[TaskSet, asyncio.Task[None]] = {}

    async def call(self, connector: str, function: Callable[[str], Coroutine[Any, Any, None]]) -> None:
        """Call the function, or wait for the call that is in progress. Raises the function's errors."""
        work = task_set(self._parts.state, connector)
        task = self._running.get(work)
        if task is None:
            task = self._running[work] = asyncio.ensure_future(self._logged(connector, function))
            task.add_done_callback(lambda _: self._running.pop(work, None))
        # One waiter may be cancelled; the call goes on for the others.
        await outcome_of(task)

    @staticmethod
    async def _logged(connector: str, function: Callable[[str], Coroutine[Any, Any, None]]) -> None:
        # The call must not log in the context of the task that requested it first.
        with log_context(connector):
            await function(connector)


class CountWriter(Protocol):
    """Writes task counts to the config topic, as the leader of the worker's group."""

    async def require(self) -> None:
        """Check that this worker may write. Raises NotLeaderError, and the errors that prevent writing."""

    async def write_task_count(self, connector: str, count: int, *, check: Callable[[], None]) -> None:
        """Write that former tasks are fenced, and that `count` tasks may start.

        `check` is called right before the write, and may raise.
        """


class FencingRounds:
    """Runs fencing rounds as the leader."""

    def __init__(self, parts: HerderParts, counts: CountWriter) -> None:
        self._parts = parts
        self._counts = counts
        self._rounds = SharedCalls(parts)

    async def lead(self, connector: str) -> None:
        """Fence former tasks as the leader.

        Raises NotLeaderError, NotFoundError, RebalanceNeededError for newer task configurations, RequestFailedError if
        the count cannot be written, and the errors of fencing.
        """
        await self._counts.require()
        # The requesting worker may have read newer records than this worker, and they may show that fencing is needed.
        await self._parts.read_config_topic()
        await self._rounds.call(connector, self._round)

    async def confirm(self, connector: str) -> None:
        """Read the config topic to its end, to learn of newer task configurations."""
        del connector
        await self._parts.read_config_topic()

    async def _round(self, connector: str) -> None:
        work, state = task_set(self._parts.state, connector), self._parts.state
        config = state.connector_config(connector)
        if config is None:
            raise NotFoundError(f"There is no connector {connector}: there is nothing to fence")
        if not self._parts.fencing_is_due(connector):
            return
        count = self._count(connector)
        old_count = self._parts.task_count(connector)
        former = fencing_plan(old_count, count, unchanged=state.unchanged_tasks(connector))
        with self._measured():
            if former:
                await self._parts.run(self._fence, connector, config, former)
            if old_count is not None:
                await self._parts.read_config_topic()
            await self._counts.write_task_count(connector, count, check=lambda: self._check(work))

    @contextmanager
    def _measured(self) -> Iterator[None]:
        started, success = self._parts.loop.time(), False
        try:
            yield
            success = True
        finally:
            self._parts.record_fencing(self._parts.loop.time() - started, success=success)

    def _count(self, connector: str) -> int:
        """The number of transactional ids that the connector's tasks have."""
        state = self._parts.state
        return 0 if delivers_at_least_once(state, connector) else len(state.tasks(connector))

    def _check(self, work: TaskSet) -> None:
        if task_set(self._parts.state, work[0]) != work:
            raise RebalanceNeededError(f"Connector {work[0]} has got newer task configurations: ask again")

    def _fence(self, name: str, config: Config, former: Sequence[int]) -> None:
        worker = self._parts.worker_for(name)
        connector, group = worker.connector_config(config), worker.config.group_id
        ids = [task_transactional_id(group, connector.name, task) for task in former]
        _log.info("Fencing %d former tasks of connector %s", len(ids), connector.name)
        with worker.clients.admin(admin_config(worker.config, connector)) as admin:
            admin.fence_producers(ids).all()


@contextmanager
def retried(connector: str) -> Iterator[None]:
    """Convert temporary failures of fencing to FencingRoundError, which restarts the task."""
    try:
        yield
    except _LASTING:
        raise
    except FencepostError as error:
        raise FencingRoundError(f"The former tasks of connector {connector} are not fenced: {error}") from error
