"""A group far larger than this machine: what its coordinator, its leader and its internal topics are asked for.

    python -m tests.sim.scale --workers 100 --connectors 100 --tasks 100

The workers are the package's own, in the simulated world (see `site`): herders, assignor, fencing rounds, stores, tasks
and transactions. Nothing fails but by the steps below, so all counts are those of one undisturbed group:

    start      all workers join
    create     connectors are created one after the other, until each task has committed
    idle       a minute without any change
    change     one connector gets one task less
    lose       a worker is killed; its work waits for `--delay` seconds, and goes to the others
    join       a worker joins

`requests` are of transaction coordinators, topics and peers, by name; Fetch and Heartbeat are counted apart. A simulated
status topic has no log: `status` counts the records that workers put. `leader` is the CPU of the elections in the step,
and the largest of them. Times of the world are exact, the CPU is this machine's.
"""

from __future__ import annotations

import argparse
import gc
import sys
import time
import tracemalloc
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from fencepost.config.ids import ConnectorTaskId
from fencepost.herder.distributed.assignor_leader import ConfiguredWork, LeaderAssignor
from fencepost.kafka.group.codec import encode_assignment, encode_metadata
from fencepost.kafka.group.protocol import Assignment, ConnectProtocol, Election, WorkerMetadata
from fencepost.runtime.state import State
from fencepost.storage.configs.codec import TaskCountRecord
from fencepost.storage.configs.state import ClusterConfigState, apply
from fencepost.storage.statuses.codec import encode as encode_status
from fencepost.storage.statuses.table import StatusTable
from tests.sim.kernel import Process
from tests.sim.schedule import World
from tests.sim.site import CONFIGS, OFFSETS, SimStatuses, decoded, in_world
from tests.sim.source import DATA, SteadyConnector

_SEED = 2
_LIMIT_S = 7_200.0
_RECORDS = 1
_IDLE_S = 60.0


@dataclass
class Elections:
    """The leader's elections: seconds of CPU, and bytes received and sent."""

    seconds: list[float]
    joined_bytes: int = 0
    assigned_bytes: int = 0

    def observe(self, election: Election, shares: Mapping[str, Assignment], seconds: float) -> None:
        self.seconds.append(seconds)
        protocol = ConnectProtocol.SESSIONED
        joined = (encode_metadata(_as_sent(member), protocol) for member in election.members.values())
        self.joined_bytes = max(self.joined_bytes, sum(map(len, joined)))
        self.assigned_bytes = max(
            self.assigned_bytes, sum(len(encode_assignment(share, protocol)) for share in shares.values())
        )


def _as_sent(member: WorkerMetadata) -> WorkerMetadata:
    """Return the metadata that a real member sends: its work, without the leader's data about other members."""
    held = member.assignment
    return member if held is None else replace(member, assignment=replace(held, supports=(), other_topics=(), files=()))


class CountedStatuses(SimStatuses):
    """Counts the records and bytes that a status topic would get."""

    def __init__(self, table: StatusTable) -> None:
        super().__init__(table)
        self.records = self.bytes = 0

    def put(self, subject: Any, status: Any) -> None:
        super().put(subject, status)
        self.records += 1
        self.bytes += sum(map(len, filter(None, encode_status(subject, status))))


class ScaleWorld(World):
    """Many workers without faults, except the steps."""

    def __init__(self, workers: int, connectors: int, tasks: int, delay_s: float) -> None:
        super().__init__(_SEED, None)
        names = tuple(f"connector-{number:04}" for number in range(connectors))
        self.plan = replace(
            self.plan,
            workers=workers,
            protocol="sessioned",
            max_delay_ms=int(delay_s * 1000),
            connectors=names,
            partitions=tasks,
            records=_RECORDS,
            troubles=0.0,
            slow=0.0,
            growing=(),
            own_offsets=False,
            steady=True,
            older=False,
            compacted=False,
        )
        self.broker.compacts = False
        self.requests: Counter[str] = Counter()
        self.elections = Elections([])
        self.tasks = tasks
        self._statuses = self.counted = CountedStatuses(StatusTable())

    def _trouble(self, process: Process, at: str) -> bool:
        del process
        if at.startswith("before "):
            self.requests[at.removeprefix("before ").split(" of ")[0]] += 1
        return False

    # -- the steps --------------------------------------------------------------------------------------------

    def steps(self) -> Iterator[tuple[str, Callable[[], None], Callable[[], bool]]]:
        """The name of each step, the function that begins it, and the condition that ends it."""
        yield "start", self._start_all, lambda: self._members() == self.plan.workers
        yield "create", lambda: self._by_user(self._create_all), self._all_committed
        until = self.kernel.now + _IDLE_S
        yield "idle", lambda: None, lambda: self.kernel.now >= until
        yield "change", lambda: self._by_user(self._change), lambda: self._running() == self._wanted() - 1
        yield "lose", self._lose, lambda: self._settled(self.plan.workers - 1)
        yield "join", lambda: self._start_worker("late"), lambda: self._settled(self.plan.workers)

    def _start_all(self) -> None:
        for number in range(self.plan.workers):
            self._start_worker(f"w{number + 1}")

    def _by_user(self, action: Callable[[], None]) -> None:
        self._user.process.spawn(action)

    def _create_all(self) -> None:
        for name in self.plan.connectors:
            self._put(name, self.tasks)

    def _change(self) -> None:
        self._put(self.plan.connectors[0], self.tasks - 1)

    def _put(self, name: str, tasks: int) -> None:
        config = {
            "name": name,
            "connector.class": "tests.sim.scale.EvenConnector",
            "tasks.max": str(tasks),
            "partitions": str(self.tasks),
            "records": str(_RECORDS),
        }
        while not self._ask(
            f"configures {name}", lambda herder: herder.connectors.put(name, config, allow_replace=True)
        ):
            self.kernel.sleep(1.0)

    def _lose(self) -> None:
        site = next(site for site, herder in self._herders.values() if not herder._leadership.leads)
        self._lost = site.process
        site.process.kill()
        del self._herders[f"http://{site.process.name}:8083/"]

    # -- what has come true -----------------------------------------------------------------------------------

    def _wanted(self) -> int:
        return self.tasks * len(self.plan.connectors)

    def _members(self) -> int:
        return sum(herder._leadership.membership is not None for _, herder in self._herders.values())

    def _running(self) -> int:
        table = self.counted.table
        alive = {f"{site.process.name}:8083" for site, _ in self._herders.values()}
        found = (table.task(ConnectorTaskId(name, task)) for name in self.plan.connectors for task in range(self.tasks))
        return sum(
            status is not None and status.state == State.RUNNING and status.worker_id in alive for status in found
        )

    def _all_committed(self) -> bool:
        return len(self.broker.batches(OFFSETS)) >= self._wanted() and self._running() == self._wanted()

    def _settled(self, workers: int) -> bool:
        """Whether this many workers are members, and all work runs once, evenly."""
        loads = [len(herder._work.local.units) for _, herder in self._herders.values()]
        return (
            self._members() == workers
            and self._running() == self._wanted() - 1
            and sum(loads) == len(self.plan.connectors) + self._wanted() - 1
            and max(loads) - min(loads) <= 2
        )


class EvenConnector(SteadyConnector):
    """Task t has the source partition t, so that a change of `tasks.max` moves as few partitions as possible."""

    def _task_of(self, partition: int, tasks: int) -> int:
        return min(partition, tasks - 1)


@dataclass(frozen=True)
class Counts:
    """The requests and records so far."""

    seconds: float
    cpu: float
    requests: Counter[str]
    generations: int
    elections: int
    election_s: float
    logs: Mapping[str, tuple[int, int, int]]
    """The transactions, records and bytes of each topic."""
    status: tuple[int, int]
    fencing_rounds: int

    @classmethod
    def of(cls, world: ScaleWorld) -> Counts:
        """Count up to now."""
        return cls(
            seconds=world.kernel.now,
            cpu=time.process_time(),
            requests=Counter(world.requests),
            generations=world._group._generation,
            elections=len(world.elections.seconds),
            election_s=sum(world.elections.seconds),
            logs={topic: _written(world, topic) for topic in (CONFIGS, OFFSETS, DATA)},
            status=(world.counted.records, world.counted.bytes),
            fencing_rounds=sum(
                isinstance(decoded(*row), TaskCountRecord)
                for batch in world.broker.batches(CONFIGS)
                for row in batch.rows
            ),
        )


def _written(world: ScaleWorld, topic: str) -> tuple[int, int, int]:
    batches = world.broker.batches(topic)
    transactions = len({(batch.producer_id, batch.epoch) for batch in batches if batch.producer_id >= 0})
    rows = [row for batch in batches for row in batch.rows]
    sizes = 0 if topic == DATA else sum(len(part) for row in rows for part in row if part)
    return transactions, len(rows), sizes


@contextmanager
def _observed(world: ScaleWorld) -> Iterator[None]:
    """Measure the leader's elections."""
    compute = LeaderAssignor.__call__

    def measured(assignor: LeaderAssignor, election: Election) -> Mapping[str, Assignment]:
        # The garbage collector would traverse all simulated workers.
        gc.disable()
        started = time.process_time()
        shares = compute(assignor, election)
        seconds = time.process_time() - started
        gc.enable()
        world.elections.observe(election, shares, seconds)
        return shares

    LeaderAssignor.__call__ = measured  # type: ignore[method-assign]
    try:
        yield
    finally:
        LeaderAssignor.__call__ = compute  # type: ignore[method-assign]


def leader_memory(world: ScaleWorld) -> dict[str, float]:
    """Build a copy of the leader's data about the group; return the MB of each part."""
    rows = [(offset, *row) for offset, row, _ in world.broker.fetch(CONFIGS, 0)[0]]
    statuses = dict(_statuses(world))
    members = _members(world)
    counts = dict.fromkeys(world.plan.connectors, world.tasks)
    configured = ConfiguredWork(0, counts)

    def configs() -> Any:
        state = ClusterConfigState()
        for offset, key, value in rows:
            state, _ = apply(state, offset, decoded.__wrapped__(key, value))
        return state

    def table() -> Any:
        made = StatusTable()
        for subject, status in statuses.items():
            made.apply(subject, replace(status, trace=status.trace))
        return made

    def assignor() -> Any:
        made = LeaderAssignor(lambda: configured, max_delay_ms=0)
        leader = next(iter(members))
        made(Election(leader=leader, protocol=ConnectProtocol.SESSIONED, members=members, held=None))
        return made

    return {"configs": _megabytes(configs), "statuses": _megabytes(table), "assignor": _megabytes(assignor)}


def _statuses(world: ScaleWorld) -> Iterator[tuple[Any, Any]]:
    table = world.counted.table
    for name in table.connectors():
        yield name, table.connector(name)
        yield from table.tasks(name).items()


def _members(world: ScaleWorld) -> dict[str, WorkerMetadata]:
    return {url: WorkerMetadata(url=url, config_offset=0, assignment=None) for url in world._herders}


def _megabytes(make: Callable[[], Any]) -> float:
    gc.collect()
    tracemalloc.start()
    made = make()
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    del made
    return held / 1e6


def _tell_step(name: str, before: Counts, after: Counts) -> None:
    asked = after.requests - before.requests
    passed = after.seconds - before.seconds
    reading = sum(asked.pop(kind, 0) for kind in ("Fetch", "ListOffsets", ""))
    requests = ", ".join(f"{kind} {count:,}" for kind, count in sorted(asked.items())) or "none"
    election_ms = (after.election_s - before.election_s) * 1000
    _say(f"\n{name}: {passed:.1f} s of the world, {after.cpu - before.cpu:.0f} s of CPU")
    _say(
        f"  generations {after.generations - before.generations}, elections {after.elections - before.elections} with "
        f"{election_ms:,.0f} ms of CPU, fencing rounds {after.fencing_rounds - before.fencing_rounds}"
    )
    _say(f"  requests: {requests}; heartbeats and reading {reading:,}")
    for topic, now in after.logs.items():
        transactions, records, size = (many - few for many, few in zip(now, before.logs[topic], strict=True))
        _say(f"  {topic}: {_rate(transactions, 'transactions', passed)}, {records:,} records, {size / 1000:,.0f} kB")
    records, size = (now - then for now, then in zip(after.status, before.status, strict=True))
    _say(f"  status: {_rate(records, 'records', passed)}, {size / 1000:,.0f} kB")


def _rate(count: int, what: str, seconds: float) -> str:
    return f"{count:,} {what} ({count / seconds:.1f}/s)"


def _say(text: str) -> None:
    print(text, flush=True)  # noqa: T201 - a script that prints


def run(world: ScaleWorld) -> list[str]:
    """Run all steps and print them; return the faults."""
    with in_world(world.kernel, world.here), _observed(world):
        for name, begin, ended in world.steps():
            before = Counts.of(world)
            begin()
            world.kernel.run(world.kernel.now + _LIMIT_S, ended)
            _tell_step(name, before, Counts.of(world))
            if world.kernel.faults or not ended():
                return world.kernel.faults or [f"{name} did not end within {_LIMIT_S:.0f} s"]
        for process in list(world._sites):
            process.kill()
    elections = world.elections
    _say(
        f"\nlargest election: {max(elections.seconds) * 1000:,.0f} ms of CPU; all members' metadata "
        f"{elections.joined_bytes / 1000:,.0f} kB, all assignments {elections.assigned_bytes / 1000:,.0f} kB"
    )
    _say("a leader holds, MB: " + ", ".join(f"{part} {size:.1f}" for part, size in leader_memory(world).items()))
    return []


def main() -> int:
    """Run the command line; the exit status is 1 if a step did not end."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.sim.scale", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--workers", type=int, default=10)
    parser.add_argument("--connectors", type=int, default=10)
    parser.add_argument("--tasks", type=int, default=10, help="of each connector (10)")
    parser.add_argument("--delay", type=float, default=300.0, help="scheduled.rebalance.max.delay.ms, in seconds (300)")
    given = parser.parse_args()
    _say(f"{given.workers} workers, {given.connectors} connectors of {given.tasks} tasks each")
    faults = run(ScaleWorld(given.workers, given.connectors, given.tasks, given.delay))
    for fault in faults:
        _say(fault)
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main())
