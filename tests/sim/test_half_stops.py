"""The next leader repairs a stop that its leader did not finish, or that other records overwrote."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fencepost.config.ids import ConnectorTaskId
from fencepost.herder.distributed.task_configs import TaskConfigs
from fencepost.herder.errors import BadRequestError
from fencepost.storage.configs.codec import CommitRecord, TargetState, TargetStateRecord, TaskRecord
from tests.sim.scripted import ScriptedWorld


def test_a_connector_with_a_half_written_stop_gets_its_tasks_again() -> None:
    def script(world: ScriptedWorld) -> None:
        world.create()
        world.write(CommitRecord("a", 0))
        world.kill_leader()
        world.wait_for(lambda: world.tasks == 0)
        world.wait_for(lambda: world.tasks == 3)

    ScriptedWorld(script).play()


def test_a_connector_stopped_and_resumed_between_two_reads_keeps_its_tasks() -> None:
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


def test_a_new_leader_removes_task_configs_written_after_a_stop() -> None:
    def script(world: ScriptedWorld) -> None:
        world.create()
        world.stop()
        world.deafen(5.0)
        world.write(TaskRecord(ConnectorTaskId("a", 0), {}), CommitRecord("a", 1))
        world.kill_leader()
        world.wait_for(lambda: world.tasks == 1)
        world.wait_for(lambda: world.tasks == 0)

    ScriptedWorld(script).play()


def test_a_resumed_connector_has_its_tasks_though_the_leader_reads_it_last() -> None:
    def script(world: ScriptedWorld) -> None:
        world.create()
        world.stop()
        (leader, _), (_, other) = world.workers()
        world.wait_for(lambda: other._work.local.find("a") is not None)
        world._deafen(leader.process, 5.0)
        assert world._ask("resumes a", lambda herder: herder.connectors.resume("a"))
        world.wait_for(lambda: world.tasks == 3)

    ScriptedWorld(script).play()


def test_task_configs_that_a_leader_refuses_at_first_are_sent_again() -> None:
    """An Apache leader answers 400 until it has read that the connector is resumed."""
    store = TaskConfigs.store
    refused: list[str] = []

    async def refuse_once(self: TaskConfigs, connector: str, configs: Sequence[Mapping[str, str]]) -> None:
        if not refused:
            refused.append(connector)
            raise BadRequestError("Cannot submit non-empty set of task configs for stopped connector a")
        await store(self, connector, configs)

    def script(world: ScriptedWorld) -> None:
        world.create()
        assert refused == ["a"]

    ScriptedWorld(script, [(TaskConfigs, "store", refuse_once)]).play()
