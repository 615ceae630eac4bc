"""A simulated world in which a test decides each step, for cases that random schedules reach too rarely."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

from fencepost.herder.distributed.herder import DistributedHerder
from fencepost.storage.configs.codec import ConfigRecord, encode
from tests.sim.clients import Site
from tests.sim.kernel import Process
from tests.sim.schedule import Mutation, World
from tests.sim.site import CONFIGS, in_world

_SEED = 2
_DEADLINE_S = 120.0

Script = Callable[["ScriptedWorld"], None]


class ScriptedWorld(World):
    """Two workers. The only faults are the faults in a script."""

    def __init__(self, script: Script, mutations: Mutation = ()) -> None:
        super().__init__(_SEED, None)
        self.plan = replace(self.plan, workers=2, troubles=0.0, slow=0.0, connectors=("a",))
        self._script = script
        self._mutations = mutations
        self._frozen: tuple[Process, str] | None = None
        # Scripts write records that no leader of this version would write.
        self.checker.looks_at_stops = False

    @property
    def tasks(self) -> int:
        """The number of the connector's tasks."""
        return len(self.checker.state.tasks("a"))

    def workers(self) -> list[tuple[Site, DistributedHerder]]:
        """All workers, the leader first."""
        return sorted(self._herders.values(), key=lambda worker: not worker[1]._leadership.leads)

    def play(self) -> None:
        """Run the script to its end."""
        ended: list[bool] = []
        with in_world(self.kernel, self.here, self._mutations):
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
        """Create the connector, and wait until its three tasks may start."""
        herders = [herder for _, herder in self._herders.values()]
        self.wait_for(lambda: all(herder._leadership.membership for herder in herders))
        self._configure("a")
        self.wait_for(lambda: self.tasks == 3 and not self.checker.fencing_is_due)

    def change(self, url: str | None = None) -> None:
        """Change the existing connector to five tasks, with a request to the given worker or any other."""
        self._configure("a", url)
        self.wait_for(lambda: self.tasks == 5)

    def stop(self) -> None:
        """Stop the connector."""
        assert self._ask("stops a", lambda herder: herder.connectors.stop("a"))

    def write(self, *records: ConfigRecord) -> None:
        """Write a record to the config topic without a transaction, like another leader."""
        self.broker.write_plainly(CONFIGS, [encode(record) for record in records])

    def kill_leader(self) -> None:
        """Kill the worker that leads."""
        self._kill(self.workers()[0][0].process, 1.0)

    def replace_leader_amid(
        self, message: str, request: Callable[[DistributedHerder], Coroutine[Any, Any, Any]]
    ) -> tuple[Process, DistributedHerder, list[asyncio.Task[Any]]]:
        """Send a request to the leader; stop its process before it sends a message, until another worker leads.

        Returns the stopped process, the new leader, and a list with the request.
        """
        (site, zombie), (_, successor) = self.workers()
        process, asked = site.process, list[asyncio.Task[Any]]()
        self.freeze_at(process, message)
        self.kernel.later(0.0, lambda: asked.append(process.loop.create_task(request(zombie))), process)
        self.wait_for(lambda: process.stopped_until > 0)
        self.wait_for(lambda: successor._leadership.leads)
        return process, successor, asked

    def freeze_at(self, process: Process, message: str) -> None:
        """Stop a process right before it sends a message, until it is resumed."""
        self._frozen = process, f"before {message}"

    def deafen(self, seconds: float) -> None:
        """Make all workers ignore the config topic for a while."""
        for site, _ in self._herders.values():
            self._deafen(site.process, seconds)

    def _trouble(self, process: Process, at: str) -> bool:
        if self._frozen == (process, at):
            self._frozen = None
            self._stop(process, 10 * _DEADLINE_S)
        return False
