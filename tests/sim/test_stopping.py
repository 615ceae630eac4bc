"""A worker that is asked to stop first stops its connectors and tasks, and then closes what they use."""

from __future__ import annotations

from tests.sim.scripted import ScriptedWorld


def test_a_stopping_worker_waits_for_stops_in_progress() -> None:
    def script(world: ScriptedWorld) -> None:
        world.create()
        world.wait_for(lambda: bool(world.checker.stored()))
        workers = list(world._herders.values())
        for site, _ in workers:
            world._cut_off(site.process, 9.0)
        # The workers fall out of the group, and their tasks' records are not committed for a while.
        world.kernel.sleep(9.0)
        for site, herder in workers:
            assert herder._leadership.membership is None
            world._ask_to_stop(site, herder)
        world.kernel.sleep(10.0)

    ScriptedWorld(script).play()
