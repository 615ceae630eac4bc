"""Drivers of Spark queries, killed at each step of a micro-batch, stopped and continued: each row is in Kafka once.

`make chaos-spark` kills at all steps, and repeats both tests with 20 seeds.
"""

from __future__ import annotations

import os
import random
import signal
import sys
from pathlib import Path

import psutil
import pytest

from fencepost.embedded.broker import EmbeddedBroker
from fencepost.failpoint import VARIABLE, FailPoint
from tests.support.checker import assert_exactly_once, read_topic, values
from tests.support.processes import Process, wait_for
from tests.support.spark_queries import FileQuery
from tests.support.spark_sink_app import WAIT
from tests.support.topics import Topics, unique

SEEDS = int(os.environ.get("FENCEPOST_TEST_SPARK_SEEDS", "1"))
_PATIENCE = 1_200
# Several sessions of Spark start one after the other in each test.
pytestmark = pytest.mark.timeout(3 * _PATIENCE)

# More than the driver writes itself. Each half has several times 64 KiB, by which rows pass from process to process.
_ROWS = 1_200
_PADDING = "x" * 1_000
_MID_WRITE = "mid-write"
POINTS = [
    FailPoint.BEFORE_BEGIN.value,
    FailPoint.AFTER_BEGIN.value,
    _MID_WRITE,
    FailPoint.BEFORE_OFFSETS.value,
    FailPoint.BEFORE_END_TXN.value,
    FailPoint.AFTER_END_TXN_SENT.value,
    FailPoint.BEFORE_CALLBACKS.value,
]


class Drivers:
    """Drivers of one query, one after the other, or at once."""

    def __init__(self, folder: Path, bootstrap_servers: str, chance: random.Random) -> None:
        self.bootstrap_servers = bootstrap_servers
        self.topic = Topics(bootstrap_servers).create(unique("killed"), partitions=chance.choice([1, 3]))
        self.folder = folder
        self.files = 0
        self.expected: set[str] = set()
        self._runs = 0

    def add(self, *, wait: bool = False) -> None:
        """Add a micro-batch; one that waits in the middle."""
        rows = [f"{self.files}-{number}-{_PADDING}" for number in range(_ROWS)]
        if wait:
            rows[_ROWS // 2] = WAIT
        self.expected |= set(rows)
        FileQuery.add(FileQuery(None, self.folder, lambda *_: None), *rows)  # type: ignore[arg-type]
        self.files += 1

    def start(self, *, dies_at: str | None = None) -> Process:
        self._runs += 1
        environment = {VARIABLE: dies_at} if dies_at else {}
        arguments = (self.bootstrap_servers, self.topic, str(self.folder), str(self.files))
        command = [sys.executable, "-m", "tests.support.spark_sink_app", *arguments]
        return Process(command, self.folder / f"run-{self._runs}.log", environment=environment)

    def finish(self) -> None:
        """Run to the end, undisturbed, and count."""
        with self.start() as driver:
            assert driver.wait(_PATIENCE) == 0, driver.output
        self.check()

    def check(self) -> None:
        """Fail unless each row is in the topic once."""
        found = [(value or b"").decode() for value in values(read_topic(self.bootstrap_servers, self.topic))]
        assert_exactly_once(found, self.expected)

    def go_on(self) -> None:
        """Let batches that wait go on, also those that are run again."""
        (self.folder / "go").touch()

    def is_mid_write(self) -> bool:
        """Whether a batch waits in the middle, with some of its records in Kafka and not committed."""
        if not (self.folder / "waiting").exists():
            return False
        visible, all_of_it = (
            len(read_topic(self.bootstrap_servers, self.topic, isolation=isolation))
            for isolation in ("read_committed", "read_uncommitted")
        )
        return all_of_it > visible


@pytest.fixture(params=range(SEEDS), ids=lambda number: f"seed {number}")
def chance() -> random.Random:
    seed = random.randrange(1_000_000)
    print(f"seed {seed}")  # noqa: T201 - pytest shows it when the test fails
    return random.Random(seed)


@pytest.fixture
def drivers(chance: random.Random, request: pytest.FixtureRequest, tmp_path: Path) -> Drivers:
    """On a broker of either transaction version."""
    broker: EmbeddedBroker = request.getfixturevalue(chance.choice(["broker", "tv1_broker"]))
    return Drivers(tmp_path, broker.bootstrap_servers, chance)


def test_a_driver_killed_at_steps_of_its_micro_batches(chance: random.Random, drivers: Drivers):
    points = chance.sample(POINTS, len(POINTS) if SEEDS > 1 else 2)
    for point in points:
        drivers.add(wait=point == _MID_WRITE)
        drivers.add()
        # At a start there may be a repeated batch, which is skipped, before the new ones.
        with drivers.start(dies_at=None if point == _MID_WRITE else f"{point}:{chance.randint(1, 2)}") as driver:
            if point == _MID_WRITE:
                wait_for(lambda: drivers.is_mid_write() or not driver.running, _PATIENCE)
                driver.kill()
                drivers.go_on()
            code = driver.wait(_PATIENCE)
        assert code == -signal.SIGKILL, f"not killed at {point} of {points}: {code}\n{driver.output[-3000:]}"
    drivers.finish()


def _tree(pid: int) -> list[psutil.Process]:
    process = psutil.Process(pid)
    return [process, *process.children(recursive=True)]


def test_a_driver_that_was_stopped_in_mid_write_is_fenced_by_the_next(drivers: Drivers):
    drivers.add(wait=True)
    drivers.add()
    with drivers.start() as zombie:
        wait_for(lambda: drivers.is_mid_write() or not zombie.running, _PATIENCE)
        stopped = _tree(zombie.pid)
        for process in stopped:
            process.suspend()
        drivers.go_on()
        drivers.finish()
        for process in stopped:
            process.resume()
        assert zombie.wait(_PATIENCE) != 0, zombie.output
    drivers.check()
