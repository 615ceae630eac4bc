"""Drivers that are killed one after the other, each with several sinks at different steps, and checks of the topics."""

from __future__ import annotations

import os
import random
import signal
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from fencepost.failpoint import FOLDER, FailPoint
from fencepost.spark.config.progress import SinkKey
from tests.support.checker import log_ends, read_topic, values
from tests.support.processes import Process, wait_for
from tests.support.spark_drivers import PATIENCE
from tests.support.spark_sink_app import WAIT
from tests.support.spark_visits import MID_WRITE, Visit, progress_partition, write_plan
from tests.support.topics import Topics, unique

_EPOCH = 1_700_000_000
_MANY = 1_200
"""More rows than the driver writes itself."""

_PADDING = "x" * 1_000
"""Padding that makes each half of many rows several times 64 KiB, the size of blocks between processes."""

_PARTITION = 0
"""The partition with the progress of all sinks."""

_COMMITTED = (FailPoint.AFTER_END_TXN_SENT, FailPoint.BEFORE_CALLBACKS)


@dataclass
class _Sink:
    """A sink with its topic and folder. The driver itself writes some batches of a `small` sink."""

    mode: str
    topic: str
    storage: str
    folder: Path
    small: bool
    batches: list[set[str]] = field(default_factory=list)
    committed: int = 0

    def add(self, chance: random.Random, *, wait: bool = False) -> None:
        """Add a file to the folder `next`."""
        number = len(self.batches)
        count = chance.choice([1, 30, _MANY]) if self.small else _MANY
        rows = [f"{number}-{row}-{_PADDING if wait else ''}" for row in range(count)]
        if wait:
            rows[count // 2] = f"{WAIT} {number}"
        file = self.folder / "next" / f"{number:04}.txt"
        file.write_text("".join(f"{row}\n" for row in rows))
        # Spark takes the files in the order of their times.
        os.utime(file, (_EPOCH + number, _EPOCH + number))
        self.batches.append(set(rows))

    def check(self, servers: str, committed: int) -> None:
        """Fail unless the topic has exactly the rows of this many batches, once."""
        found = self._count(servers)
        assert found == committed, f"{self.mode} {self.topic}: {found} batches are in Kafka and not {committed}"
        self.committed = committed

    def is_stable(self, servers: str) -> bool:
        """Whether the topic has no open transaction."""
        written, stable = log_ends(servers, self.topic)
        return written == stable

    def _count(self, servers: str) -> int:
        """The number of batches in the topic, each of which must be complete and in order."""
        rows = Counter((value or b"").decode() for value in values(read_topic(servers, self.topic)))
        doubled = [row[:40] for row, times in rows.items() if times > 1]
        assert not doubled, f"{self.mode} {self.topic}: {len(doubled)} rows more than once: {doubled[:5]}"
        count = 0
        while count < len(self.batches) and self.batches[count] <= rows.keys():
            count += 1
        other = rows.keys() - set().union(*self.batches[:count])
        assert not other, f"{self.mode} {self.topic}: {len(other)} rows besides {count} batches: {sorted(other)[:5]}"
        return count


class KilledDrivers:
    """One driver after the other, with as many sinks of each mode as there are `points`: one is killed at each point.

    The next driver writes the killed batch of each sink; most sinks then have one more batch written before they are
    killed again. The others are killed again in the repeated batch.
    """

    def __init__(
        self, folder: Path, servers: str, chance: random.Random, *, modes: Sequence[str], points: Sequence[str]
    ) -> None:
        self.kills = 0
        self._folder = folder
        self._servers = servers
        self._chance = chance
        self._points = points
        self._started = 0
        self._sinks = [sink for mode in modes for sink in self._new_sinks(mode, storage=unique("sinks"))]

    def _new_sinks(self, mode: str, *, storage: str) -> Iterator[_Sink]:
        """As many sinks as there are points. Their progress, and open records of killed sinks, are in one partition."""
        topics = Topics(self._servers)
        for number in range(len(self._points)):
            name = next(n for n in iter(partial(unique, "killed"), "") if progress_partition(SinkKey(n)) == _PARTITION)
            topics.create(name, partitions=self._chance.choice([1, 3]))
            for part in ("input", "next"):
                (self._folder / name / part).mkdir(parents=True)
            yield _Sink(mode, name, storage, self._folder / name, small=number > 4)

    def kill(self) -> None:
        """Run a driver until each sink is at a step, a different one for each sink of a mode, and check the topics."""
        visits = [(sink, self._visit(sink, point)) for sink, point in self._pairs()]
        self._chance.shuffle(visits)
        with self._start([visit for _, visit in visits], stops=True) as driver:
            code = driver.wait(2 * PATIENCE)
        assert code == -signal.SIGKILL, f"not killed: {code}\n{driver.output[-3000:]}"
        for sink, visit in visits:
            # A task that waits half-way may outlive its driver for a moment.
            (sink.folder / f"go {visit.files - 1}").touch()
            before = visit.files - 1 if visit.recovers else sink.committed
            if visit.point in _COMMITTED:
                # The broker may not have read the driver's last request yet.
                wait_for(partial(sink.is_stable, self._servers), what=f"{visit} has no open transaction")
            sink.check(self._servers, before + (visit.point in _COMMITTED))
        self.kills += len(visits)

    def finish(self) -> None:
        """Run a driver to the end without faults, and check the topics."""
        visits = [self._of(sink) for sink in self._sinks]
        with self._start(visits, stops=False) as driver:
            assert driver.wait(2 * PATIENCE) == 0, driver.output[-3000:]
        for sink in self._sinks:
            sink.check(self._servers, len(sink.batches))

    def _pairs(self) -> list[tuple[_Sink, str]]:
        """A point for each sink; each mode has all points. A small batch may be read before it is written."""
        pairs = []
        for mode in dict.fromkeys(sink.mode for sink in self._sinks):
            sinks = [sink for sink in self._sinks if sink.mode == mode]
            self._chance.shuffle(sinks)
            sinks.sort(key=lambda sink: sink.small)
            pairs += [(sinks.pop(0), point) for point in self._points if point == MID_WRITE]
            rest = [point for point in self._points if point != MID_WRITE]
            self._chance.shuffle(rest)
            pairs += list(zip(sinks, rest, strict=True))
        return pairs

    def _visit(self, sink: _Sink, point: str) -> Visit:
        sink.add(self._chance, wait=point == MID_WRITE)
        return self._of(sink, point, recovers=point == MID_WRITE or self._chance.random() < 2 / 3)

    def _of(self, sink: _Sink, point: str | None = None, *, recovers: bool = True) -> Visit:
        # The last committed run is written again. The killed run after it may have left an open record.
        first = max(0, sink.committed - 1)
        return Visit(sink.mode, sink.topic, sink.storage, str(sink.folder), first, len(sink.batches), point, recovers)

    def _start(self, visits: list[Visit], *, stops: bool) -> Process:
        self._started += 1
        name = f"driver-{self._started}"
        plan, orders = self._folder / f"{name}.json", self._folder / f"{name}-orders"
        write_plan(plan, visits)
        orders.mkdir()
        # Python imports the `sitecustomize` of the first folder that has one.
        folders = [str(Path(__file__).parent / "forked_steps"), os.environ.get("PYTHONPATH", "")]
        environment = {"PYTHONPATH": os.pathsep.join(filter(None, folders))}
        if stops:
            environment[FOLDER] = str(orders)
        command = [sys.executable, "-m", "tests.support.spark_visits", self._servers, str(plan)]
        return Process(command, self._folder / f"{name}.log", environment=environment)
