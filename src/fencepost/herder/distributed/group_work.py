"""What this worker runs: the connectors and tasks that the group gave it, as the config topic says they are to run.

    assignment ──┐
                 ├──> a plan for each connector and task ──> ConnectorWork, TaskWork
    config topic ┘

Whatever changes, the plans of those it concerns are made anew. Where the connectors and tasks that there are differ
from those that were shared out, the group is to share out again.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Final

from fencepost.api.errors import FencepostError
from fencepost.config.ids import ConnectorTaskId
from fencepost.herder.core.assignor import Unit, Work
from fencepost.herder.core.mixed_group import judge_group
from fencepost.herder.distributed.assignor_leader import ConfiguredWork
from fencepost.herder.distributed.connector_work import ConnectorPlan, ConnectorWork
from fencepost.herder.distributed.group_parts import GroupParts
from fencepost.herder.distributed.leadership import Leadership
from fencepost.herder.distributed.readiness import Standing
from fencepost.herder.distributed.task_work import Fencing, TaskPlan, TaskWork
from fencepost.herder.requests.restart_plan import restart_plan
from fencepost.kafka.group.membership import Membership
from fencepost.runtime.task.source_task import TransactionStatus
from fencepost.storage.configs.codec import RestartRequest, TargetState
from fencepost.storage.configs.state import (
    ClusterConfigState,
    ConfigEvent,
    ConnectorConfigRemoval,
    ConnectorConfigUpdate,
    TargetStateChange,
    TaskConfigUpdate,
)

_log: Final = logging.getLogger(__name__)

_READ_AGAIN_SECONDS: Final = 0.5
_FENCED_SECONDS: Final = 60.0
_MOST_FENCED: Final = 3


class GroupWork:
    """Follows assignments and the config topic; the group member's listener, and the config store's."""

    def __init__(
        self,
        parts: GroupParts,
        leadership: Leadership,
        fencing: Fencing,
        *,
        configure_tasks: Callable[[str], None],
        rejoin: Callable[[], None],
        failed: Callable[[Exception], None],
    ) -> None:
        """`failed` is told that this worker cannot be a member of the group."""
        self._parts = parts
        self._leadership = leadership
        self._fencing = fencing
        self._configure_tasks = configure_tasks
        self._rejoin = rejoin
        self._failed = failed
        self._assigned: Work = frozenset()
        self._held = False
        self._leader = ""
        self._connectors: dict[str, ConnectorWork] = {}
        self._tasks: dict[ConnectorTaskId, TaskWork] = {}
        self._versions: Counter[str] = Counter()
        self._restarts: Counter[Unit] = Counter()
        # What the group last shared out, as far as this worker knows.
        self._shared_out: dict[str, int] = {}
        self._rebalance_due = False
        self._catching_up: asyncio.Task[None] | None = None
        self._closed = False
        # When tasks were fenced of late, in seconds of the loop's clock.
        self._fenced: dict[ConnectorTaskId, list[float]] = {}

    def find(self, connector: str) -> ConnectorWork | None:
        """Return a connector that this worker was given."""
        return self._connectors.get(connector) if connector in self._assigned else None

    def has(self, unit: Unit) -> bool:
        """Whether this worker was given a connector or task."""
        return unit in self._assigned

    @property
    def rebalance_due(self) -> bool:
        """Whether there are other connectors and tasks than the group has shared out."""
        return self._rebalance_due

    def transactions(self, connector: str) -> dict[ConnectorTaskId, TransactionStatus]:
        """Return what the tasks of a connector have open that run here."""
        found = ((task, self._tasks[task].transaction) for task in self._tasks_of(connector))
        return {task: status for task, status in found if status is not None}

    def configured(self) -> ConfiguredWork:
        """Return what a leader is to share out. On the member's thread, which tells the loop of it."""
        state = self._parts.state
        counts = task_counts(state)
        with suppress(RuntimeError):  # the loop is closed
            self._parts.loop.call_soon_threadsafe(self._on_shared_out, counts)
        return ConfiguredWork(state.offset, counts)

    def _on_shared_out(self, counts: dict[str, int]) -> None:
        self._shared_out = counts

    def restart(self, unit: Unit, *, announce: bool) -> None:
        """Start a connector or task of this worker again; `announce` shows it as RESTARTING.

        It has all its automatic restarts before it again: whoever asks for it has mended something, perhaps.
        """
        work = self._find_work(unit)
        if work is not None:
            work.announce_restart = announce
        if isinstance(work, ConnectorWork):
            work.forget_failures()
        self._start_again(unit)

    def _start_again(self, unit: Unit) -> None:
        self._restarts[unit] += 1
        self._plan(unit)

    async def stop(self) -> None:
        """Stop everything, and return once it stands still."""
        if self._catching_up is not None:
            self._catching_up.cancel()
        # What was taken away before may still be coming to a stand.
        await self._give_up(self._assigned.union(self._connectors, self._tasks))

    async def close(self) -> None:
        """Stop everything for good: what the group shares out meanwhile is not begun."""
        self._closed = True
        await self.stop()

    # -- what the group tells ------------------------------------------------------------------------------------

    async def on_revoked(self, connectors: tuple[str, ...], tasks: tuple[ConnectorTaskId, ...]) -> None:
        """Stop these, and return once they stand still."""
        await self._give_up(frozenset(connectors) | frozenset(tasks))

    def on_assigned(self, membership: Membership) -> None:
        """Run what the assignment says, when the config topic is read as far as the leader had read it."""
        if self._closed:
            return
        self._parts.generation = membership.generation
        self._parts.metrics.assigned(membership)
        self._judge(membership)
        self._leadership.assigned(membership)
        if self._catching_up is not None:
            self._catching_up.cancel()
            self._catching_up = None
        if membership.assignment.failed or self._parts.state.offset < membership.assignment.config_offset:
            self._parts.readiness.become(Standing.JOINING)
            self._catching_up = asyncio.ensure_future(self._catch_up(membership))
        else:
            self._take(membership)

    def _judge(self, membership: Membership) -> None:
        former = self._parts.mixed
        found = judge_group(self._parts.config.exactly_once_source_support, membership.assignment.supports)
        self._parts.mixed = found
        self._parts.metrics.judged(found)
        if found.breaking and found.breaking != former.breaking:
            _log.warning("%s", found.advice)
        elif former.breaking and not found.breaking:
            _log.info("All members of the group are set for exactly-once delivery again")

    async def on_lost(self, reason: str) -> None:
        """Stop everything, and return once it stands still."""
        _log.debug("Everything stops: %s", reason)
        self._parts.generation = None
        self._parts.readiness.become(Standing.JOINING)
        self._parts.metrics.assigned(None)
        self._leadership.lost()
        await self.stop()

    def on_failed(self, error: Exception) -> None:
        """Pass on that this worker is no member any more."""
        self._parts.readiness.become(Standing.CLOSED)
        self._leadership.lost()
        self._failed(error)

    async def _catch_up(self, membership: Membership) -> None:
        while True:
            try:
                await self._parts.read_config_topic()
            except FencepostError as error:
                _log.warning("The config topic cannot be read, which is tried again: %s", error)
                self._parts.readiness.look_again()
                await asyncio.sleep(_READ_AGAIN_SECONDS)
            else:
                break
        if membership.assignment.failed:
            self._rejoin()
        else:
            self._take(membership)

    def _take(self, membership: Membership) -> None:
        assignment = membership.assignment
        self._parts.readiness.become(Standing.MEMBER)
        if not membership.leader:
            self._shared_out = task_counts(self._parts.state)
        self._rebalance_due = False
        former, self._assigned = self._assigned, frozenset(assignment.connectors) | frozenset(assignment.tasks)
        if self._assigned != former:
            _log.info(
            "Generation %d: this worker runs %d connector(s) and %d task(s)",
            membership.generation, len(assignment.connectors), len(assignment.tasks),
        )  # fmt: skip
        # What this worker keeps follows the config topic; only whether tasks are held comes from the group.
        held, self._held = self._held, self._parts.mixed.holds_tasks
        for unit in former ^ self._assigned if held == self._held else former | self._assigned:
            self._plan(unit)
        for work in self._tasks.values():
            if work.fenced and self.has(work.id):
                self.restart(work.id, announce=True)
        if assignment.leader != self._leader:
            # The former one may have died in the midst of something.
            self._leader = assignment.leader
            self._finish_stop(*self._parts.state.connectors())
        if membership.leader:
            self._forget_statuses()
        self._share_out_again()

    def _on_fenced(self, task: ConnectorTaskId) -> bool:
        """Have the group say whether a task that was fenced is still this worker's; if it is, it starts again.

        A worker that was cut off from the group may fence the owner of a task before it learns that it is none. False
        for a task that is fenced again and again: somebody else uses its transactional id.
        """
        now = self._parts.loop.time()
        lately = [moment for moment in self._fenced.get(task, ()) if now < moment + _FENCED_SECONDS]
        self._fenced[task] = [*lately, now]
        if len(lately) >= _MOST_FENCED:
            return False
        self._rejoin()
        return True

    async def _give_up(self, units: Work) -> None:
        self._assigned -= units
        for unit in units:
            self._plan(unit)
        works = [self._find_work(unit) for unit in units]
        await asyncio.gather(*(work.settled() for work in works if work is not None))
        for unit in units:
            self._forget(unit)

    # -- what the config topic tells -----------------------------------------------------------------------------

    def on_config(self, event: ConfigEvent) -> None:
        """Follow a change of the config topic, other than one of a session key or of a logger."""
        match event:
            case ConnectorConfigUpdate(name):
                self._versions[name] += 1
                self._plan_all(name, ())
            case ConnectorConfigRemoval(name):
                self._plan_all(name, self._tasks_of(name))
                if self._leadership.leads or self.has(name):
                    self._parts.statuses.delete_connector(name)
            case TaskConfigUpdate(name, tasks):
                self._plan_all(name, {*tasks, *self._tasks_of(name)}, connector=False)
                if tasks:
                    self._finish_stop(name)
            case TargetStateChange(name):
                # A task that this worker was given while the connector was stopped is not among its own yet.
                self._plan_all(name, {*self._parts.state.tasks(name), *self._tasks_of(name)})
                # A connector that was resumed before it was seen to be stopped goes on, and has lost its tasks.
                self._finish_stop(name)
            case RestartRequest():
                self._restart_as_asked(event)
        self._share_out_again()

    def _finish_stop(self, *connectors: str) -> None:
        for name in connectors:
            if self._parts.state.entry(name).half_stopped:
                self._configure_tasks(name)

    def _restart_as_asked(self, request: RestartRequest) -> None:
        plan = restart_plan(request, self._parts.state, self._parts.statuses.table)
        for unit in plan:
            if self.has(unit):
                self.restart(unit, announce=True)

    def _forget_statuses(self) -> None:
        """Remove the statuses of connectors and tasks that there are not any more.

        Not before the group has shared out its work without them: Apache's workers report what they give up as
        UNASSIGNED, and show whatever a status says, of a task that is gone as well.
        """
        statuses = self._parts.statuses
        connectors, tasks = statuses.table.others(task_counts(self._parts.state))
        for name in connectors:
            statuses.delete_connector(name)
        for task in tasks:
            statuses.delete_task(task)

    def _share_out_again(self) -> None:
        """Have the group share out what there is, if it is not what was shared out."""
        counts = task_counts(self._parts.state)
        if self._leadership.membership is not None and counts != self._shared_out:
            self._shared_out = counts
            self._rebalance_due = True
            self._rejoin()

    # -- plans ---------------------------------------------------------------------------------------------------

    def _tasks_of(self, connector: str) -> set[ConnectorTaskId]:
        return {task for task in self._tasks if task.connector == connector}

    def _plan_all(self, name: str, tasks: Iterable[ConnectorTaskId], *, connector: bool = True) -> None:
        if connector:
            self._plan(name)
        for task in tasks:
            self._plan(task)

    def _plan(self, unit: Unit) -> None:
        if isinstance(unit, ConnectorTaskId):
            plan = self._task_plan(unit)
            if unit not in self._tasks and plan is not None:
                self._tasks[unit] = TaskWork(unit, self._parts, self._fencing, self._on_fenced)
            if unit in self._tasks:
                self._tasks[unit].want(plan)
        else:
            wanted = self._connector_plan(unit)
            if unit not in self._connectors and wanted is not None:
                self._connectors[unit] = ConnectorWork(unit, self._parts, self._configure_tasks, self._start_again)
            if unit in self._connectors:
                self._connectors[unit].want(wanted)
        self._forget(unit)

    def _connector_plan(self, name: str) -> ConnectorPlan | None:
        state = self._parts.state
        if not (self.has(name) and state.contains(name)):
            return None
        target = state.target_state(name) or TargetState.STARTED
        return ConnectorPlan(self._versions[name], target, self._restarts[name])

    def _task_plan(self, task: ConnectorTaskId) -> TaskPlan | None:
        state = self._parts.state
        config = state.task_config(task)
        target = state.target_state(task.connector)
        if config is None or not self.has(task) or target is TargetState.STOPPED:
            return None
        generation = state.task_generation(task)
        held = self._parts.mixed.holds_tasks and not self._parts.at_least_once(task.connector)
        return TaskPlan(generation, config, target is TargetState.PAUSED, self._restarts[task], held)

    def _find_work(self, unit: Unit) -> ConnectorWork | TaskWork | None:
        return self._tasks.get(unit) if isinstance(unit, ConnectorTaskId) else self._connectors.get(unit)

    def _forget(self, unit: Unit) -> None:
        work = self._find_work(unit)
        if work is not None and work.gone:
            (self._tasks if isinstance(unit, ConnectorTaskId) else self._connectors).pop(unit)  # type: ignore[arg-type]


def task_counts(state: ClusterConfigState) -> dict[str, int]:
    """Return how many tasks each connector has."""
    return {name: len(entry.tasks) for name, entry in state.entries.items() if entry.config is not None}
