"""The worker of a demo with a database: its files, and how it is run, killed, and run to the end."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from fencepost.api.errors import FencepostError

_STALL_SECONDS: Final = 240.0
_DRAIN_SECONDS: Final = 240.0

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


@dataclass(frozen=True, slots=True)
class DemoWorker:
    """The files of a worker and its connector, and its log."""

    worker: Path
    connector: Path
    log: Path

    @classmethod
    def lay_out(cls, folder: Path, bootstrap: str, connector: str) -> DemoWorker:
        """Write the files; `connector` is the content of the connector's."""
        files = cls(folder / "worker.properties", folder / "connector.properties", folder / "worker.log")
        files.worker.write_text(_WORKER.format(bootstrap=bootstrap))
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
        self, worker: subprocess.Popen[bytes], position: Callable[[], str | None], between: tuple[int, int]
    ) -> None:
        """Wait for some commits, a random number: after each commit in Kafka the worker advances its slot."""
        positions: set[str | None] = set()
        wanted = random.randint(*between)  # noqa: S311 - chance, not secrecy
        deadline = time.monotonic() + _STALL_SECONDS
        while len(positions) < wanted:
            if worker.poll() is not None or time.monotonic() > deadline:
                raise FencepostError(f"The worker does not go on; the end of its log:\n{self._tail()}")
            positions.add(position())
            time.sleep(0.01)

    def drain(self) -> None:
        """Run the worker to the end of PostgreSQL's log."""
        with self.running("--once") as worker:
            with suppress(subprocess.TimeoutExpired):
                worker.wait(_DRAIN_SECONDS)
            if worker.returncode != 0:
                raise FencepostError(f"The worker did not finish; the end of its log:\n{self._tail()}")

    def _tail(self, lines: int = 15) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])
