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

from fencepost.failpoint import FailPoint, of_task
from tests.support.checker import assert_exactly_once, read_offsets, read_topic, values
from tests.support.java_plugins import FILE_STREAM, NOTED, ODD, plugin_path
from tests.support.killed_worker import STRINGS, KilledWorker
from tests.support.processes import Process, wait_for
from tests.support.topics import Topics

KILLS = int(os.environ.get("FENCEPOST_TEST_KILLS", "3"))
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
        """Run to the end of the file, and compare what is there."""
        with self.running(batch_size=2_000):
            wait_for(lambda: self.read() >= LINES, what="all lines")
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


@pytest.mark.parametrize("step", ["poll", "read", "transform", "commitRecord", "commit"])
def test_a_jvm_that_ends_at_a_step_delivers_exactly_once(
    step: str, bootstrap_servers: str, topics: Topics, tmp_path: Path
):
    topic, halts, count = topics.create(), tmp_path / "halts", 6 * KILLS
    halts.mkdir()
    for number in range(KILLS):
        (halts / str(number)).touch()
    worker = KilledWorker(
        tmp_path,
        bootstrap_servers,
        {**STRINGS, "plugin.path": plugin_path(tmp_path), "listeners": "http://127.0.0.1:0"},
    )
    # A transform is between the poll and the converters.
    place = {"halt": step} if step != "transform" else {"transforms.odd.halts": halts}
    worker.configure(
        "numbers",
        {
            "connector.class": NOTED,
            "topic": topic,
            "limit": count,
            "notes": tmp_path / "notes",
            "halts": halts,
            "transforms": "odd",
            "transforms.odd.type": ODD,
            "transforms.odd.how": "drop",
            "transforms.odd.every": count + 1,
            "value.converter": "org.apache.kafka.connect.converters.LongConverter",
            "exactly.once.support": "required",
            "task.restart.backoff.ms": 10,
            **place,
        },
    )
    arguments, log_file = worker.command()
    with Process.fencepost(*arguments, log_file=log_file):
        wait_for(
            lambda: len(read_topic(bootstrap_servers, topic)) >= count and not list(halts.iterdir()),
            500,
            what="all numbers, and all ends of the JVM",
        )
    found = [int.from_bytes(value or b"") for value in values(read_topic(bootstrap_servers, topic))]
    assert found == list(range(1, count + 1))
    assert read_offsets(bootstrap_servers, worker.offsets_topic, "numbers") == [({"counter": "c"}, {"number": count})]


def test_a_jvm_killed_again_and_again_delivers_exactly_once(killed: KilledJava):
    with killed.running() as process:
        for _ in range(max(KILLS, 5)):
            seen = killed.read()
            wait_for(lambda: killed.read() > seen, what="progress")  # noqa: B023 - it is called at once
            for one in psutil.Process(process.pid).children(recursive=True):
                with contextlib.suppress(psutil.Error):
                    if "fencepost.host.Host" in one.cmdline():
                        one.kill()
    killed.assert_exactly_once()
