"""Workers that are killed at steps of their transactions, one after the other with the same connectors."""

from __future__ import annotations

import json
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path

from fencepost.failpoint import VARIABLE, FailPoint
from tests.support.processes import Process
from tests.support.topics import unique

STRINGS = {
    "key.converter": "org.apache.kafka.connect.storage.StringConverter",
    "value.converter": "org.apache.kafka.connect.storage.StringConverter",
}
JSON_VALUES = {
    "key.converter": "org.apache.kafka.connect.storage.StringConverter",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter.schemas.enable": "false",
}


class KilledWorker:
    """The worker and its connectors in a folder. `settings` are further worker properties, mainly converters."""

    def __init__(self, folder: Path, bootstrap_servers: str, settings: Mapping[str, str]) -> None:
        self.group = unique("killed")
        self.offsets_topic = f"{self.group}-offsets"
        self._folder = folder
        self._runs = 0
        self._connectors: dict[str, Path] = {}
        self._worker = folder / "worker.properties"
        given = {
            "bootstrap.servers": bootstrap_servers,
            "group.id": self.group,
            "offset.storage.topic": self.offsets_topic,
            **settings,
        }
        self._worker.write_text("".join(f"{name}={value}\n" for name, value in given.items()))

    def configure(self, name: str, properties: Mapping[str, object]) -> None:
        """Write the configuration of a connector, for the next runs."""
        path = self._connectors[name] = self._folder / f"{name}.json"
        path.write_text(json.dumps({"name": name, **{key: str(value) for key, value in properties.items()}}))

    def command(self, *options: str) -> tuple[Sequence[str], Path]:
        """Return the arguments of the next run, and its log file."""
        self._runs += 1
        arguments = ("standalone", *options, str(self._worker), *map(str, self._connectors.values()))
        return arguments, self._folder / f"run-{self._runs}.log"

    def run(self, environment: Mapping[str, str] | None = None, *, forked: bool = True) -> tuple[int, str]:
        """Run to the end of the sources, or until it dies; return the exit code and the output."""
        arguments, log_file = self.command("--once")
        start = Process.forked if forked else Process.fencepost
        with start(*arguments, log_file=log_file, environment=environment or {}) as process:
            return process.wait(480), process.output

    def run_until(self, point: FailPoint | None, environment: Mapping[str, str], *, forked: bool = True) -> str:
        """Run until the process is killed at the point, or to the end without a point; return the output."""
        code, output = self.run(environment, forked=forked)
        expected = 0 if point is None else -signal.SIGKILL
        assert code == expected, f"run {self._runs} ended with {code} at {point}\n{output}"
        return output


def at(point: FailPoint | None, number: int) -> dict[str, str]:
    """The environment in which a worker kills itself at the n-th hit of a point; empty without a point."""
    return {} if point is None else {VARIABLE: f"{point.value}:{number}"}
