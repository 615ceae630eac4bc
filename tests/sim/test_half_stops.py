"""What is left of a stop that its leader did not finish, or that others wrote over, is put right by the next leader."""

from __future__ import annotations

from fencepost.config.ids import ConnectorTaskId
from fencepost.storage.configs.codec import CommitRecord, TargetState, TargetStateRecord, TaskRecord
from tests.sim.scripted import ScriptedWorld


def test_a_connector_whose_stop_was_half_written_by_a_leader_that_died_gets_its_tasks_again() -> None:
    def script(world: ScriptedWorld) -> None:
        world.create()
        world.write(CommitRecord("a", 0))
        world.kill_leader()
        world.wait_for(lambda: world.tasks == 0)
        world.wait_for(lambda: world.tasks == 3)

    ScriptedWorld(script).play()


def test_a_connector_that_is_stopped_and_resumed_before_anybody_reads_of_it_has_its_tasks() -> None:
    def script(world: ScriptedWorld) -> None:
        world.create()
        world.deafen(5.0)
        world.write(CommitRecord("a", 0), TargetStateRecord("a", TargetState.STOPPED))
        world.write(TargetStateRecord("a", TargetState.STARTED))
        world.wait_for(lambda: world.tasks == 0)
        world.wait_for(lambda: world.tasks == 3)

    ScriptedWorld(script).play()


def test_task_configurations_that_are_written_behind_a_stop_are_taken_away() -> None:
    def script(world: ScriptedWorld) -> None:
        world.create()
        world.stop()
        world.write(TaskRecord(ConnectorTaskId("a", 0), {}), CommitRecord("a", 1))
        world.wait_for(lambda: world.tasks == 1)
        world.wait_for(lambda: world.tasks == 0)

    ScriptedWorld(script).play()


def test_task_configurations_that_a_leader_wrote_behind_a_stop_and_died_are_taken_away_by_the_next() -> None:
    def script(world: ScriptedWorld) -> None:
        world.create()
        world.stop()
        world.deafen(5.0)
        world.write(TaskRecord(ConnectorTaskId("a", 0), {}), CommitRecord("a", 1))
        world.kill_leader()
        world.wait_for(lambda: world.tasks == 1)
        world.wait_for(lambda: world.tasks == 0)

    ScriptedWorld(script).play()


def test_a_connector_that_is_resumed_has_its_tasks_though_the_leader_hears_of_it_last() -> None:
    def script(world: ScriptedWorld) -> None:
        world.create()
        world.stop()
        (leader, _), (_, other) = world.workers()
        world.wait_for(lambda: other._work.find("a") is not None)
        world._deafen(leader.process, 5.0)
        assert world._ask("resumes a", lambda herder: herder.resume_connector("a"))
        world.wait_for(lambda: world.tasks == 3)

    ScriptedWorld(script).play()
