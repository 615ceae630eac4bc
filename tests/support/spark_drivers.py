"""Drivers of Spark queries in separate processes, which tests kill, and the check of the topic at the end."""

from __future__ import annotations

import random
import sys
from pathlib import Path

import psutil

from tests.support.checker import assert_exactly_once, read_topic, values
from tests.support.processes import Process
from tests.support.spark_queries import FileQuery
from tests.support.spark_sink_app import WAIT
from tests.support.topics import Topics, unique

PATIENCE = 1_200

# More rows than the driver writes itself. Each half is several times 64 KiB, the size of blocks between processes.
_ROWS = 1_200
_PADDING = "x" * 1_000
MODES = ["query", "runs", "format query", "format runs"]


class Drivers:
    """Drivers of one query, one after the other or concurrently. `mode` is a mode of spark_sink_app."""

    def __init__(self, folder: Path, bootstrap_servers: str, chance: random.Random, *, mode: str = "query") -> None:
        self.bootstrap_servers = bootstrap_servers
        self.topic = Topics(bootstrap_servers).create(unique("killed"), partitions=chance.choice([1, 3]))
        self.folder = folder
        self.files = 0
        self.expected: set[str] = set()
        self._started = 0
        self._mode = mode

    def add(self, *, wait: bool = False) -> None:
        """Add a micro-batch whose task waits half-way."""
        rows = [f"{self.files}-{number}-{_PADDING}" for number in range(_ROWS)]
        if wait:
            rows[_ROWS // 2] = WAIT
        self.expected |= set(rows)
        FileQuery.add(FileQuery(None, self.folder, lambda *_: None), *rows)  # type: ignore[arg-type]
        self.files += 1

    def start(self) -> Process:
        self._started += 1
        arguments = (self.bootstrap_servers, self.topic, str(self.folder), str(self.files), self._mode)
        command = [sys.executable, "-m", "tests.support.spark_sink_app", *arguments]
        return Process(command, self.folder / f"run-{self._started}.log")

    def finish(self) -> None:
        """Run a driver to the end without faults, and check the topic."""
        with self.start() as driver:
            assert driver.wait(PATIENCE) == 0, driver.output
        self.check()

    def check(self) -> None:
        """Fail unless each row is in the topic once."""
        found = [(value or b"").decode() for value in values(read_topic(self.bootstrap_servers, self.topic))]
        assert_exactly_once(found, self.expected)

    def go_on(self) -> None:
        """Let waiting batches go on, also repeated ones."""
        (self.folder / "go").touch()

    def is_mid_write(self) -> bool:
        """Whether a batch waits half-way, with some uncommitted records in Kafka."""
        if not (self.folder / "waiting").exists():
            return False
        visible, all_of_it = (
            len(read_topic(self.bootstrap_servers, self.topic, isolation=isolation))
            for isolation in ("read_committed", "read_uncommitted")
        )
        return all_of_it > visible


def processes_of(driver: Process) -> list[psutil.Process]:
    """A driver, its JVM and its Python workers."""
    process = psutil.Process(driver.pid)
    return [process, *process.children(recursive=True)]
