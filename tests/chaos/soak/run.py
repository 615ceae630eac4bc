"""A soak from start to end."""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from fencepost.cli.verify.verify_report import VerifyReport
from tests.chaos.bystander import Bystander, running_bystander
from tests.chaos.growth import Growth
from tests.chaos.soak.cluster import Cluster, ask_until_done, running_cluster
from tests.chaos.soak.databases import Databases, running_databases
from tests.chaos.soak.schedule import Action, Size
from tests.chaos.soak.sources import configurations, line
from tests.chaos.soak.storm import HOSTILE, Storm, Tell
from tests.chaos.soak.verdict import judge, settle, stop
from tests.support.topics import Topics

_LINE_EVERY_SECONDS = 0.2
_PARTITIONS = 3
_BYSTANDER_TASKS = 5
_BYSTANDER_POLL_MS = 500
_SAMPLE_EVERY_SECONDS = 5.0
# A worker whose brokers are killed may grow by this much, for buffers and restarts of tasks.
_MOST_GROWTH_MIB = 16.0


@dataclass(frozen=True)
class Outcome:
    """The number of actions, the report of each connector's topic, and other errors.

    `counts` says how often each was done, and how often there were two instances of a task. `logged` are the errors in
    the workers' logs, among them tasks that were FAILED for a while: to be read by a human.
    """

    actions: int
    counts: Mapping[str, int]
    reports: dict[str, VerifyReport]
    faults: list[str]
    logged: list[str]

    @property
    def sound(self) -> bool:
        """Whether no error was found."""
        return not self.faults and all(report.sound and report.records for report in self.reports.values())


def soak(folder: Path, actions: Iterable[Action], seconds: float, size: Size, tell: Tell) -> Outcome:
    """Run a new cluster with faults for some time, let it settle, and judge it."""
    lines = folder / "lines.txt"
    lines.touch()
    configs = dict(itertools.islice(configurations(lines).items(), size.connectors))
    with contextlib.ExitStack() as stack:
        cluster = stack.enter_context(
            running_cluster(folder, workers=size.workers, brokers=size.brokers, session_s=size.session_s)
        )
        databases: Databases | None = None
        if size.postgres:
            databases = stack.enter_context(
                running_databases(folder, cluster, tell, replicas=size.brokers, seed=size.connectors)
            )
        targets = configs if databases is None else configs | databases.configs
        every = targets if databases is None else targets | databases.own_configs
        _create(cluster, configs, every)
        tell(f"{size.workers} workers run {', '.join(every)}")
        bystander = stack.enter_context(
            running_bystander(folder, cluster.bootstrap_servers, _BYSTANDER_TASKS, _BYSTANDER_POLL_MS)
        )
        ticks = [_every(_LINE_EVERY_SECONDS, _writes_lines(lines)), _every(_SAMPLE_EVERY_SECONDS, bystander.sample)]
        ticks += [] if databases is None else [databases.tick]
        storm = Storm(cluster, targets, tell, _all_of(ticks), databases)
        try:
            storm.run(actions, seconds)
        except BaseException:
            # Suspended processes have to end as well.
            with contextlib.suppress(Exception):
                storm.calm()
            raise
        if databases is not None:
            databases.calm()
        tell("All is well again; waiting until the connectors are at work")
        faults = [*storm.ended, *settle(cluster, every, tell)]
        if databases is not None and not faults:
            databases.wait_until_read()
            stop(cluster, every.keys() - configs.keys())
            faults += databases.faults()
            tell(f"Judged {databases}")
        faults += _growth(bystander, tell)
        reports = judge(cluster, configs, lines)
        logged = [error for slot in cluster.slots for error in slot.errors() if HOSTILE not in error]
    return Outcome(storm.done, storm.counts, reports, faults, logged)


def _create(cluster: Cluster, with_topics: Iterable[str], configs: dict[str, dict[str, str]]) -> None:
    topics = Topics(cluster.bootstrap_servers)
    for name in with_topics:
        topics.create(name, partitions=_PARTITIONS)
    for name, config in configs.items():
        ask_until_done(cluster, "PUT", f"/connectors/{name}/config", config)
    for name, config in configs.items():
        running = ["RUNNING"] * (int(config["tasks.max"]) + 1)
        cluster.slots[0].worker.wait_for_states(name, *running)


def _all_of(ticks: Sequence[Callable[[], None]]) -> Callable[[], None]:
    def tick() -> None:
        for one in ticks:
            one()

    return tick


def _growth(bystander: Bystander, tell: Tell) -> list[str]:
    """Judge the memory and the records of the worker that got no requests."""
    growth = Growth.of(bystander.samples)
    tell(f"The bystander grew by {growth}, {growth.total:.1f} MiB; {bystander.stopped()} records, each once")
    # A short run on a busy machine gives an uncertain slope, so only the growth beyond its margin counts.
    sure = growth.total * max(0.0, 1 - growth.margin / growth.per_hour) if growth.per_hour > 0 else 0.0
    if sure <= _MOST_GROWTH_MIB:
        return []
    return [f"a worker that nobody asked anything grew by {growth.total:.1f} MiB ({growth})"]


def _every(seconds: float, act: Callable[[], None]) -> Callable[[], None]:
    """A function that calls `act`, but not more often than every `seconds`."""
    due = time.monotonic()

    def tick() -> None:
        nonlocal due
        if time.monotonic() >= due:
            due = time.monotonic() + seconds
            act()

    return tick


def _writes_lines(path: Path) -> Callable[[], None]:
    """A function that appends a line to the file."""
    numbers = itertools.count(1)

    def write() -> None:
        with path.open("a") as file:
            file.write(line(next(numbers)))

    return write
