"""One schedule: what a seed makes happen to a group of workers, and whether all holds in the end.

start the workers, create the connectors
-> some minutes in which workers are killed, stopped and cut off at any message, and a user changes things
-> peace: all workers up, all connectors started, failed tasks restarted
-> all records must be there, once and in order, and the offsets must say so
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from fencepost.api.errors import FencepostError
from fencepost.herder.distributed.herder import DistributedHerder
from fencepost.runtime.state import State
from fencepost.storage.configs.codec import TargetState
from fencepost.storage.statuses.table import StatusTable
from tests.sim.broker import Broker
from tests.sim.checker import Checker
from tests.sim.clients import Site
from tests.sim.group import GroupCoordinator
from tests.sim.kernel import Kernel, Process
from tests.sim.network import Network
from tests.sim.plan import plan
from tests.sim.rest import SimRest
from tests.sim.site import GROUP_ID, OFFSETS, OWN_OFFSETS, SimStatuses, SimWorkerRuntime, group_config
from tests.sim.source import DATA

_PEACE_S = 400.0
_OWNING = f"before InitProducerId of {GROUP_ID}-"
TASKS_MAX = (3, 5, 1, 5, 3)
_MOST_PARTITIONS = 5
STEADY_TASKS_MAX = (3, 5, 3, 4, 5, 4, 2, 1)

Mutation = Sequence[tuple[Any, str, Any]]


@dataclass(frozen=True)
class Outcome:
    """The outcome of a schedule. `seconds` are simulated time."""

    seed: int
    faults: tuple[str, ...]
    seconds: float
    events: int
    records: int
    troubles: Counter[str]


class World:
    """The broker, the workers and the user of one schedule."""

    def __init__(self, seed: int, trace: Callable[[str], None] | None, *, harsh: bool = False) -> None:
        self.kernel = Kernel(seed, trace)
        self.plan = plan(self.kernel, seed, harsh=harsh)
        self.kernel.reruns = self.plan.reruns
        self._harsh = harsh
        self.checker = Checker(self.kernel, self._wake_stopped)
        self.broker = Broker(self.kernel, self.checker.on_marker)
        self.checker.follow(self.broker)
        self.checker.keyed = self.plan.keyed
        for _ in range(1, self.plan.data_partitions):
            self.broker.grow(DATA)
        self.broker.compacts = self.plan.compacted
        self._group = GroupCoordinator(self.kernel)
        self._statuses = SimStatuses(StatusTable())
        self._sites: dict[Process, Site] = {}
        self._herders: dict[str, tuple[Site, DistributedHerder]] = {}
        self._peace = False
        self._user_is_done = False
        self._steps = dict.fromkeys(self.plan.connectors, 0)
        self._owners: set[str] = set()
        self._user = self._new_site("user")
        self._rest = SimRest(self._user, self._herders)

    def here(self) -> Site:
        """The site of the current process."""
        assert self.kernel.process is not None
        return self._sites[self.kernel.process]

    def run(self) -> Outcome:
        """Run the schedule."""
        kernel = self.kernel
        kernel.note(f"{self.plan}")
        for number in range(self.plan.workers):
            self._start_worker(f"w{number + 1}")
        self._user.process.spawn(self._use)
        kernel.run(self.plan.chaos_s)
        if not kernel.faults:
            self._make_peace()
            if self._harsh:
                kernel.run(kernel.now + 30.0, lambda: self.broker.is_settled(DATA, OFFSETS, OWN_OFFSETS))
            else:
                kernel.run(kernel.now + _PEACE_S, self._is_done)
        if not kernel.faults:
            self._judge()
        for process in list(self._sites):
            process.kill()
        logs = self.broker.logs(DATA)
        records = sum(len(batch.rows) for log in logs for batch in self.broker.batches(log) if batch.committed)
        return Outcome(0, tuple(kernel.faults), kernel.now, kernel.events, records, kernel.troubles)

    # -- workers ------------------------------------------------------------------------------------------------

    def _new_site(self, name: str) -> Site:
        process = Process(self.kernel, name)
        network = Network(process, self._trouble, 0.0 if self._peace else self.plan.slow)
        older = self.plan.older and name == "w1"
        site = Site(process, network, self.broker, self._group, self.plan.version, self._statuses, older)
        self._sites[process] = site
        return site

    def _start_worker(self, name: str) -> None:
        site = self._new_site(name)
        self.kernel.note(f"{name} starts")
        self.kernel.enter(site.process, lambda: self._make_worker(site))

    def _make_worker(self, site: Site) -> None:
        url = f"http://{site.process.name}:8083/"
        client: Any = SimRest(site, self._herders)
        group = group_config(self.plan.protocol, self.plan.max_delay_ms)
        herder = DistributedHerder(SimWorkerRuntime(site), group, url, client)
        self._herders[url] = site, herder
        starting = site.process.loop.create_task(herder.start())
        starting.add_done_callback(lambda done: done.exception() and self._end(site, 1.0))

    def _end(self, site: Site, again_after: float) -> None:
        """Kill a worker, and start another one in its place."""
        process = site.process
        if process.alive:
            self.kernel.trouble("killed", f"{process.name} is killed")
            process.kill()
            self.kernel.later(again_after, lambda: self._start_worker(process.name))

    def _trouble(self, process: Process, at: str) -> bool:
        """Perhaps stop, kill or cut off a process at a message; return whether the message is lost."""
        rate, draw = self.plan.troubles, self.kernel.random.random
        if self._peace or not rate or process is self._user.process:
            return False
        if self._harsh and at.startswith(_OWNING) and draw() < 0.15:
            # This makes a task that lags behind and does not learn that there are newer ones.
            self._deafen(process, 8.0)
            self._stop(process, 1.0 + draw() * 4.0)
            return False
        # Faults between the task configurations and the task count record are the most important ones.
        drawn = draw()
        if drawn > rate * 5 or (drawn > rate and not self.checker.fencing_is_due):
            return False
        troubles = ("stop", "deaf") if self._harsh else ("lose", "stop", "stop", "deaf", "cut", "kill")
        match self.kernel.random.choice(troubles):
            case "lose":
                if at in ("sending", "answering"):
                    self.kernel.trouble("message lost", f"a message of {process.name} is lost ({at})")
                    return True
            case "stop":
                self._stop(process, 0.5 + draw() * draw() * 25.0)
            case "deaf":
                self._deafen(process, 0.5 + draw() * 6.0)
            case "cut":
                self._cut_off(process, 0.5 + draw() * 15.0)
            case "kill":
                self._kill(process, 0.5 + draw() * 5.0)
        return False

    def _stop(self, process: Process, seconds: float) -> None:
        self.kernel.trouble("stopped", f"{process.name} is stopped for {seconds:.1f} s at most")
        process.stop(seconds)

    def _deafen(self, process: Process, seconds: float) -> None:
        self.kernel.trouble("without news", f"{process.name} reads nothing new of the config topic for {seconds:.1f} s")
        process.deaf_until = self.kernel.now + seconds

    def _cut_off(self, process: Process, seconds: float) -> None:
        self.kernel.trouble("cut off", f"{process.name} is cut off for {seconds:.1f} s")
        process.cut_off_until = max(process.cut_off_until, self.kernel.now + seconds)

    def _kill(self, process: Process, again_after: float) -> None:
        site = self._sites[process]
        self.kernel.later(0.0, lambda: self._end(site, again_after))

    def _wake_stopped(self) -> None:
        """Resume zombies, and make workers deaf, at the worst time: while a connector gets other tasks."""
        draw = self.kernel.random.random
        for process in self._sites:
            if self.plan.troubles and not self._peace and process.alive and draw() < (0.5 if self._harsh else 0.2):
                self.kernel.later(draw() * 2.0, lambda p=process: self._deafen(p, 1.0 + draw() * 10.0))
            if process.stopped_until > self.kernel.now and self.kernel.random.random() < 0.5:
                self.kernel.later(self.kernel.random.expovariate(5.0), lambda p=process: self._wake(p))

    def _wake(self, process: Process) -> None:
        if process.stopped_until > self.kernel.now and process.alive:
            self.kernel.note(f"{process.name} goes on")
            process.resume()

    # -- the user -----------------------------------------------------------------------------------------------

    def _use(self) -> None:
        self.kernel.sleep(0.5)
        for name in self.plan.connectors:
            self._configure(name)
        grows = 2 if self.plan.growing else 0
        while not self._peace:
            self.kernel.sleep(self.kernel.random.expovariate(1 / self.plan.pause_s))
            if not self._peace:
                name = self.kernel.random.choice(self.plan.connectors)
                self.kernel.random.choices(
                    (
                        self._configure,
                        self._recreate,
                        self._reset,
                        self._restart,
                        self._trouble_one,
                        self._bounce,
                        self._grow,
                    ),
                    (8, 0, 0, 0, 2, 0, grows) if self._harsh else (8, 1, 2, 1, 4, 1, grows),
                )[0](name)
        self._user_is_done = True

    def _configure(self, name: str, url: str | None = None) -> None:
        step, self._steps[name] = self._steps[name], self._steps[name] + 1
        steady = self.plan.steady
        every = STEADY_TASKS_MAX if steady else TASKS_MAX
        tasks = every[step % len(every)]
        # A change of any property but tasks.max restarts all tasks.
        interval = step % 8 == 6 if steady else step % 4 == 2
        config = {
            "name": name,
            "connector.class": f"tests.sim.source.{'Steady' if steady else 'Numbers'}Connector",
            "tasks.max": str(tasks),
            "partitions": str(self.plan.partitions),
            "records": str(self.plan.records),
            "transaction.boundary.interval.ms": "2000",
            "transaction.boundary": "interval" if interval else "poll",
        }
        if self.plan.keyed:
            config["keyed"] = "true"
        # A topic is only removed from the configuration once a copy names it (decision 14).
        unnamed = name in self._owners and not self.checker.has_copies(name)
        if self.plan.own_offsets and (step % 2 or unnamed):
            self._owners.add(name)
            config["offsets.storage.topic"] = OWN_OFFSETS
        elif self._harsh and name in self._owners:
            # This is the worst time: a task's last copies may be missing, and were not repaired yet.
            workers = [site for process, site in self._sites.items() if process.alive and site is not self._user]
            self._end(self.kernel.random.choice(workers), 1.0 + self.kernel.random.random() * 4.0)
        self._ask(
            f"configures {name} with tasks.max {tasks}",
            lambda herder: herder.connectors.put(name, config, allow_replace=True),
            url,
        )

    def _grow(self, _: str) -> None:
        """Add partitions to topics."""
        for topic in self.plan.growing:
            if self.broker.partitions(topic) < _MOST_PARTITIONS:
                self.kernel.trouble(f"{topic} grown", f"{topic} has one more partition")
                self.broker.grow(topic)

    def _recreate(self, name: str) -> None:
        self._ask(f"deletes {name}", lambda herder: herder.connectors.delete(name))
        self.kernel.sleep(self.kernel.random.random() * 3.0)
        self._configure(name)

    def _reset(self, name: str) -> None:
        self._ask(f"stops {name}", lambda herder: herder.connectors.stop(name))
        for _ in range(3):
            self.kernel.sleep(self.kernel.random.random() * 3.0)
            if self._ask(f"resets the offsets of {name}", lambda herder: herder.offsets.reset(name)):
                break
        self._ask(f"resumes {name}", lambda herder: herder.connectors.resume(name))

    def _restart(self, name: str, *, only_failed: bool = False) -> None:
        self._ask(
            f"restarts {name}",
            lambda herder: herder.connectors.restart_all(name, include_tasks=True, only_failed=only_failed),
        )

    def _trouble_one(self, _: str) -> None:
        process = self._any_worker()[0].process
        draw = self.kernel.random.random
        what = draw()
        if what < 0.5:
            self._stop(process, 1.0 + draw() * 20.0)
        elif what < 0.8:
            self._cut_off(process, 1.0 + draw() * 15.0)
        else:
            self._kill(process, 0.5 + draw() * 8.0)

    def _bounce(self, _: str) -> None:
        self._ask_to_stop(*self._any_worker())

    def _ask_to_stop(self, site: Site, herder: DistributedHerder) -> None:
        if site.process.alive:
            self.kernel.note(f"{site.process.name} is asked to stop")
            loop = site.process.loop
            self.kernel.later(0.0, lambda: _ignore(loop.create_task(self._leave(site, herder))), site.process)
            self.kernel.later(10.0, lambda: self._end(site, 0.5))

    async def _leave(self, site: Site, herder: DistributedHerder) -> None:
        await herder.stop()
        if left := herder._work.local.units:
            self.kernel.fault(
                f"{site.process.name} has stopped in good order, and has begun {', '.join(map(str, left))}"
            )

    def _any_worker(self) -> tuple[Site, DistributedHerder]:
        return self._herders[self.kernel.random.choice(sorted(self._herders))]

    def _ask(self, what: str, request: Callable[[DistributedHerder], Any], url: str | None = None) -> bool:
        """Send a request to a worker, any by default, and return whether it was done."""
        url = url or self.kernel.random.choice(sorted(self._herders))
        self.kernel.note(f"{what}, by {url}")
        try:
            done, _ = self.kernel.wait_for(self._rest.send(url, request), 30.0)
        except FencepostError as error:
            self.kernel.note(f"{what}: refused: {error}")
            return False
        self.kernel.note(f"{what}: {'done' if done else 'no answer'}")
        return done

    # -- the end ------------------------------------------------------------------------------------------------

    def _make_peace(self) -> None:
        kernel = self.kernel
        kernel.note("peace")
        self._peace = True
        kernel.reruns = 0.0
        for process, site in self._sites.items():
            site.network.slow = 0.0
            process.cut_off_until = process.deaf_until = kernel.now
            process.resume()
        self._user.process.spawn(self._mend, 8.0)

    def _mend(self) -> None:
        while True:
            for name in self.plan.connectors:
                table = self._statuses.table
                config = self._checked_state(name)
                if config is None:
                    self._configure(name)
                elif config is not TargetState.STARTED:
                    self._ask(f"resumes {name}", lambda herder, name=name: herder.connectors.resume(name))
                statuses = [table.connector(name), *table.tasks(name).values()]
                if any(status is not None and status.state == State.FAILED for status in statuses):
                    self._restart(name, only_failed=True)
            self.kernel.sleep(10.0)

    def _checked_state(self, name: str) -> TargetState | None:
        state = self.checker.state
        return state.target_state(name) if state.contains(name) else None

    def _is_done(self) -> bool:
        stored = self.checker.stored()
        return (
            self._user_is_done
            and self.broker.is_settled(DATA, OFFSETS, OWN_OFFSETS)
            and all(
                stored.get((name, number)) == self.plan.records
                for name in self.plan.connectors
                for number in range(self.plan.partitions)
            )
        )

    def _judge(self) -> None:
        stored = self.checker.next_offsets()
        if self._harsh:
            return
        for name in self.plan.connectors:
            for number in range(self.plan.partitions):
                if stored.get((name, number)) != self.plan.records and not self.kernel.faults:
                    self.kernel.fault(
                        f"partition {number} of {name} stands at {stored.get((name, number))} of {self.plan.records} "
                        f"after {_PEACE_S:.0f} s of peace"
                    )


def _ignore(_: Any) -> None:
    pass
