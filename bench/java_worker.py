"""A worker of bench/java_connectors.py, fencepost's or Kafka Connect's: its REST API, its CPU and its memory."""

from __future__ import annotations

import contextlib
import http.client
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil

from fencepost.embedded.process import launch

_LOOK_S = 0.02
_LIMIT_S = 600


class Worker:
    """A running worker. `answer` is the body of its last answer."""

    def __init__(self, command: list[str], log: Path, port: int) -> None:
        self.process = launch(command, log)
        self.port = port
        self.answer = b""

    def request(self, method: str, path: str, body: Any = None) -> int:
        """Send a request, and return the answer's status."""
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=_LIMIT_S)) as connection:
            content = None if body is None else json.dumps(body)
            connection.request(method, path, content, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            self.answer = answer.read()
            return answer.status

    def create(self, name: str, config: dict[str, str]) -> None:
        """Create a connector."""
        assert self.request("PUT", f"/connectors/{name}/config", config) == 201, self.answer

    def wait_until_ready(self) -> None:
        def ready() -> bool:
            assert self.process.poll() is None, "the worker has ended"
            with contextlib.suppress(OSError):
                return self.request("GET", "/health") == 200
            return False

        wait_for(ready)

    def wait_for_task(self, name: str, state: str) -> None:
        """Wait until the only task of a connector is in a state."""

        def reached() -> bool:
            self.request("GET", f"/connectors/{name}/status")
            return [task["state"] for task in json.loads(self.answer).get("tasks", ())] == [state]

        wait_for(reached)

    def cpu_seconds(self) -> float:
        """The CPU of the worker and of all its processes."""
        total = 0.0
        for one in self._processes():
            with contextlib.suppress(psutil.NoSuchProcess):
                total += sum(one.cpu_times()[:2])
        return total

    def jvm_mib(self) -> float:
        """The resident memory of the largest JVM, which Kafka Connect's worker is itself."""
        found = [0]
        for one in self._processes():
            with contextlib.suppress(psutil.NoSuchProcess):
                if one.name() == "java":
                    found.append(one.memory_info().rss)
        return max(found) / 2**20

    def _processes(self) -> list[psutil.Process]:
        worker = psutil.Process(self.process.pid)
        return [worker, *worker.children(recursive=True)]


def wait_for(condition: Callable[[], object]) -> None:
    """Wait until a condition holds."""
    deadline = time.monotonic() + _LIMIT_S
    while not condition():
        assert time.monotonic() < deadline, "nothing happens any more"
        time.sleep(_LOOK_S)
