"""Decides what a worker does about an event of its group: events in, commands out. Pure.

    Assigned, Revoked, Elected ──┐
    ConfigChanged              ──┼──> decide ──> GroupState, and commands: PlanUnits, RestartFenced, ConfigureTasks,
    TaskFenced                 ──┘               DeleteStatuses, ForgetStatuses, Rejoin

If the connectors and tasks differ from the last assignment, the worker requests a rebalance.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from fencepost.config.ids import ConnectorTaskId
from fencepost.herder.core.assignor import NOTHING, Work
from fencepost.storage.configs.state import (
    ClusterConfigState,
    ConfigEvent,
    ConnectorConfigRemoval,
    TargetStateChange,
    TaskConfigUpdate,
)

FENCED_SECONDS: Final = 60.0
MOST_FENCED: Final = 3


@dataclass(frozen=True, slots=True)
class GroupState:
    """A worker's knowledge of its group.

    `assigned`: the connectors and tasks of this worker. `distributed`: the number of tasks of each connector in the
    group's last assignment, as far as this worker knows. `rebalance_due`: the connectors or tasks have changed since
    that assignment. `fenced`: for each task, the times in seconds at which it lost its transactional id, within the
    last FENCED_SECONDS.
    """

    assigned: Work = NOTHING
    leader: str = ""
    held: bool = False
    distributed: Mapping[str, int] = field(default_factory=dict)
    rebalance_due: bool = False
    fenced: Mapping[ConnectorTaskId, tuple[float, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Assigned:
    """The worker has an assignment, and has read the config topic up to the leader's offset.

    `held`: tasks must not start, because the group is mixed; `knows_connectors`: the worker follows the leader's config
    topic.
    """

    work: Work
    leader: str
    leads: bool
    held: bool
    config: ClusterConfigState
    knows_connectors: bool = True


@dataclass(frozen=True, slots=True)
class Revoked:
    """Connectors and tasks were revoked."""

    work: Work


@dataclass(frozen=True, slots=True)
class Elected:
    """The worker computed the assignment of the group, as its leader."""

    distributed: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class ConfigChanged:
    """A record of the config topic changed the state to `config`.

    `member`: this worker is in its group; `privileged`: this worker may write as the leader; `knows_connectors`: as in
    `Assigned`.
    """

    event: ConfigEvent
    config: ClusterConfigState
    member: bool
    privileged: bool
    knows_connectors: bool = True


@dataclass(frozen=True, slots=True)
class TaskFenced:
    """A task of this worker lost its transactional id."""

    task: ConnectorTaskId
    now: float


Event = Assigned | Revoked | Elected | ConfigChanged | TaskFenced


@dataclass(frozen=True, slots=True)
class PlanUnits:
    """Update the plans of connectors and tasks."""

    units: Work


@dataclass(frozen=True, slots=True)
class FollowConfig:
    """Update the plans that are affected by a change of the configurations."""

    event: ConfigEvent


@dataclass(frozen=True, slots=True)
class RestartFenced:
    """Restart fenced tasks that are still assigned to this worker."""


@dataclass(frozen=True, slots=True)
class ConfigureTasks:
    """Write the task configurations that a connector returns; none if the connector is stopped."""

    connector: str


@dataclass(frozen=True, slots=True)
class DeleteStatuses:
    """Delete the statuses of a connector that was deleted."""

    connector: str


@dataclass(frozen=True, slots=True)
class ForgetStatuses:
    """Delete the statuses of deleted connectors and tasks.

    The deletion must wait until a rebalance has removed these connectors and tasks: until then, Apache's workers report
    them as UNASSIGNED when they are revoked. Besides, Apache's workers show every status, even a deleted task's.
    """


@dataclass(frozen=True, slots=True)
class Rejoin:
    """Request a rebalance."""


@dataclass(frozen=True, slots=True)
class EndWorker:
    """End this worker, because it cannot be a member of its group."""

    error: Exception


Command = PlanUnits | FollowConfig | RestartFenced | ConfigureTasks | DeleteStatuses | ForgetStatuses | Rejoin
HerderCommand = ConfigureTasks | Rejoin | EndWorker
"""Commands that the herder itself must carry out, because its parts cannot."""
Decision = tuple[GroupState, tuple[Command, ...]]


def decide(state: GroupState, event: Event) -> Decision:
    """Return the state after an event, and the commands to carry out, in this order."""
    match event:
        case Assigned():
            return _assigned(state, event)
        case Revoked(work):
            return replace(state, assigned=state.assigned - work), ()
        case Elected(distributed):
            return replace(state, distributed=distributed), ()
        case ConfigChanged():
            return _config_changed(state, event)
        case TaskFenced(task, now):
            return _task_fenced(state, task, now)


def _assigned(before: GroupState, event: Assigned) -> Decision:
    state = replace(
        before,
        assigned=event.work,
        leader=event.leader,
        held=event.held,
        distributed=before.distributed if event.leads else event.config.task_counts,
        rebalance_due=False,
    )
    # The plans of work that this worker keeps follow the config topic. They change here only if the group starts or
    # stops holding tasks.
    units = before.assigned ^ event.work if before.held == event.held else before.assigned | event.work
    commands: list[Command] = [PlanUnits(units), RestartFenced()]
    if event.leader != before.leader and event.knows_connectors:
        # A leader writes a stop as two records. The previous leader may have died between them.
        commands += _half_stops(event.config, *event.config.connectors())
    if event.leads and event.knows_connectors:
        commands.append(ForgetStatuses())
    state, rebalance = _rebalance(state, event.config)
    return state, (*commands, *rebalance)


def _config_changed(state: GroupState, changed: ConfigChanged) -> Decision:
    commands: list[Command] = [FollowConfig(changed.event)]
    match changed.event:
        case ConnectorConfigRemoval(name) if changed.privileged or name in state.assigned:
            commands.append(DeleteStatuses(name))
        # A connector that was resumed before this worker saw the stop still runs, but has lost its tasks.
        case TaskConfigUpdate(name, tasks) if tasks and changed.knows_connectors:
            commands += _half_stops(changed.config, name)
        case TargetStateChange(name) if changed.knows_connectors:
            commands += _half_stops(changed.config, name)
    if changed.member:
        state, rebalance = _rebalance(state, changed.config)
        commands += rebalance
    return state, tuple(commands)


def _task_fenced(state: GroupState, task: ConnectorTaskId, now: float) -> Decision:
    """Request a rebalance, which shows whether a fenced task is still assigned to this worker.

    A worker that was cut off from its group may fence the owner of a task before it learns that the task was
    reassigned. A task that is fenced repeatedly stays FAILED: another process uses its transactional id.
    """
    lately = tuple(moment for moment in state.fenced.get(task, ()) if now < moment + FENCED_SECONDS)
    state = replace(state, fenced={**state.fenced, task: (*lately, now)})
    return state, () if len(lately) >= MOST_FENCED else (Rejoin(),)


def _rebalance(state: GroupState, config: ClusterConfigState) -> Decision:
    counts = config.task_counts
    if counts is state.distributed or counts == state.distributed:
        return state, ()
    return replace(state, distributed=counts, rebalance_due=True), (Rejoin(),)


def _half_stops(config: ClusterConfigState, *connectors: str) -> list[Command]:
    return [ConfigureTasks(name) for name in connectors if config.entry(name).half_stopped]
