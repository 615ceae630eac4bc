"""The work that the group assigned to this worker.

group, config topic, tasks ──events──> decide ──commands──> LocalWork, group member, statuses
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

from fencepost.api.allowed_paths import PathsOfWorker
from fencepost.api.errors import FencepostError
from fencepost.config.ids import ConnectorTaskId
from fencepost.config.worker_config import ExactlyOnceSourceSupport
from fencepost.herder.core.assignor import Unit, Work
from fencepost.herder.core.group_decisions import (
    Assigned,
    Command,
    ConfigChanged,
    ConfigureTasks,
    DeleteStatuses,
    Elected,
    EndWorker,
    Event,
    FollowConfig,
    ForgetStatuses,
    GroupState,
    HerderCommand,
    PlanUnits,
    Rejoin,
    RestartFenced,
    Revoked,
    TaskFenced,
    decide,
)
from fencepost.herder.core.group_topics import GroupTopics, judge_topics
from fencepost.herder.core.mixed_group import judge_group
from fencepost.herder.distributed.assignor_leader import ConfiguredWork
from fencepost.herder.distributed.group_fencing import GroupFencing
from fencepost.herder.distributed.group_metrics import GroupMetrics
from fencepost.herder.distributed.group_view import GroupView
from fencepost.herder.distributed.leadership import Leadership
from fencepost.herder.distributed.readiness import Readiness, Standing
from fencepost.herder.errors import MixedGroupError
from fencepost.herder.work.local_work import LocalWork
from fencepost.herder.work.parts import HerderParts, delivers_at_least_once
from fencepost.herder.work.start_checks import FencingChecks
from fencepost.herder.work.task_work import TaskWork
from fencepost.kafka.group.membership import Membership
from fencepost.runtime.state import State
from fencepost.runtime.task.run import NoChecks, StartChecks
from fencepost.storage.configs.state import ConfigEvent

_log: Final = logging.getLogger(__name__)

_READ_AGAIN_SECONDS: Final = 0.5


class GroupWork:
    """Passes events of the group and the config topic to `decide`, and carries out its commands.

    The object is the listener of the group member and of the config store. `carry_out` gives the herder a command.
    """

    def __init__(
        self,
        parts: HerderParts,
        view: GroupView,
        *,
        readiness: Readiness,
        metrics: GroupMetrics,
        leadership: Leadership,
        fencing: GroupFencing,
        carry_out: Callable[[HerderCommand], None],
    ) -> None:
        self._parts = parts
        self._view = view
        self._readiness = readiness
        self._metrics = metrics
        self._give_herder = carry_out
        self._leadership = leadership
        self._fencing = fencing
        self._state = GroupState()
        self.local = LocalWork(parts, self, new_task=self._new_task, configure_tasks=self._configure_tasks)
        self._catching_up: asyncio.Task[None] | None = None
        self._closed = False

    def _new_task(self, task: ConnectorTaskId) -> TaskWork:
        return TaskWork(task, self._parts, self._new_checks, self._on_fenced)

    def _new_checks(self, is_current: Callable[[], bool]) -> StartChecks:
        if self._parts.config.exactly_once_source_support is not ExactlyOnceSourceSupport.ENABLED:
            return NoChecks()
        return FencingChecks(self._parts, self._fencing, is_current)

    def has(self, unit: Unit) -> bool:
        """Whether a connector or task is assigned to this worker."""
        return unit in self._state.assigned

    def held(self, connector: str) -> str | None:
        """Why tasks of a connector must not be started in a mixed group; None if they may start."""
        if self._view.topics.holds_tasks:
            return self._view.topics.advice
        mixed = self._view.mixed
        return mixed.advice if mixed.holds_tasks and not delivers_at_least_once(self._parts.state, connector) else None

    @property
    def rebalance_due(self) -> bool:
        """Whether the connectors and tasks differ from the group's last assignment."""
        return self._state.rebalance_due

    def configured(self) -> ConfiguredWork:
        """Return the work that the leader must assign.

        Called on the member's thread; reports `Elected` to the event loop.
        """
        state = self._parts.state
        counts = state.task_counts
        with suppress(RuntimeError):  # the loop is closed
            self._parts.loop.call_soon_threadsafe(self._on, Elected(counts))
        return ConfiguredWork(state.offset, counts)

    def _on(self, event: Event) -> Sequence[Command]:
        self._state, commands = decide(self._state, event)
        for command in commands:
            self._carry_out(command)
        return commands

    def _carry_out(self, command: Command) -> None:
        match command:
            case PlanUnits(units):
                self.local.plan(*units)
            case FollowConfig(event):
                self.local.on_config(event)
            case RestartFenced():
                for work in list(self.local.tasks):
                    if work.fenced and self.has(work.id):
                        self.local.restart(work.id, announce=True)
            case ConfigureTasks() | Rejoin():
                self._give_herder(command)
            case DeleteStatuses(connector):
                self._parts.statuses.delete_connector(connector)
            case ForgetStatuses():
                self._forget_statuses()

    def _configure_tasks(self, connector: str) -> None:
        self._give_herder(ConfigureTasks(connector))

    async def stop(self) -> None:
        """Stop everything, and return when it has stopped."""
        if self._catching_up is not None:
            self._catching_up.cancel()
        # Work that was revoked before may still be stopping.
        await self._revoke(self._state.assigned | self.local.units)

    async def close(self) -> None:
        """Stop everything for good: later assignments are ignored."""
        self._closed = True
        await self.stop()

    # -- notifications of the group ------------------------------------------------------------------------------------

    async def on_revoked(self, connectors: tuple[str, ...], tasks: tuple[ConnectorTaskId, ...]) -> None:
        """Stop the revoked connectors and tasks, and return when they have stopped."""
        await self._revoke(frozenset(connectors) | frozenset(tasks))

    def on_assigned(self, membership: Membership) -> None:
        """Run the assignment as soon as the config topic is read up to the leader's offset."""
        if self._closed:
            return
        self._view.generation = membership.generation
        self._metrics.assigned(membership)
        self._judge(membership)
        self._leadership.assigned(membership)
        if self._catching_up is not None:
            self._catching_up.cancel()
            self._catching_up = None
        if membership.assignment.failed or self._parts.state.offset < membership.assignment.config_offset:
            self._readiness.become(Standing.JOINING)
            self._catching_up = asyncio.ensure_future(self._catch_up(membership))
        else:
            self._take(membership)

    def _judge(self, membership: Membership) -> None:
        former = self._view.mixed
        self._view.members = tuple(url for url, _ in membership.assignment.supports)
        self._judge_files(membership)
        topics = self._judge_topics(membership)
        found = judge_group(self._parts.config.exactly_once_source_support, membership.assignment.supports, topics)
        self._view.mixed = found
        self._metrics.judged(found)
        if found.disabled and found.disabled != former.disabled:
            _log.warning("%s", found.advice)
        elif former.disabled and not found.disabled:
            _log.info("All members of the group are set for exactly-once delivery again")

    def _judge_files(self, membership: Membership) -> None:
        view = self._view
        view.other_files = tuple(
            PathsOfWorker(url, files.directory, files.paths)
            for url, files in membership.assignment.files
            if files != view.files
        )

    def _judge_topics(self, membership: Membership) -> GroupTopics:
        former = self._view.topics
        found = self._view.topics = judge_topics(former, membership.assignment)
        if found.advice and found.advice != former.advice:
            _log.warning("%s", found.advice)
        elif former.advice and not found.advice:
            _log.info("All members of the group use the same internal topics again")
        return found

    async def on_lost(self, reason: str) -> None:
        """Stop everything, and return when it has stopped."""
        _log.debug("All connectors and tasks of this worker stop: %s", reason)
        self._view.generation = None
        self._readiness.become(Standing.JOINING)
        self._metrics.assigned(None)
        self._leadership.lost()
        await self.stop()

    def on_failed(self, error: Exception) -> None:
        """Report that this worker is not a member any longer."""
        self._readiness.become(Standing.CLOSED)
        self._leadership.lost()
        self._give_herder(EndWorker(error))

    async def _catch_up(self, membership: Membership) -> None:
        while True:
            try:
                await self._parts.read_config_topic()
            except FencepostError as error:
                _log.warning("The config topic cannot be read; retrying: %s", error)
                self._readiness.wake_waiters()
                await asyncio.sleep(_READ_AGAIN_SECONDS)
            else:
                break
        if membership.assignment.failed:
            self._give_herder(Rejoin())
        else:
            self._take(membership)

    def _take(self, membership: Membership) -> None:
        assignment = membership.assignment
        self._readiness.become(Standing.MEMBER)
        work = frozenset(assignment.connectors) | frozenset(assignment.tasks)
        topics = self._view.topics
        if not topics.knows_connectors:
            self._refuse(work)
            work = frozenset()
        if work != self._state.assigned:
            _log.info(
            "Generation %d: this worker runs %d connector(s) and %d task(s)",
            membership.generation, len(assignment.connectors), len(assignment.tasks),
        )  # fmt: skip
        held, config = self._view.mixed.holds_tasks or topics.holds_tasks, self._parts.state
        self._on(Assigned(work, assignment.leader, membership.leader, held, config, topics.knows_connectors))

    def _refuse(self, units: Work) -> None:
        """Report that assigned work cannot run here: this worker follows another config topic than the leader."""
        for unit in units:
            error = MixedGroupError(unit, self._view.topics.advice)
            self._parts.report(unit, State.UNASSIGNED, error=error)

    def _on_fenced(self, task: ConnectorTaskId) -> bool:
        """Return whether a rebalance will decide who owns a fenced task.

        In that case, the task restarts here only when the rebalance has assigned it to this worker again.
        """
        return bool(self._on(TaskFenced(task, self._parts.loop.time())))

    async def _revoke(self, units: Work) -> None:
        self._on(Revoked(units))
        await self.local.revoke(units)

    # -- notifications of the config topic -----------------------------------------------------------------------------

    def on_config(self, event: ConfigEvent) -> None:
        """Apply a change of the config topic, except a session key or a logger level."""
        leadership, topics = self._leadership, self._view.topics
        self._on(
            ConfigChanged(
                event,
                self._parts.state,
                member=leadership.membership is not None,
                privileged=leadership.leads,
                knows_connectors=topics.knows_connectors,
            )
        )

    def _forget_statuses(self) -> None:
        statuses = self._parts.statuses
        connectors, tasks = statuses.table.others(self._parts.state.task_counts)
        for name in connectors:
            statuses.delete_connector(name)
        for task in tasks:
            statuses.delete_task(task)
