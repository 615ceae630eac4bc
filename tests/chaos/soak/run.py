"""A soak from start to end."""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from fencepost.cli.verify_report import VerifyReport
from tests.chaos.soak.bank import running_bank
from tests.chaos.soak.cluster import Cluster, running_cluster
from tests.chaos.soak.schedule import Action, Size
from tests.chaos.soak.sources import configurations, line
from tests.chaos.soak.storm import HOSTILE, Storm, Tell, ask_until_done
from tests.chaos.soak.verdict import judge, settle, stop
from tests.support.topics import Topics

_LINE_EVERY_SECONDS = 0.2
_PARTITIONS = 3


@dataclass(frozen=True)
class Outcome:
    """How many actions were done, the report of each connector's topic, and what else is wrong.

    `logged` are the errors in the workers' logs, among them tasks that were FAILED for a while: to be read by a human.
    """

    actions: int
    reports: dict[str, VerifyReport]
    faults: list[str]
    logged: list[str]

    @property
    def sound(self) -> bool:
        """Whether all is as it should be."""
        return not self.faults and all(report.sound and report.records for report in self.reports.values())


def soak(folder: Path, actions: Iterable[Action], seconds: float, size: Size, tell: Tell) -> Outcome:
    """Shake a new cluster for some time, let it settle, and judge."""
    lines = folder / "lines.txt"
    lines.touch()
    configs = dict(itertools.islice(configurations(lines).items(), size.connectors))
    with contextlib.ExitStack() as stack:
        cluster = stack.enter_context(
            running_cluster(folder, workers=size.workers, brokers=size.brokers, session_s=size.session_s)
        )
        bank = None
        if size.postgres:
            bank = stack.enter_context(
                running_bank(folder, cluster.bootstrap_servers, replicas=size.brokers, seed=size.connectors)
            )
        captured = {} if bank is None else {bank.name: bank.config}
        _create(cluster, configs | captured)
        tell(f"{size.workers} workers run {', '.join([*configs, *captured])}")
        ticks = [_writes_lines(lines)] if bank is None else [_writes_lines(lines), bank.tick]
        storm = Storm(cluster, configs | captured, tell, _all_of(ticks), bank)
        try:
            storm.run(actions, seconds)
        except BaseException:
            # What is frozen has to end as well.
            with contextlib.suppress(Exception):
                storm.calm()
            raise
        tell("All is well again; waiting until the connectors are at work")
        faults = [*storm.ended, *settle(cluster, configs | captured, tell)]
        if bank is not None and not faults:
            bank.wait_until_captured()
            stop(cluster, [bank.name])
            faults += bank.faults()
        reports = judge(cluster, configs, lines)
        logged = [error for slot in cluster.slots for error in slot.errors() if HOSTILE not in error]
    return Outcome(storm.done, reports, faults, logged)


def _create(cluster: Cluster, configs: dict[str, dict[str, str]]) -> None:
    topics = Topics(cluster.bootstrap_servers)
    for name, config in configs.items():
        topics.create(name, partitions=_PARTITIONS)
        ask_until_done(cluster, "PUT", f"/connectors/{name}/config", config)
    for name, config in configs.items():
        running = ["RUNNING"] * (int(config["tasks.max"]) + 1)
        cluster.slots[0].worker.wait_for_states(name, *running)


def _all_of(ticks: Sequence[Callable[[], None]]) -> Callable[[], None]:
    def tick() -> None:
        for one in ticks:
            one()

    return tick


def _writes_lines(path: Path) -> Callable[[], None]:
    """A function that adds a line to the file now and then."""
    numbers = itertools.count(1)
    due = time.monotonic()

    def write() -> None:
        nonlocal due
        if time.monotonic() >= due:
            due = time.monotonic() + _LINE_EVERY_SECONDS
            with path.open("a") as file:
                file.write(line(next(numbers)))

    return write
