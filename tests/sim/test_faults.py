"""An error that a worker would only log makes the schedule fail."""

from __future__ import annotations

import pytest

from fencepost.herder.work.task_work import TaskWork
from tests.sim.scripted import ScriptedWorld


def test_a_task_that_cannot_follow_its_plan_is_a_fault_of_the_schedule() -> None:
    async def cannot(*_: object) -> None:
        raise KeyError("plan")

    world = ScriptedWorld(ScriptedWorld.create, [(TaskWork, "_start", cannot)])
    with pytest.raises(AssertionError):
        world.play()
    assert set(world.kernel.faults) == {"A fault of this worker: the connector or task cannot follow its plan"}
