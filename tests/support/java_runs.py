"""A Java connector on a separate worker, which is killed and restarted."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path

import psutil

from tests.support.java_plugins import plugin_path
from tests.support.processes import Process, wait_for
from tests.support.topics import unique

_JSON = "org.apache.kafka.connect.json.JsonConverter"
_HOST = "fencepost.host.Host"


class JavaRuns:
    """The files of a worker with one connector, which one process after the other runs.

    `plugins` are names of `java_plugins`; `config` is the connector's.
    """

    def __init__(self, folder: Path, bootstrap_servers: str, plugins: list[str], config: Mapping[str, str]) -> None:
        self.group = unique("java")
        self.name = config["name"]
        self.offsets_topic = f"{self.group}-offsets"
        self._folder = folder
        self._runs = 0
        converters = {f"{part}.converter": _JSON for part in ("key", "value")}
        plain = {f"{part}.converter.schemas.enable": "false" for part in ("key", "value")}
        self._worker = self._file(
            "worker",
            {
                "bootstrap.servers": bootstrap_servers,
                "group.id": self.group,
                "offset.storage.topic": self.offsets_topic,
                "plugin.path": str(plugin_path(folder, *plugins)),
                "listeners": "http://127.0.0.1:0",
                **converters,
                **plain,
            },
        )
        self.config = {"exactly.once.support": "required", "task.restart.backoff.ms": "10", **config}

    def _file(self, name: str, properties: Mapping[str, str]) -> Path:
        file = self._folder / f"{name}.properties"
        # In properties files, a backslash begins an escape sequence.
        lines = (f"{name}={value}\n" for name, value in properties.items())
        file.write_text("".join(lines).replace("\\", "\\\\"))
        return file

    @contextlib.contextmanager
    def running(self, environment: Mapping[str, str] | None = None, **changed: str) -> Iterator[Process]:
        """Run the worker; `changed` are properties of the connector, with `_` for each dot."""
        self._runs += 1
        config = self.config | {name.replace("_", "."): value for name, value in changed.items()}
        arguments = ("standalone", str(self._worker), str(self._file("connector", config)))
        log_file = self._folder / f"run-{self._runs}.log"
        with Process.fencepost(*arguments, log_file=log_file, environment=environment) as process:
            yield process


def jvms(worker_pid: int) -> list[psutil.Process]:
    """The JVMs of Java connectors of a worker process."""
    found = []
    for one in psutil.Process(worker_pid).children(recursive=True):
        with contextlib.suppress(psutil.Error):
            if one.status() != psutil.STATUS_ZOMBIE and _HOST in one.cmdline():
                found.append(one)
    return found


def assert_hidden_from_other_processes(secret: str, worker_pid: int) -> None:
    """Assert that a secret is on no command line and in no environment of a worker's processes; one is a JVM."""
    assert jvms(worker_pid), "the worker has no JVM"
    worker = psutil.Process(worker_pid)
    for process in (worker, *worker.children(recursive=True)):
        with contextlib.suppress(psutil.NoSuchProcess):
            assert secret not in "".join((*process.cmdline(), *process.environ().values()))


def kill_jvms(worker_pid: int) -> None:
    """Kill these JVMs with SIGKILL, and wait for their end. There must be one: a connector in Python has none."""
    killed = jvms(worker_pid)
    assert killed, "the worker has no JVM"
    for one in killed:
        with contextlib.suppress(psutil.NoSuchProcess):
            one.kill()
    wait_for(lambda: not set(killed).intersection(jvms(worker_pid)), what="the JVMs have ended")
