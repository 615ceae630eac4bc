"""The connector and tasks that a restart request applies to."""

from __future__ import annotations

import pytest

from fencepost.config.ids import ConnectorTaskId
from fencepost.herder.core.restart_plan import restart_plan
from fencepost.storage.configs.codec import (
    CommitRecord,
    ConfigRecord,
    ConnectorRecord,
    RestartRequest,
    TargetState,
    TargetStateRecord,
    TaskRecord,
)
from fencepost.storage.configs.state import ClusterConfigState, apply
from fencepost.storage.statuses.codec import Status
from fencepost.storage.statuses.table import StatusTable

FIRST, SECOND = ConnectorTaskId("c", 0), ConnectorTaskId("c", 1)


def state(*more: ConfigRecord) -> ClusterConfigState:
    records = [ConnectorRecord("c", {}), TaskRecord(FIRST, {}), TaskRecord(SECOND, {}), CommitRecord("c", 2), *more]
    state = ClusterConfigState()
    for offset, record in enumerate(records):
        state, _ = apply(state, offset, record)
    return state


def statuses(connector: str, second: str) -> StatusTable:
    table = StatusTable()
    for subject, text in (("c", connector), (FIRST, "RUNNING"), (SECOND, second)):
        table.apply(subject, Status(text, "worker:1", 1))
    return table


@pytest.mark.parametrize(
    ("include_tasks", "only_failed", "expected"),
    [
        (False, False, ["c"]),
        (True, False, ["c", FIRST, SECOND]),
        (True, True, [SECOND]),
        (False, True, []),
    ],
)
def test_a_request_names_the_connector_its_tasks_or_the_failed_ones(
    include_tasks: bool, only_failed: bool, expected: list[str | ConnectorTaskId]
) -> None:
    request = RestartRequest("c", include_tasks, only_failed)
    assert restart_plan(request, state(), statuses("RUNNING", "FAILED")) == expected


def test_a_failed_connector_is_restarted_with_only_failed() -> None:
    assert restart_plan(RestartRequest("c", False, True), state(), statuses("FAILED", "RUNNING")) == ["c"]


def test_a_stopped_connector_is_restarted_without_tasks() -> None:
    stopped = state(TargetStateRecord("c", TargetState.STOPPED))
    assert restart_plan(RestartRequest("c", True, False), stopped, statuses("STOPPED", "UNASSIGNED")) == ["c"]
    assert restart_plan(RestartRequest("c", True, True), stopped, statuses("STOPPED", "FAILED")) == []


def test_nothing_of_an_unknown_connector_is_restarted() -> None:
    assert restart_plan(RestartRequest("other", True, False), state(), StatusTable()) == []
