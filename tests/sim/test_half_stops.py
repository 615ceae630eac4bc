"""What is left of a stop that its leader did not finish, or that others wrote over, is put right by the next leader."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from fencepost.config.ids import ConnectorTaskId
from fencepost.storage.config_records import (
    CommitRecord,
    ConfigRecord,
    TargetState,
    TargetStateRecord,
    TaskRecord,
    encode,
)
from tests.sim.schedule import World
from tests.sim.site import CONFIGS, in_world

_SEED = 5
_DEADLINE_S = 120.0

Script = Callable[["ScriptedWorld"], None]


class ScriptedWorld(World):
    """Two workers to which nothing happens but what a script does."""

    def __init__(self, script: Script) -> None:
        super().__init__(_SEED, None)
        self.plan = replace(self.plan, workers=2, troubles=0.0, slow=0.0, connectors=("a",))
        self._script = script
        # Scripts write what no leader of this worker's software would.
        self.checker.looks_at_stops = False

    @property
    def tasks(self) -> int:
        """How many tasks the connector has."""
        return len(self.checker.state.tasks("a"))

    def play(self) -> None:
        """Run the script to its end."""
        ended: list[bool] = []
        with in_world(self.kernel, self.here):
            for name in ("w1", "w2"):
                self._start_worker(name)
            self._user.process.spawn(lambda: (self._script(self), ended.append(True)))
            self.kernel.run(_DEADLINE_S * 3, lambda: bool(ended))
            for process in list(self._sites):
                process.kill()
        assert (self.kernel.faults, ended) == ([], [True])

    def wait_for(self, true: Callable[[], bool]) -> None:
        ends = self.kernel.now + _DEADLINE_S
        while not true():
            assert self.kernel.now < ends
            self.kernel.sleep(0.1)

    def create(self) -> None:
        """Create the connector, and wait until it has three tasks that may start."""
        herders = [herder for _, herder in self._herders.values()]
        self.wait_for(lambda: all(herder._leadership.membership for herder in herders))
        self._configure("a")
        self.wait_for(lambda: self.tasks == 3 and not self.checker.fencing_is_due)

    def stop(self) -> None:
        """Have the connector stopped."""
        assert self._ask("stops a", lambda herder: herder.stop_connector("a"))

    def write(self, *records: ConfigRecord) -> None:
        """Write to the config topic what another leader would, without a transaction."""
        self.broker.write_plainly(CONFIGS, [encode(record) for record in records])

    def kill_leader(self) -> None:
        """Kill the worker that leads."""
        (site,) = (site for site, herder in self._herders.values() if herder._leadership.leads)
        self._kill(site.process, 1.0)

    def deafen(self, seconds: float) -> None:
        """Have no worker read what is written to the config topic for a while."""
        for site, _ in self._herders.values():
            self._deafen(site.process, seconds)


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
