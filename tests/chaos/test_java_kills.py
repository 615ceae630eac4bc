"""A worker, or the JVM of a Java connector, that is killed again and again loses nothing and doubles nothing.

`make chaos` kills each 20 times at each of its steps.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
from collections.abc import Iterator, Mapping
from pathlib import Path

import psutil
import pytest

from fencepost.failpoint import FOLDER, FailPoint, of_task
from tests.support.checker import assert_exactly_once, read_offsets, read_topic, values
from tests.support.java_plugins import FILE_STREAM, HALTING_LONGS, NOTED, ODD, plugin_path
from tests.support.java_runs import kill_jvms
from tests.support.killed_worker import STRINGS, KilledWorker
from tests.support.processes import Process, wait_for
from tests.support.topics import Topics

KILLS = int(os.environ.get("FENCEPOST_TEST_KILLS", "2"))
LINES = 40_000


class KilledJava:
    """One Java connector over one file, run by one worker process after the other."""

    def __init__(self, folder: Path, bootstrap_servers: str, topic: str, chance: random.Random) -> None:
        self.file = folder / "in.txt"
        self.file.write_text("".join(f"line {number}\n" for number in range(LINES)))
        self.chance = chance
        self._servers, self._topic = bootstrap_servers, topic
        settings = {**STRINGS, "plugin.path": plugin_path(folder), "listeners": "http://127.0.0.1:0"}
        self._worker = KilledWorker(folder, bootstrap_servers, settings)

    @contextlib.contextmanager
    def running(
        self, environment: Mapping[str, str] | None = None, *, batch_size: int | None = None
    ) -> Iterator[Process]:
        self._worker.configure(
            "lines",
            {
                "connector.class": FILE_STREAM,
                "file": self.file,
                "topic": self._topic,
                "batch.size": batch_size or self.chance.randint(20, 150),
                "transaction.boundary": self.chance.choice(["poll", "interval"]),
                "transaction.boundary.interval.ms": 5,
                "exactly.once.support": "required",
                "task.restart.backoff.ms": 10,
            },
        )
        arguments, log_file = self._worker.command()
        with Process.fencepost(*arguments, log_file=log_file, environment=environment) as process:
            yield process

    def read(self) -> int:
        return len(read_topic(self._servers, self._topic))

    def assert_exactly_once(self) -> None:
        """Run to the end of the file, and check that each line is in the topic once."""
        with self.running(batch_size=2_000) as process:
            try:
                wait_for(lambda: self.read() >= LINES, what="all lines")
            except AssertionError as error:
                raise AssertionError(f"{self.read()} of {LINES} lines:\n{process.output[-4000:]}") from error
        assert_exactly_once(
            values(read_topic(self._servers, self._topic)), [b"line %d" % number for number in range(LINES)]
        )
        offsets = read_offsets(self._servers, self._worker.offsets_topic, "lines")
        assert offsets == [({"filename": str(self.file)}, {"position": self.file.stat().st_size})]


@pytest.fixture
def killed(bootstrap_servers: str, topics: Topics, tmp_path: Path, chance: random.Random) -> KilledJava:
    return KilledJava(tmp_path, bootstrap_servers, topics.create(partitions=chance.choice([1, 3])), chance)


@pytest.mark.parametrize("point", FailPoint)
def test_a_worker_killed_at_a_step_delivers_a_java_connector_exactly_once(point: FailPoint, killed: KilledJava):
    for _ in range(KILLS):
        with killed.running(of_task(point, killed.chance.randint(1, 5))) as process:
            assert process.wait() == -signal.SIGKILL, process.output
    killed.assert_exactly_once()


@pytest.mark.parametrize("point", FailPoint)
def test_a_jvm_killed_while_the_worker_stands_at_a_step_delivers_exactly_once(
    point: FailPoint, killed: KilledJava, tmp_path: Path
):
    orders = tmp_path / "orders"
    orders.mkdir()
    order, held = (orders / f"{state}{point.value} None" for state in ("", "held "))
    with killed.running({FOLDER: str(orders)}, batch_size=20) as process:
        for _ in range(KILLS):
            seen = killed.read()
            wait_for(lambda: killed.read() > seen, what="progress")  # noqa: B023 - it is called at once
            order.touch()
            wait_for(held.exists, what=f"the worker is at {point}")
            kill_jvms(process.pid)
            held.unlink()
        ended = "The JVM of connector lines has ended: it was killed (SIGKILL)"
        wait_for(lambda: process.output.count(ended) >= KILLS, what="the JVM was killed each time")
    killed.assert_exactly_once()


class HaltingNumbers:
    """A connector whose JVM ends by itself at a step, as often as KILLS says, run by one worker after the other."""

    def __init__(self, folder: Path, bootstrap_servers: str, topic: str, step: str, *, numbers: int = 6) -> None:
        """`numbers` is how many numbers there are for each end of the JVM."""
        self.count = numbers * KILLS
        self.halts = folder / "halts"
        self.halts.mkdir()
        for number in range(KILLS):
            (self.halts / str(number)).touch()
        self._servers, self._topic = bootstrap_servers, topic
        settings = {**STRINGS, "plugin.path": plugin_path(folder), "listeners": "http://127.0.0.1:0"}
        self._worker = KilledWorker(folder, bootstrap_servers, settings)
        self._worker.configure(
            "numbers",
            {
                "connector.class": NOTED,
                "topic": topic,
                "limit": self.count,
                "notes": folder / "notes",
                "halt": step,
                "halts": self.halts,
                "transforms": "odd",
                "transforms.odd.type": ODD,
                "transforms.odd.how": "drop",
                "transforms.odd.every": self.count + 1,
                "value.converter": HALTING_LONGS,
                "exactly.once.support": "required",
                # A connector that ends in its start makes no progress between the restarts.
                "task.restart.max": -1,
                "task.restart.backoff.ms": 0,
                # The step `transform` is between the poll and the converters.
                **{f"{place}.halts": self.halts for name, place in _PLACES.items() if name == step},
            },
        )

    @contextlib.contextmanager
    def running(self) -> Iterator[Process]:
        arguments, log_file = self._worker.command()
        with Process.fencepost(*arguments, log_file=log_file) as process:
            yield process

    def numbers(self) -> list[int]:
        return [int.from_bytes(value or b"") for value in values(read_topic(self._servers, self._topic))]

    def assert_exactly_once(self) -> None:
        assert self.numbers() == list(range(1, self.count + 1))
        offsets = read_offsets(self._servers, self._worker.offsets_topic, "numbers")
        assert offsets == [({"counter": "c"}, {"number": self.count})]


_PLACES = {"transform": "transforms.odd", "convert": "value.converter"}
_STEPS = ("connector.start", "connector.taskConfigs", "task.start", "poll", "read", "transform", "convert")


@pytest.mark.parametrize("step", [*_STEPS, "commitRecord", "commit"])
def test_a_jvm_that_ends_at_a_step_delivers_exactly_once(
    step: str, bootstrap_servers: str, topics: Topics, tmp_path: Path
):
    halting = HaltingNumbers(tmp_path, bootstrap_servers, topics.create(), step)
    with halting.running() as process:
        wait_for(
            lambda: (
                not process.running or (len(halting.numbers()) >= halting.count and not any(halting.halts.iterdir()))
            ),
            500,
            what="all numbers, and all ends of the JVM",
        )
        assert process.running, process.output
    halting.assert_exactly_once()


@pytest.mark.parametrize("step", ["connector.stop", "task.stop"])
def test_a_jvm_that_ends_while_its_connector_stops_delivers_exactly_once(
    step: str, bootstrap_servers: str, topics: Topics, tmp_path: Path
):
    halting = HaltingNumbers(tmp_path, bootstrap_servers, topics.create(), step, numbers=300)
    for left in reversed(range(KILLS)):
        with halting.running() as process:
            seen = len(halting.numbers())
            wait_for(lambda: len(halting.numbers()) > seen, what="progress")  # noqa: B023 - it is called at once
            process.signal(signal.SIGTERM)
            assert process.wait() == 0, process.output
        assert len(list(halting.halts.iterdir())) == left
    with halting.running():
        wait_for(lambda: len(halting.numbers()) >= halting.count, what="all numbers")
    halting.assert_exactly_once()


def test_a_jvm_killed_again_and_again_delivers_exactly_once(killed: KilledJava):
    with killed.running() as process:
        for _ in range(max(KILLS, 5)):
            seen = killed.read()
            # A fast machine reads the whole file before the last kill.
            wait_for(lambda: killed.read() > min(seen, LINES - 1), what=f"progress after {seen} lines")  # noqa: B023 - called at once
            for one in psutil.Process(process.pid).children(recursive=True):
                with contextlib.suppress(psutil.Error):
                    if "fencepost.host.Host" in one.cmdline():
                        one.kill()
    killed.assert_exactly_once()
