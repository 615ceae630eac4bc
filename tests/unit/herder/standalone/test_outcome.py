"""When a standalone worker has nothing left to do, and its final message."""

from __future__ import annotations

import pytest

from fencepost.config.ids import ConnectorTaskId
from fencepost.herder.standalone.config_store import MemoryConfigs
from fencepost.herder.standalone.outcome import Outcome
from fencepost.herder.standalone.status_store import MemoryStatuses
from fencepost.storage.configs.codec import TargetState
from fencepost.storage.statuses.codec import Status


class Run:
    """The connector `c`, which reads a file, in the given states."""

    def __init__(self, connector: str, *tasks: str, moving: bool = False) -> None:
        self.configs, self.statuses = MemoryConfigs(lambda _: None), MemoryStatuses()
        self.errors: dict[str | ConnectorTaskId, Exception] = {}
        self.moving = moving
        self.configs.load("c", {"name": "c"})
        self.configs.put_task_configs("c", [{"task": str(number)} for number in range(len(tasks))])
        self.report("c", connector)
        for number, state in enumerate(tasks):
            self.report(ConnectorTaskId("c", number), state)

    def report(self, subject: str | ConnectorTaskId, state: str) -> None:
        self.statuses.put(subject, Status(state, "here:1", 0))
        if state == "FAILED":
            self.errors[subject] = ValueError(f"of {subject}")

    def outcome(self, *, once: bool = False) -> Outcome:
        return Outcome(self.configs, self.statuses.table, self.errors, lambda _: self.moving, once=once)


@pytest.mark.parametrize(
    ("states", "ended", "ended_once"),
    [
        (("RUNNING", "RUNNING"), False, False),
        (("RUNNING", "RUNNING", "FAILED"), False, False),
        (("RUNNING", "RESTARTING"), False, False),
        (("RUNNING", "FAILED"), True, True),
        (("RUNNING", "STOPPED", "STOPPED"), True, True),
        (("RUNNING", "STOPPED", "FAILED"), True, True),
        (("FAILED",), True, True),
        (("FAILED", "RUNNING"), False, False),
        (("RESTARTING",), False, False),
        (("RESTARTING", "FAILED"), False, False),
        (("RUNNING",), False, True),
    ],
)
def test_a_worker_ends_with_its_last_task(states: tuple[str, ...], ended: bool, ended_once: bool):
    run = Run(*states)
    assert (run.outcome().complete, run.outcome(once=True).complete) == (ended, ended_once)


def test_a_worker_does_not_end_while_something_is_about_to_change():
    assert not Run("RUNNING", "FAILED", moving=True).outcome().complete


@pytest.mark.parametrize("target", [TargetState.PAUSED, TargetState.STOPPED])
def test_a_worker_does_not_end_while_a_connector_waits_for_requests(target: TargetState):
    run = Run("FAILED")
    run.configs.put_target_state("c", target)
    assert not run.outcome().complete


def test_a_worker_without_connectors_waits_for_requests():
    run = Run("RUNNING", "FAILED")
    run.configs.remove_connector("c")
    assert not run.outcome().complete


def test_a_connector_that_a_request_configured_does_not_end_the_worker():
    run = Run("RUNNING", "FAILED")
    run.configs.put_connector("c", {"name": "c"})
    assert not run.outcome().complete


def test_failures_are_reported_in_one_line_each():
    assert Run("FAILED", "STOPPED", "FAILED").outcome().failures == [
        "Connector c failed: ValueError: of c",
        "Task c-1 failed: ValueError: of c-1",
    ]
    assert Run("RUNNING", "STOPPED").outcome().failures == []
