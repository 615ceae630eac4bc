"""A source task that runs in this process."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Final, Protocol

from fencepost.api.errors import describe_error
from fencepost.api.source import TASK_ADDITIONS
from fencepost.config.ids import ConnectorTaskId
from fencepost.herder.core.active_topics import ActiveTopics
from fencepost.herder.core.convergence import Converging
from fencepost.herder.errors import MixedGroupError, SupersededError
from fencepost.herder.work.parts import HerderParts
from fencepost.kafka.errors import ProducerFencedError
from fencepost.runtime.state import State
from fencepost.runtime.task.run import StartChecks
from fencepost.runtime.task.source_task import TransactionStatus, WorkerSourceTask
from fencepost.runtime.worker import connector_version
from fencepost.storage.configs.codec import Config

_log: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class TaskPlan:
    """The plan of a task: a plan that differs in `generation` or `restart` requires a new start.

    `generation` is its configuration's, which may get more additions in it; `restart` counts the requested restarts. `held` is the reason why it must not
    be started, None if it may; a running task keeps running.
    """

    generation: int | None
    config: Config = field(repr=False)
    paused: bool
    restart: int
    held: str | None = None


class NewChecks(Protocol):
    """Creates the checks of one start of a task."""

    def __call__(self, is_current: Callable[[], bool], /) -> StartChecks:
        """`is_current` returns, on the event loop, whether the task should still run as it was started."""


class TaskWork(Converging[TaskPlan]):
    """Starts, pauses and stops one task by its plan, and reports its states."""

    def __init__(
        self,
        task: ConnectorTaskId,
        parts: HerderParts,
        new_checks: NewChecks,
        on_fenced: Callable[[ConnectorTaskId], bool] = lambda _: False,
        *,
        stop_at_end: bool = False,
    ) -> None:
        """`on_fenced` is called when the task lost its transactional id; it returns False if that is a failure.

        `stop_at_end` lets the task end where its source does.
        """
        super().__init__(task)
        self.id = task
        self.announce_restart = False
        """Whether the next restart shows as RESTARTING."""
        self._parts = parts
        self._new_checks = new_checks
        self._on_fenced = on_fenced
        self._stop_at_end = stop_at_end
        self._topics = ActiveTopics(parts.config, parts.statuses)
        self.fenced = False
        """Whether the task ended because it was fenced, and waits for a rebalance to determine its owner."""
        self._task: WorkerSourceTask | None = None
        self._version: str | None = None
        self._holding = False
        # The number of the start: later reports of earlier starts are ignored.
        self._run = 0

    @property
    def transaction(self) -> TransactionStatus | None:
        """The task's open transaction, None if it does not run."""
        return None if self._task is None else self._task.transaction

    async def _step(self, before: TaskPlan | None, wanted: TaskPlan | None) -> TaskPlan | None:
        if wanted is None:
            await self._stop()
        elif before is None:
            self._holding = wanted.held is not None
            await (self._start(wanted) if wanted.held is None else self._hold(wanted.held))
        elif self._goes_on(before, wanted):
            if self._task is not None:
                self._task.add(wanted.config.get(TASK_ADDITIONS))
                self._task.pause() if wanted.paused else self._task.resume()
        else:
            await self._stop()
            self._announce_restart()
            return None
        return wanted

    def _goes_on(self, before: TaskPlan, wanted: TaskPlan) -> bool:
        released = self._holding and wanted.held is None
        # A configuration that differs within a generation only has more additions.
        before = replace(before, config=wanted.config, paused=wanted.paused, held=wanted.held)
        return not released and before == wanted

    async def _hold(self, reason: str) -> None:
        error = MixedGroupError(self.id, reason)
        self._parts.report(self.id, State.UNASSIGNED, error=error, version=self._version)

    async def _start(self, plan: TaskPlan) -> None:
        async with self._parts.turn():
            wanted = self.wanted
            if wanted is None or not self._goes_on(plan, wanted):
                return
            if wanted.held is not None:
                self._holding = True
                await self._hold(wanted.held)
            else:
                await self._make_and_start(plan)

    async def _make_and_start(self, plan: TaskPlan) -> None:
        # Not the latest: the delivery may only change with the generation, which fences the previous one.
        properties = self._parts.state.applied_config(self.id.connector)
        try:
            self._task = await self._parts.run(self._make, dict(properties or {}), plan, self._run)
        except Exception as error:  # noqa: BLE001 - a connector's code may raise anything; it ends in the status
            _log.error("Task %s failed: %s", self.id, describe_error(error), exc_info=error)
            self._parts.worker.metrics.add(self.id).state(State.FAILED)
            self._parts.report(self.id, State.FAILED, error=error, version=self._version)
        else:
            self._task.start()

    def _make(self, properties: dict[str, Any], plan: TaskPlan, run: int) -> WorkerSourceTask:
        worker = self._parts.worker_for(self.id.connector)
        self._version = connector_version(worker.config, properties)
        return worker.new_task(
            worker.connector_config(properties),
            self.id.task,
            {name: value for name, value in plan.config.items() if value is not None},
            _TaskEvents(self, run),
            checks=self._new_checks(lambda: self._run == run and self._is_current(plan)),
            paused=plan.paused,
            stop_at_end=self._stop_at_end,
            wrote_to=self._wrote_to,
        )

    def _is_current(self, plan: TaskPlan) -> bool:
        wanted = self.wanted
        generation = self._parts.state.task_generation(self.id)
        return wanted is not None and plan.generation == generation and plan.restart == wanted.restart

    async def _stop(self) -> None:
        self._run += 1
        self.fenced = False
        task, self._task = self._task, None
        if task is not None:
            async with self._parts.turn():
                await self._parts.run(self._parts.worker.stop_tasks, [task])
        else:
            self._parts.worker.metrics.remove(self.id)
        if self._parts.state.task_config(self.id) is None:
            self._parts.statuses.delete_task(self.id)
        else:
            self._parts.report(self.id, State.UNASSIGNED, version=self._version)

    def _announce_restart(self) -> None:
        if self.announce_restart:
            self.announce_restart = False
            self._parts.report(self.id, State.RESTARTING, version=self._version)

    def told(self, run: int, state: State, error: Exception | None) -> None:
        """Process a report of the task's state."""
        # A stopped or replaced task's end is ignored.
        if run != self._run or isinstance(error, SupersededError):
            return
        if state is State.FAILED and isinstance(error, ProducerFencedError) and self._on_fenced(self.id):
            self.fenced = True
        else:
            self._parts.report(self.id, state, error=error, version=self._version)

    def _wrote_to(self, topics: Collection[str]) -> None:
        # On the task's thread, after each commit. The last commit of a deleted connector is not recorded.
        if self._parts.state.contains(self.id.connector):
            self._topics.note(self.id, topics)

    def post(self, function: Callable[..., None], *arguments: object) -> None:
        """Call a function on the event loop, unless it is closed."""
        with suppress(RuntimeError):
            self._parts.loop.call_soon_threadsafe(function, *arguments)


class _TaskEvents:
    """Forwards the reports of one start of a task from its thread to the event loop."""

    def __init__(self, work: TaskWork, run: int) -> None:
        self._work = work
        self._run = run

    def on_task_state(self, task: ConnectorTaskId, state: State, error: Exception | None) -> None:
        """Forward a state."""
        del task
        self._work.post(self._work.told, self._run, state, error)
