"""The work that the group assigned to this worker.

    group ──assignment──> this process's work ──> LocalWork, which follows the config topic

If the existing connectors and tasks differ from the assigned ones, the group must rebalance.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from fencepost.api.errors import FencepostError
from fencepost.config.ids import ConnectorTaskId
from fencepost.config.worker_config import ExactlyOnceSourceSupport
from fencepost.herder.core.assignor import Unit, Work
from fencepost.herder.core.group_topics import GroupTopics, judge_topics
from fencepost.herder.core.mixed_group import judge_group
from fencepost.herder.distributed.assignor_leader import ConfiguredWork
from fencepost.herder.distributed.group_checks import Fencing, GroupChecks
from fencepost.herder.distributed.group_parts import GroupParts
from fencepost.herder.distributed.leadership import Leadership
from fencepost.herder.distributed.readiness import Standing
from fencepost.herder.errors import MixedGroupError
from fencepost.herder.work.local_work import LocalWork
from fencepost.herder.work.parts import delivers_at_least_once
from fencepost.herder.work.task_work import TaskWork
from fencepost.kafka.group.membership import Membership
from fencepost.runtime.state import State
from fencepost.runtime.task.run import NoChecks, StartChecks
from fencepost.storage.configs.state import (
    ClusterConfigState,
    ConfigEvent,
    ConnectorConfigRemoval,
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
        """`failed` is called if this worker cannot be a member of the group."""
        self._parts = parts
        self._leadership = leadership
        self._fencing = fencing
        self._configure_tasks = configure_tasks
        self._rejoin = rejoin
        self._failed = failed
        self._assigned: Work = frozenset()
        self._held = False
        self._leader = ""
        self.local = LocalWork(parts, self, new_task=self._new_task, configure_tasks=configure_tasks)
        # The connectors and tasks in the group's last assignment, as far as this worker knows.
        self._shared_out: dict[str, int] = {}
        self._rebalance_due = False
        self._catching_up: asyncio.Task[None] | None = None
        self._closed = False
        # The times of recent fencings of tasks, in seconds of the loop's clock.
        self._fenced: dict[ConnectorTaskId, list[float]] = {}

    def _new_task(self, task: ConnectorTaskId) -> TaskWork:
        return TaskWork(task, self._parts, self._new_checks, self._on_fenced)

    def _new_checks(self, is_current: Callable[[], bool]) -> StartChecks:
        if self._parts.config.exactly_once_source_support is not ExactlyOnceSourceSupport.ENABLED:
            return NoChecks()
        return GroupChecks(self._parts, self._fencing, is_current)

    def has(self, unit: Unit) -> bool:
        """Whether a connector or task is assigned to this worker."""
        return unit in self._assigned

    def held(self, connector: str) -> str | None:
        """Why tasks of a connector must not be started: the group is mixed."""
        if self._parts.topics.holds_tasks:
            return self._parts.topics.advice
        mixed = self._parts.mixed
        return mixed.advice if mixed.holds_tasks and not delivers_at_least_once(self._parts.state, connector) else None

    @property
    def rebalance_due(self) -> bool:
        """Whether the connectors and tasks differ from the group's last assignment."""
        return self._rebalance_due

    def configured(self) -> ConfiguredWork:
        """Return the work for the leader to assign. Called on the member's thread; notifies the loop."""
        state = self._parts.state
        counts = task_counts(state)
        with suppress(RuntimeError):  # the loop is closed
            self._parts.loop.call_soon_threadsafe(self._on_shared_out, counts)
        return ConfiguredWork(state.offset, counts)

    def _on_shared_out(self, counts: dict[str, int]) -> None:
        self._shared_out = counts

    async def stop(self) -> None:
        """Stop everything, and return once it has stopped."""
        if self._catching_up is not None:
            self._catching_up.cancel()
        # Work that was revoked before may still be stopping.
        await self._give_up(self._assigned | self.local.units)

    async def close(self) -> None:
        """Stop everything for good: later assignments are not started."""
        self._closed = True
        await self.stop()

    # -- notifications of the group ------------------------------------------------------------------------------------

    async def on_revoked(self, connectors: tuple[str, ...], tasks: tuple[ConnectorTaskId, ...]) -> None:
        """Stop these, and return once they have stopped."""
        await self._give_up(frozenset(connectors) | frozenset(tasks))

    def on_assigned(self, membership: Membership) -> None:
        """Run the assignment, once the config topic is read up to the leader's offset."""
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
        topics = self._judge_topics(membership)
        found = judge_group(self._parts.config.exactly_once_source_support, membership.assignment.supports, topics)
        self._parts.mixed = found
        self._parts.metrics.judged(found)
        if found.disabled and found.disabled != former.disabled:
            _log.warning("%s", found.advice)
        elif former.disabled and not found.disabled:
            _log.info("All members of the group are set for exactly-once delivery again")

    def _judge_topics(self, membership: Membership) -> GroupTopics:
        former = self._parts.topics
        found = self._parts.topics = judge_topics(former, membership.assignment)
        if found.advice and found.advice != former.advice:
            _log.warning("%s", found.advice)
        elif former.advice and not found.advice:
            _log.info("All members of the group use the same internal topics again")
        return found

    async def on_lost(self, reason: str) -> None:
        """Stop everything, and return once it has stopped."""
        _log.debug("Everything stops: %s", reason)
        self._parts.generation = None
        self._parts.readiness.become(Standing.JOINING)
        self._parts.metrics.assigned(None)
        self._leadership.lost()
        await self.stop()

    def on_failed(self, error: Exception) -> None:
        """Report that this worker is not a member any more."""
        self._parts.readiness.become(Standing.CLOSED)
        self._leadership.lost()
        self._failed(error)

    async def _catch_up(self, membership: Membership) -> None:
        while True:
            try:
                await self._parts.read_config_topic()
            except FencepostError as error:
                _log.warning("The config topic cannot be read; retrying: %s", error)
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
        given = frozenset(assignment.connectors) | frozenset(assignment.tasks)
        if not self._parts.topics.knows_connectors:
            self._refuse(given)
            given = frozenset()
        former, self._assigned = self._assigned, given
        if self._assigned != former:
            _log.info(
            "Generation %d: this worker runs %d connector(s) and %d task(s)",
            membership.generation, len(assignment.connectors), len(assignment.tasks),
        )  # fmt: skip
        # Kept work follows the config topic; only the holding of tasks depends on the group.
        held, self._held = self._held, self._parts.mixed.holds_tasks or self._parts.topics.holds_tasks
        for unit in former ^ self._assigned if held == self._held else former | self._assigned:
            self.local.plan(unit)
        for work in self.local.tasks:
            if work.fenced and self.has(work.id):
                self.local.restart(work.id, announce=True)
        if assignment.leader != self._leader:
            # The former leader may have died during an operation.
            self._leader = assignment.leader
            self._finish_stop(*self._parts.state.connectors())
        if membership.leader and self._parts.topics.knows_connectors:
            self._forget_statuses()
        self._share_out_again()

    def _refuse(self, units: Work) -> None:
        """Report that assigned work cannot run here: this worker follows another config topic than the leader."""
        for unit in units:
            error = MixedGroupError(unit, self._parts.topics.advice)
            self._parts.report(unit, State.UNASSIGNED, error=error)

    def _on_fenced(self, task: ConnectorTaskId) -> bool:
        """Find out by a rebalance whether a fenced task still belongs to this worker; if it does, it restarts.

        A worker that was disconnected from the group may fence a task's owner before it learns that it lost the task.
        Returns False for a task that is fenced repeatedly: another client uses its transactional id.
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
        await self.local.give_up(units)

    # -- notifications of the config topic -----------------------------------------------------------------------------

    def on_config(self, event: ConfigEvent) -> None:
        """Apply a change of the config topic, except a session key or a logger level."""
        self.local.on_config(event)
        match event:
            case ConnectorConfigRemoval(name) if self._leadership.leads or self.has(name):
                self._parts.statuses.delete_connector(name)
            # A connector that was resumed before its stop was read keeps running, and has lost its tasks.
            case TaskConfigUpdate(name, tasks) if tasks:
                self._finish_stop(name)
            case TargetStateChange(name):
                self._finish_stop(name)
        self._share_out_again()

    def _finish_stop(self, *connectors: str) -> None:
        for name in connectors if self._parts.topics.knows_connectors else ():
            if self._parts.state.entry(name).half_stopped:
                self._configure_tasks(name)

    def _forget_statuses(self) -> None:
        """Remove the statuses of deleted connectors and tasks.

        Only after the group has rebalanced without them: Apache's workers report revoked work as UNASSIGNED, and show
        every status, also of a deleted task.
        """
        statuses = self._parts.statuses
        connectors, tasks = statuses.table.others(task_counts(self._parts.state))
        for name in connectors:
            statuses.delete_connector(name)
        for task in tasks:
            statuses.delete_task(task)

    def _share_out_again(self) -> None:
        """Request a rebalance if the work changed since the last assignment."""
        counts = task_counts(self._parts.state)
        if self._leadership.membership is not None and counts != self._shared_out:
            self._shared_out = counts
            self._rebalance_due = True
            self._rejoin()


def task_counts(state: ClusterConfigState) -> dict[str, int]:
    """Return the number of tasks of each connector."""
    return {name: len(entry.tasks) for name, entry in state.entries.items() if entry.config is not None}
