"""What takes too many coincidences for a seed to bring it about often, told step by step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tests.sim.schedule import World
from tests.sim.site import in_world


class _Scenario(World):
    """A quiet world with one worker and one connector, in which the user does what a test says."""

    def __init__(self, script: Callable[[_Scenario], None]) -> None:
        super().__init__(0, None)
        self.plan = replace(self.plan, workers=1, connectors=("a",), troubles=0.0, slow=0.0, chaos_s=60.0)
        self._script = script

    def _use(self) -> None:
        self.kernel.sleep(0.5)
        self._configure("a")
        self._script(self)
        self._user_is_done = True


def _faults_of(script: Callable[[_Scenario], None]) -> tuple[str, ...]:
    world = _Scenario(script)
    with in_world(world.kernel, world.here):
        return world.run().faults


def test_a_worker_that_is_asked_to_stop_waits_for_what_it_is_stopping_by_then():
    def lose_the_group_then_stop(world: _Scenario) -> None:
        site, _ = world._any_worker()
        world.kernel.sleep(4.0)
        world._cut_off(site.process, 12.0)
        world.kernel.sleep(8.0)
        world._bounce("a")

    assert _faults_of(lose_the_group_then_stop) == ()
