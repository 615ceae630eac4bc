"""A worker's decisions after events of its group."""

from __future__ import annotations

from collections.abc import Iterable

from fencepost.config.ids import ConnectorTaskId
from fencepost.herder.core.assignor import Unit
from fencepost.herder.core.group_decisions import (
    FENCED_SECONDS,
    MOST_FENCED,
    Assigned,
    ConfigChanged,
    ConfigureTasks,
    DeleteStatuses,
    Elected,
    FollowConfig,
    ForgetStatuses,
    GroupState,
    PlanUnits,
    Rejoin,
    RestartFenced,
    Revoked,
    TaskFenced,
    decide,
)
from fencepost.storage.configs.codec import (
    CommitRecord,
    ConfigRecord,
    ConnectorRecord,
    TargetState,
    TargetStateRecord,
    TaskRecord,
)
from fencepost.storage.configs.state import (
    ClusterConfigState,
    ConfigEvent,
    ConnectorConfigRemoval,
    ConnectorConfigUpdate,
    TargetStateChange,
    TaskConfigUpdate,
    apply,
)

FIRST, SECOND = ConnectorTaskId("c", 0), ConnectorTaskId("c", 1)


def config(*records: ConfigRecord) -> ClusterConfigState:
    state = ClusterConfigState()
    for offset, record in enumerate(records):
        state, _ = apply(state, offset, record)
    return state


CONNECTOR = ConnectorRecord("c", {"name": "c"})
CONFIGURED = config(CONNECTOR, TaskRecord(FIRST, {}), TaskRecord(SECOND, {}), CommitRecord("c", 2))


def assigned(*work: Unit, leader: str = "a", leads: bool = False, held: bool = False) -> Assigned:
    return Assigned(frozenset(work), leader, leads, held, CONFIGURED)


def after(events: Iterable[Assigned | Revoked | Elected | ConfigChanged | TaskFenced]) -> GroupState:
    state = GroupState()
    for event in events:
        state, _ = decide(state, event)
    return state


def changed(event: ConfigEvent, state: ClusterConfigState, *, member: bool = True, privileged: bool = False):
    return ConfigChanged(event, state, member, privileged)


def test_an_assignment_plans_new_and_revoked_work():
    state, commands = decide(after([assigned("c", FIRST)]), assigned("c", SECOND))
    assert state.assigned == {"c", SECOND}
    assert commands == (PlanUnits(frozenset({FIRST, SECOND})), RestartFenced())


def test_tasks_that_become_held_are_planned_again():
    _, commands = decide(after([assigned("c", FIRST)]), assigned("c", FIRST, held=True))
    assert commands[0] == PlanUnits(frozenset({"c", FIRST}))


def test_a_leader_forgets_statuses_and_uses_its_own_assignment():
    state, commands = decide(after([Elected({"c": 2})]), assigned("c", leader="me", leads=True))
    assert ForgetStatuses() in commands
    assert not state.rebalance_due
    state, commands = decide(after([Elected({"c": 1})]), assigned("c", leader="me", leads=True))
    assert commands[-1] == Rejoin()
    assert state.rebalance_due


def test_half_stops_of_an_earlier_leader_are_finished_once():
    stopped = config(CONNECTOR)
    event = Assigned(frozenset(), "b", False, False, stopped)
    state, commands = decide(after([assigned()]), event)
    assert ConfigureTasks("c") in commands
    assert ConfigureTasks("c") not in decide(state, event)[1]


def test_changed_task_counts_request_one_rebalance():
    state = after([assigned("c", FIRST, SECOND)])
    fewer = config(CONNECTOR, TaskRecord(FIRST, {}), CommitRecord("c", 1))
    event = TaskConfigUpdate("c", (FIRST,))
    state, commands = decide(state, changed(event, fewer))
    assert commands == (FollowConfig(event), Rejoin())
    assert state.rebalance_due
    _, commands = decide(state, changed(ConnectorConfigUpdate("c"), fewer))
    assert commands == (FollowConfig(ConnectorConfigUpdate("c")),)


def test_a_worker_out_of_its_group_requests_no_rebalance():
    event = ConnectorConfigRemoval("c")
    state, commands = decide(after([assigned("c")]), changed(event, config(), member=False))
    assert commands == (FollowConfig(event), DeleteStatuses("c"))
    assert not state.rebalance_due


def test_statuses_of_a_deleted_connector_are_deleted_by_its_worker_and_the_leader():
    event = ConnectorConfigRemoval("c")
    elsewhere = after([assigned()])
    assert DeleteStatuses("c") not in decide(elsewhere, changed(event, config()))[1]
    assert DeleteStatuses("c") in decide(elsewhere, changed(event, config(), privileged=True))[1]


def test_a_connector_that_was_resumed_without_tasks_is_asked_for_them():
    resumed = config(CONNECTOR, TargetStateRecord("c", TargetState.STARTED))
    _, commands = decide(after([assigned("c")]), changed(TargetStateChange("c"), resumed))
    assert ConfigureTasks("c") in commands


def test_revoked_work_is_not_assigned_any_more():
    assert after([assigned("c", FIRST), Revoked(frozenset({FIRST}))]).assigned == {"c"}


def test_a_task_that_is_fenced_again_and_again_is_not_asked_for():
    state = GroupState()
    for moment in range(MOST_FENCED):
        state, commands = decide(state, TaskFenced(FIRST, float(moment)))
        assert commands == (Rejoin(),)
    assert decide(state, TaskFenced(FIRST, 9.0))[1] == ()
    assert decide(state, TaskFenced(SECOND, 9.0))[1] == (Rejoin(),)
    assert decide(state, TaskFenced(FIRST, FENCED_SECONDS + 9.0))[1] == (Rejoin(),)


def test_a_worker_with_another_config_topic_touches_no_connectors():
    stopped = config(CONNECTOR)
    _, commands = decide(after([assigned()]), Assigned(frozenset(), "b", True, False, stopped, knows_connectors=False))
    assert not {ConfigureTasks("c"), ForgetStatuses()} & set(commands)
    event = TargetStateChange("c")
    _, commands = decide(after([assigned("c")]), ConfigChanged(event, stopped, True, False, knows_connectors=False))
    assert ConfigureTasks("c") not in commands
