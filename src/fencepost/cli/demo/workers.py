"""The worker of a demo, and the servers of a demo with a database: how they are started, killed, and run to the end."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from rich.console import Console

from fencepost.api.errors import ConfigError, FencepostError
from fencepost.api.extras import how_to_install
from fencepost.embedded.broker import EmbeddedBroker
from fencepost.embedded.postgres import EmbeddedPostgres

KILLS: Final = 2
"""How often a demo kills its worker."""

LINE_SECONDS: Final = 5.0
"""The interval between lines about a wait."""

_STALL_SECONDS: Final = 240.0
_DRAIN_SECONDS: Final = 240.0
_STOP_SECONDS: Final = 30.0
_SHOWN_LINES: Final = 15

_DATABASE: Final = """\
connector.class=PostgresSource
database.hostname=127.0.0.1
database.port={port}
database.user=postgres
database.dbname=postgres
exactly.once.support=required
topic.creation.default.partitions=2
topic.creation.default.replication.factor=1
"""

_WORKER: Final = """\
bootstrap.servers={bootstrap}
group.id=demo
offset.storage.topic=demo-offsets
listeners=http://127.0.0.1:0
key.converter=org.apache.kafka.connect.json.JsonConverter
key.converter.schemas.enable=false
value.converter=org.apache.kafka.connect.json.JsonConverter
value.converter.schemas.enable=false
"""


def require_packages(*packages: tuple[str, str]) -> None:
    """Raise ConfigError for the first missing package. Each package is paired with the extra that installs it."""
    for package, extra in packages:
        if find_spec(package) is None:
            raise ConfigError(f"The demo needs the package {package}: run: {how_to_install(extra)}")


class WaitLines:
    """Prints how far a demo is, every few seconds of a wait."""

    def __init__(self, console: Console, progress: Callable[[], str]) -> None:
        self._console = console
        self._progress = progress
        self._started = self._shown = time.monotonic()

    def show(self) -> None:
        """Print a line if the last one is some seconds ago."""
        now = time.monotonic()
        if now - self._shown > LINE_SECONDS:
            self._console.print(f"... {self._progress()} ({now - self._started:.0f} s)")
            self._shown = now


@dataclass(frozen=True, slots=True)
class DemoServers:
    """The servers of a demo, and a folder for its files."""

    folder: Path
    postgres: EmbeddedPostgres
    bootstrap: str

    @classmethod
    @contextmanager
    def running(cls, console: Console) -> Iterator[DemoServers]:
        """Run the servers within the block. Raises ConfigError for a missing package."""
        require_packages(("psycopg", "postgres"), ("confluent_kafka", "demo"))
        with tempfile.TemporaryDirectory(prefix="fencepost-demo-") as folder, EmbeddedPostgres() as postgres:
            console.print("Starting PostgreSQL and a Kafka broker (the first time its jars are fetched) ...")
            with EmbeddedBroker(Path(folder) / "broker") as broker:
                yield cls(Path(folder), postgres, broker.bootstrap_servers)

    def worker(self, connector: str) -> DemoWorker:
        """Return a worker with a PostgresSource.

        `connector` is the content of its file, except for the properties of the database.
        """
        return DemoWorker.lay_out(self.folder, self.bootstrap, connector + _DATABASE.format(port=self.postgres.port))


@dataclass(frozen=True, slots=True)
class DemoWorker:
    """The files of a worker and its connector, and its log."""

    worker: Path
    connector: Path
    log: Path

    @classmethod
    def lay_out(cls, folder: Path, bootstrap: str, connector: str, more: str = "") -> DemoWorker:
        """Write the files.

        `connector` is the content of the connector's file; `more` has more properties of the worker.
        """
        files = cls(folder / "worker.properties", folder / "connector.properties", folder / "worker.log")
        files.worker.write_text(_WORKER.format(bootstrap=bootstrap) + more)
        files.connector.write_text(connector)
        return files

    @contextmanager
    def running(self, *options: str) -> Iterator[subprocess.Popen[bytes]]:
        """Run the worker within the block; it is killed at the end."""
        command = [sys.executable, "-m", "fencepost", "standalone", *options, str(self.worker), str(self.connector)]
        with self.log.open("ab") as log:
            worker = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
        try:
            yield worker
        finally:
            worker.kill()
            worker.wait()

    def wait_for_commits(
        self,
        worker: subprocess.Popen[bytes],
        position: Callable[[], str | None],
        between: tuple[int, int],
        lines: WaitLines,
    ) -> None:
        """Wait for a random number of commits. `position` must return another value after each commit in Kafka."""
        positions: set[str | None] = set()
        wanted = random.randint(*between)  # noqa: S311 - chance, not secrecy
        deadline = time.monotonic() + _STALL_SECONDS
        while len(positions) < wanted:
            if worker.poll() is not None or time.monotonic() > deadline:
                raise FencepostError(f"The worker does not go on; the end of its log:\n{end_of_log(self.log)}")
            positions.add(position())
            lines.show()
            time.sleep(0.01)

    def run_with_kills(
        self,
        console: Console,
        position: Callable[[], str | None],
        between: tuple[int, int],
        progress: Callable[[], str],
    ) -> None:
        """Kill the worker KILLS times, each time after some commits; then let it make some more commits, and stop it.

        `position` and `between` are passed on to `wait_for_commits`. `progress` returns a text about the database's
        content.
        """
        for kill in range(1, KILLS + 1):
            with self.running() as worker:
                console.print(
                    f"Worker {worker.pid} started; it is killed after some commits, kill {kill} of {KILLS} ..."
                )
                self.wait_for_commits(worker, position, between, WaitLines(console, progress))
            console.print(f"Worker {worker.pid} killed (SIGKILL) after {progress()}; restarting.")
        with self.running() as worker:
            console.print(f"Worker {worker.pid} started again; it is stopped after some commits ...")
            self.wait_for_commits(worker, position, between, WaitLines(console, progress))
            worker.send_signal(signal.SIGTERM)
            with suppress(subprocess.TimeoutExpired):
                worker.wait(_STOP_SECONDS)

    def drain(self) -> None:
        """Run the worker to the end of PostgreSQL's log."""
        with self.running("--once") as worker:
            with suppress(subprocess.TimeoutExpired):
                worker.wait(_DRAIN_SECONDS)
            if worker.returncode != 0:
                raise FencepostError(f"The worker did not finish; the end of its log:\n{end_of_log(self.log)}")


def end_of_log(log: Path) -> str:
    """Return the last lines of a worker's log, for a message."""
    return "\n".join(log.read_text(errors="replace").splitlines()[-_SHOWN_LINES:])
