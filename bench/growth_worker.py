"""The worker that growth.py measures, its broker, and a reader of the records of its connectors."""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from fencepost.embedded.ports import free_ports
from fencepost.embedded.process import launch, terminate

FOLDER = Path(__file__).parent
LIMIT_SECONDS = 1_200.0
LOOK_SECONDS = 1.0
IDLE_SECONDS = 10.0
CONSUMED = 5_000
ON_ONE_CORE = ("/usr/bin/taskset", "-c", "0", "/usr/bin/nice", "-n", "10")


class Worker:
    """A worker process, its resource use, and requests to its REST API."""

    def __init__(self, file: Path, port: int, busy: int) -> None:
        # A worker that finds no Java does not start Spark, which these tasks do not need.
        environment = {"JAVA_HOME": "/nowhere", "PATH": "/nowhere", "PYTHONPATH": str(FOLDER)}
        changed = [f"{name}={value}" for name, value in environment.items()]
        self._log = file.with_suffix(".log")
        # nice and affinity are set before the start, as they belong to threads: new threads inherit them.
        beside = ON_ONE_CORE if busy else ()
        command = ["/usr/bin/env", *changed, *beside, sys.executable, "-m", "fencepost", "worker", str(file)]
        self._launched = launch(command, self._log)
        self.process = psutil.Process(self._launched.pid)
        self._port = port

    def request(self, method: str, path: str, body: Any = None) -> tuple[int, bytes]:
        """Send a request; return the status and the body of the answer. Raises OSError."""
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=LIMIT_SECONDS)
        try:
            content = None if body is None else json.dumps(body)
            connection.request(method, path, content, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            return answer.status, answer.read()
        except http.client.HTTPException as error:
            raise OSError(str(error)) from error
        finally:
            connection.close()

    def measured(self, method: str, path: str, body: Any = None) -> tuple[float, float, int]:
        """Send a request that must be answered 200; return seconds, the worker's CPU seconds and the body's size."""
        started, cpu = time.perf_counter(), self.cpu_seconds()
        status, answer = self.request(method, path, body)
        assert status == 200, answer
        return time.perf_counter() - started, self.cpu_seconds() - cpu, len(answer)

    def configure(self, name: str, config: Mapping[str, str]) -> None:
        """Create or change a connector; retry while the worker is too busy to do it."""

        def taken() -> bool:
            with suppress(OSError):
                status, body = self.request("PUT", f"/connectors/{name}/config", config)
                assert status in {200, 201, 409, 500, 503, 504}, body
                return status in {200, 201}
            return False

        wait_for(taken)

    def states(self) -> Counter[str] | None:
        """The number of tasks in each state; None if the worker does not answer."""
        with suppress(OSError, ValueError):
            _, body = self.request("GET", "/connectors?expand=status")
            return Counter(task["state"] for one in json.loads(body).values() for task in one["status"]["tasks"])
        return None

    def cpu_seconds(self) -> float:
        spent = self.process.cpu_times()
        return spent.user + spent.system

    def idle_cores(self) -> float:
        before, started = self.cpu_seconds(), time.perf_counter()
        time.sleep(IDLE_SECONDS)
        return (self.cpu_seconds() - before) / (time.perf_counter() - started)

    def times_lost(self) -> int:
        return self._log.read_text(errors="replace").count("is out of its group")

    def figures(self) -> dict[str, float]:
        """The process's memory, threads, connections and file descriptors."""
        return {
            "MB": self.process.memory_info().rss / 1e6,
            "threads": self.process.num_threads(),
            "connections": len(self.process.net_connections("tcp")),
            "descriptors": self.process.num_fds(),
        }

    def close(self) -> None:
        terminate(self._launched, 60)


class Lines:
    """Counts the committed records of a topic."""

    def __init__(self, bootstrap_servers: str, topic: str) -> None:
        self._consumer = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": "growth"})
        self._consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        self._found = 0

    def count(self) -> int:
        while found := self._consumer.consume(CONSUMED, timeout=LOOK_SECONDS):
            self._found += sum(message.error() is None for message in found)
        return self._found

    def close(self) -> None:
        self._consumer.close()


class Site:
    """A broker, and the start of a new worker for each size."""

    def __init__(self, folder: Path, bootstrap_servers: str, busy: int) -> None:
        self.folder = folder
        self._bootstrap_servers = bootstrap_servers
        self._busy = busy
        self._workers = 0

    def lines(self, topic: str) -> Lines:
        """Create a topic, and count its records."""
        admin = AdminClient({"bootstrap.servers": self._bootstrap_servers})
        admin.create_topics([NewTopic(topic, 1)])[topic].result()
        return Lines(self._bootstrap_servers, topic)

    @contextmanager
    def worker(self) -> Iterator[Worker]:
        (port,) = free_ports(1)
        self._workers += 1
        group = f"growth-{self._workers}"
        properties = {
            "bootstrap.servers": self._bootstrap_servers,
            "group.id": group,
            "exactly.once.source.support": "enabled",
            "listeners": f"http://127.0.0.1:{port}",
            "plugin.path": str(FOLDER),
            "fencepost.files.allowed.paths": str(self.folder),
            "session.timeout.ms": "10000",
            **{f"{kind}.storage.topic": f"{group}-{kind}" for kind in ("config", "offset", "status")},
            **{f"{kind}.converter": "org.apache.kafka.connect.storage.StringConverter" for kind in ("key", "value")},
        }
        file = self.folder / f"{group}.properties"
        file.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
        worker = Worker(file, port, self._busy)
        try:
            wait_for(lambda: answers(worker))
            yield worker
        finally:
            worker.close()


def answers(worker: Worker) -> bool:
    with suppress(OSError):
        return worker.request("GET", "/health")[0] == 200
    return False


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + LIMIT_SECONDS
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {LIMIT_SECONDS:.0f} s")
        time.sleep(LOOK_SECONDS)


def burner() -> subprocess.Popen[bytes]:
    """Start a busy loop that competes with the worker for its core.

    Linux gives each session the same share of a core (kernel.sched_autogroup_enabled), so several burners in one session
    would take no more from the worker than one.
    """
    return subprocess.Popen([*ON_ONE_CORE, sys.executable, "-c", "while 1: pass"], start_new_session=True)
