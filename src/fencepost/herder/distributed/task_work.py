"""A source task that this worker was given to run, and the checks at its start that make it the only one (KIP-618)."""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from fencepost.config.ids import ConnectorTaskId
from fencepost.config.worker_config import ExactlyOnceSourceSupport
from fencepost.herder.core.active_topics import ActiveTopics
from fencepost.herder.core.convergence import Converging
from fencepost.herder.distributed.group_parts import GroupParts
from fencepost.herder.errors import MixedGroupError, SupersededError
from fencepost.kafka.errors import ProducerFencedError
from fencepost.runtime.state import State
from fencepost.runtime.task.run import NoChecks, StartChecks
from fencepost.runtime.task.source_task import TransactionStatus, WorkerSourceTask
from fencepost.runtime.worker import connector_version
from fencepost.storage.configs.codec import Config


@dataclass(frozen=True, slots=True)
class TaskPlan:
    """How a task is to run: a plan that differs in more than `paused` and `held` needs another start.

    `generation` is that in which it got its configuration; `restart` counts the restarts that were asked for.
    `held` is not to be started while the group is mixed; what runs by then goes on.
    """

    generation: int | None
    config: Config = field(repr=False)
    paused: bool
    restart: int
    held: bool = False


class Fencing(Protocol):
    """Has former generations of tasks fenced, by the leader."""

    async def fence(self, connector: str) -> None:
        """Return once no former task can write any more."""


class GroupChecks:
    """The checks around the moment in which a task takes over its transactional id, on the task's thread."""

    def __init__(self, parts: GroupParts, fencing: Fencing, is_current: Callable[[], bool]) -> None:
        """`is_current` is asked on the event loop whether the task is still to run as it was started."""
        self._parts = parts
        self._fencing = fencing
        self._is_current = is_current

    def before_ownership(self, task: ConnectorTaskId) -> None:
        """Have the leader fence former tasks. Raises its refusal, or SupersededError."""
        self._parts.on_loop(self._check(task))
        self._parts.on_loop(self._fencing.fence(task.connector))

    def after_ownership(self, task: ConnectorTaskId) -> None:
        """Raise SupersededError if the config topic has newer task configurations, or the task was revoked."""
        self._parts.on_loop(self._read_and_check(task))

    async def _read_and_check(self, task: ConnectorTaskId) -> None:
        await self._parts.read_config_topic()
        await self._check(task)

    async def _check(self, task: ConnectorTaskId) -> None:
        if not self._is_current():
            raise SupersededError(task.connector, task.task)


class TaskWork(Converging[TaskPlan]):
    """Starts, pauses and stops one task as it is planned, and reports its states."""

    def __init__(
        self,
        task: ConnectorTaskId,
        parts: GroupParts,
        fencing: Fencing,
        on_fenced: Callable[[ConnectorTaskId], bool],
    ) -> None:
        """`on_fenced` is told that the task lost its transactional id; false if that is to be a failure."""
        super().__init__(task)
        self.id = task
        self.announce_restart = False
        """Whether the next restart shows as RESTARTING."""
        self._parts = parts
        self._fencing = fencing
        self._on_fenced = on_fenced
        self._topics = ActiveTopics(parts.config, parts.statuses)
        self.fenced = False
        """Whether the task ended because it was fenced, and waits for the group to say whose it is."""
        self._task: WorkerSourceTask | None = None
        self._version: str | None = None
        self._holding = False
        # Which start it is: what earlier ones still tell does not count.
        self._run = 0

    @property
    def transaction(self) -> TransactionStatus | None:
        """What the task has open, None if it does not run."""
        return None if self._task is None else self._task.transaction

    async def _step(self, before: TaskPlan | None, wanted: TaskPlan | None) -> TaskPlan | None:
        if wanted is None:
            await self._stop()
        elif before is None:
            self._holding = wanted.held
            await (self._hold() if wanted.held else self._start(wanted))
        elif self._goes_on(before, wanted):
            if self._task is not None:
                self._task.pause() if wanted.paused else self._task.resume()
        else:
            await self._stop()
            self._announce_restart()
            return None
        return wanted

    def _goes_on(self, before: TaskPlan, wanted: TaskPlan) -> bool:
        released = self._holding and not wanted.held
        return not released and replace(before, paused=wanted.paused, held=wanted.held) == wanted

    async def _hold(self) -> None:
        error = MixedGroupError(self.id, self._parts.mixed.advice)
        self._parts.report(self.id, State.UNASSIGNED, error=error, version=self._version)

    async def _start(self, plan: TaskPlan) -> None:
        # Not the latest: how tasks deliver must not change but with their generation, which fences the former one.
        properties = self._parts.state.applied_config(self.id.connector)
        try:
            self._task = await self._parts.run(self._make, dict(properties or {}), plan, self._run)
        except Exception as error:  # noqa: BLE001 - a connector's code may raise anything; it ends in the status
            self._parts.worker.metrics.add(self.id).state(State.FAILED)
            self._parts.report(self.id, State.FAILED, error=error, version=self._version)
        else:
            self._task.start()

    def _make(self, properties: dict[str, Any], plan: TaskPlan, run: int) -> WorkerSourceTask:
        self._version = connector_version(self._parts.config, properties)
        checks: StartChecks = NoChecks()
        if self._parts.config.exactly_once_source_support is ExactlyOnceSourceSupport.ENABLED:
            checks = GroupChecks(self._parts, self._fencing, lambda: self._run == run and self._is_current(plan))
        return self._parts.worker.new_task(
            self._parts.worker.connector_config(properties),
            self.id.task,
            {name: value for name, value in plan.config.items() if value is not None},
            _TaskEvents(self, run),
            checks=checks,
            paused=plan.paused,
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
        """Take note of what the task tells of its state."""
        # How a task that was stopped ends is of no interest, nor is one that made room for its successor.
        if run != self._run or state is State.STOPPED or isinstance(error, SupersededError):
            return
        if state is State.FAILED and isinstance(error, ProducerFencedError) and self._on_fenced(self.id):
            self.fenced = True
        else:
            self._parts.report(self.id, state, error=error, version=self._version)

    def _wrote_to(self, topics: Collection[str]) -> None:
        # On the task's thread, after each commit. The last one of a connector that is deleted leaves no trace.
        if self._parts.state.contains(self.id.connector):
            self._topics.note(self.id, topics)

    def post(self, function: Callable[..., None], *arguments: object) -> None:
        """Have the event loop call a function, unless it is closed."""
        with suppress(RuntimeError):
            self._parts.loop.call_soon_threadsafe(function, *arguments)


class _TaskEvents:
    """Brings what one start of a task tells, on its thread, to the event loop."""

    def __init__(self, work: TaskWork, run: int) -> None:
        self._work = work
        self._run = run

    def on_task_state(self, task: ConnectorTaskId, state: State, error: Exception | None) -> None:
        """Pass a state on."""
        del task
        self._work.post(self._work.told, self._run, state, error)
