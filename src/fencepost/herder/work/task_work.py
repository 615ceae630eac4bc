"""A source task that runs in this process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from fencepost.api.source import TASK_ADDITIONS
from fencepost.config.file_descriptors import explained
from fencepost.config.ids import ConnectorTaskId
from fencepost.herder.core.active_topics import ActiveTopics
from fencepost.herder.core.convergence import Converging
from fencepost.herder.errors import MixedGroupError, SupersededError
from fencepost.herder.work.parts import HerderParts
from fencepost.kafka.errors import ProducerFencedError
from fencepost.runtime.metrics.task_metrics import TaskMetrics
from fencepost.runtime.restart_policy import RestartPolicy
from fencepost.runtime.state import State
from fencepost.runtime.task.restart_log import log_failure, log_restart
from fencepost.runtime.task.run import StartChecks
from fencepost.runtime.task.source_task import TransactionStatus, WorkerSourceTask
from fencepost.runtime.worker import connector_version
from fencepost.storage.configs.codec import Config


@dataclass(frozen=True, slots=True)
class TaskPlan:
    """The plan of a task. A new plan with another `generation` or `restart` requires a new start.

    `generation` is the generation of the configuration; within it, the configuration may only get additions. `restart`
    counts the requested restarts. `held` is the reason why the task must not be started, None if it may start; a
    running task keeps running.
    """

    generation: int | None
    config: Config = field(repr=False)
    paused: bool
    restart: int
    held: str | None


class NewChecks(Protocol):
    """Makes the checks for one start of a task."""

    def __call__(self, is_current: Callable[[], bool], /) -> StartChecks:
        """`is_current` is called on the event loop. It returns whether the task should still run as it was started."""


class TaskWork(Converging[TaskPlan]):
    """Starts, pauses and stops one task by its plan, and reports its states.

    A running task restarts by itself. If a task could not be created, this class tries again, by the same policy.
    """

    def __init__(
        self,
        task: ConnectorTaskId,
        parts: HerderParts,
        new_checks: NewChecks,
        on_fenced: Callable[[ConnectorTaskId], bool] = lambda _: False,
        *,
        stop_at_end: bool = False,
    ) -> None:
        """`on_fenced` is called when the task has lost its transactional id. If it returns False, the task is FAILED.

        With `stop_at_end` the task ends when its source ends.
        """
        super().__init__(task)
        self.id = task
        self.announce_restart = False
        """Whether the next restart is reported as RESTARTING."""
        self._parts = parts
        self._new_checks = new_checks
        self._on_fenced = on_fenced
        self._stop_at_end = stop_at_end
        self._topics = ActiveTopics(parts.config, parts.statuses)
        self.fenced = False
        """Whether the task ended because it was fenced. Then it waits for a rebalance that determines its owner."""
        self._task: WorkerSourceTask | None = None
        self._version: str | None = None
        self._holding = False
        self._restarts = RestartPolicy()
        # Why the last attempt to create the task failed, while another attempt will follow.
        self._creation_error: Exception | None = None
        self._attempt_due: asyncio.TimerHandle | None = None
        self._metrics: TaskMetrics | None = None
        # The number of the current start. Late reports of earlier starts are ignored.
        self._run = 0

    @property
    def transaction(self) -> TransactionStatus | None:
        """The task's open transaction and last commit; None if the task does not run."""
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
            elif self._creation_error is not None:
                await self._await_attempt(wanted)
        else:
            await self._stop()
            self._announce_restart()
            return None
        return wanted

    def _goes_on(self, before: TaskPlan, wanted: TaskPlan) -> bool:
        released = self._holding and wanted.held is None
        # Within a generation, a configuration only gets additions, which do not need a new start.
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
        # The connector's configuration from which its current task configurations were made, not the latest one: the
        # delivery may only change with a new generation of task configurations, which fences the previous generation.
        properties = self._parts.state.applied_config(self.id.connector)
        try:
            self._task = await self._parts.run(self._make, dict(properties or {}), plan, self._run)
        except Exception as error:  # noqa: BLE001 - a connector's code may raise anything; it ends in the status
            self._creation_failed(plan, explained(f"Task {self.id}", error))
        else:
            self._creation_error = None
            self._task.start()

    def _creation_failed(self, plan: TaskPlan, error: Exception) -> None:
        """Report that the task could not be created, and try again later if the failure is retriable.

        A paused task waits until it is resumed.
        """
        delay = self._restarts.failed(error)
        last, self._creation_error = self._creation_error, error
        if delay is None:
            self._creation_error = None
            log_failure(self.id, error)
            self._report_without_task(State.FAILED, error)
        elif plan.paused:
            log_restart(self.id, "when it is resumed", error, last)
            self._report_without_task(State.PAUSED)
        else:
            log_restart(self.id, f"in {delay:.1f} s", error, last)
            self._report_without_task(State.RESTARTING, error)
            self._attempt_due = self._parts.loop.call_later(delay, self._attempt)

    def _attempt(self) -> None:
        self._attempt_due = None
        self.step_again()

    async def _await_attempt(self, plan: TaskPlan) -> None:
        """Try again to create the task, unless it is paused or the next attempt is not due yet."""
        if not plan.paused:
            if self._attempt_due is None:
                await self._start(plan)
        elif self._cancel_attempt():
            self._report_without_task(State.PAUSED)

    def _cancel_attempt(self) -> bool:
        """Cancel the next attempt to create the task. Return whether one was planned."""
        due, self._attempt_due = self._attempt_due, None
        if due is not None:
            due.cancel()
        return due is not None

    def _report_without_task(self, state: State, error: Exception | None = None) -> None:
        # All attempts of one start share the metrics. Otherwise the number of restarts would be lost.
        self._metrics = self._metrics or self._parts.worker.metrics.add(self.id)
        self._metrics.state(state, created=False)
        self._parts.report(self.id, state, error=error, version=self._version)

    def _make(self, properties: dict[str, Any], plan: TaskPlan, run: int) -> WorkerSourceTask:
        worker = self._parts.worker_for(self.id.connector)
        connector = worker.connector_config(properties)
        # The restart settings are read before the plugin's code runs, because they apply to its failures, too.
        self._restarts.config = worker.restarts(connector)
        self._version = connector_version(worker.config, properties)
        return worker.new_task(
            connector,
            self.id.task,
            {name: value for name, value in plan.config.items() if value is not None},
            _TaskEvents(self, run),
            checks=self._new_checks(lambda: self._run == run and self._is_current(plan)),
            paused=plan.paused,
            stop_at_end=self._stop_at_end,
            wrote_to=self._wrote_to,
            metrics=self._metrics,
        )

    def _is_current(self, plan: TaskPlan) -> bool:
        wanted = self.wanted
        generation = self._parts.state.task_generation(self.id)
        return wanted is not None and plan.generation == generation and plan.restart == wanted.restart

    async def _stop(self) -> None:
        self._run += 1
        self.fenced = False
        self._cancel_attempt()
        self._restarts, self._creation_error, self._metrics = RestartPolicy(), None, None
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

    def state_reported(self, run: int, state: State, error: Exception | None) -> None:
        """Process a report of the task's state."""
        # Ignore the end of a task that was stopped or replaced.
        if run != self._run or isinstance(error, SupersededError):
            return
        if state is State.FAILED and isinstance(error, ProducerFencedError) and self._on_fenced(self.id):
            self.fenced = True
        else:
            self._parts.report(self.id, state, error=error, version=self._version)

    def _wrote_to(self, topics: Collection[str]) -> None:
        # This runs on the task's thread, after each commit. The last commit of a deleted connector is not recorded.
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
        """Forward the task's state to the event loop."""
        del task
        self._work.post(self._work.state_reported, self._run, state, error)
