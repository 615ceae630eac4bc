"""Workers of a group as separate processes, and a client of their REST API."""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from fencepost import failpoint
from fencepost.embedded.ports import free_ports
from fencepost.herder.peers.request_signing import signed_headers
from tests.support.checker import read_topic
from tests.support.processes import Process, wait_for
from tests.support.rest_fuzz import Request
from tests.support.topics import unique

STRING = "org.apache.kafka.connect.storage.StringConverter"

# Workers that find no Java do not start Spark: these tests do not need it, and it would take most of the machine.
NO_JAVA = {"JAVA_HOME": "/nowhere", "PATH": "/nowhere"}


@dataclass(frozen=True)
class Answer:
    status: int
    body: Any
    headers: Mapping[str, str]


def signed(method: str, path: str, body: bytes, key: bytes) -> dict[str, str]:
    """The headers with which a fencepost worker signs a request to another worker."""
    return signed_headers(method, path, body, key, now_ms=time.time_ns() // 1_000_000)


class WorkerApi:
    """Requests to a worker, in whichever process it runs."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.url = f"http://127.0.0.1:{port}"
        self.id = f"127.0.0.1:{port}"

    def request(self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None) -> Answer:
        with contextlib.closing(self._connection()) as connection:
            content = None if body is None else json.dumps(body)
            connection.request(method, path, content, {"Content-Type": "application/json", **(headers or {})})
            response = connection.getresponse()
            text = response.read()
            return Answer(response.status, json.loads(text) if text else None, dict(response.getheaders()))

    def get(self, path: str) -> Any:
        """The body of a GET; None if it was not answered with 200."""
        answer = self.request("GET", path)
        return answer.body if answer.status == 200 else None

    def text(self, path: str, headers: Mapping[str, str] | None = None) -> str:
        """The body of a GET as text."""
        with contextlib.closing(self._connection()) as connection:
            connection.request("GET", path, headers=headers or {})
            return connection.getresponse().read().decode()

    def metric(self, name: str) -> float | None:
        """The value of a metric without labels, None if there is none."""
        lines = self.text("/metrics").splitlines()
        return next((float(line.removeprefix(name)) for line in lines if line.startswith(f"{name} ")), None)

    def send(self, request: Request) -> tuple[int, bytes]:
        """Send a request unchanged, and return the status and the body of the answer."""
        with contextlib.closing(self._connection()) as connection:
            connection.request(request.method, request.path, request.body, request.headers)
            response = connection.getresponse()
            return response.status, response.read()

    def healthy(self) -> bool:
        # Java's worker answers in HTML before it has started.
        with contextlib.suppress(OSError, json.JSONDecodeError):
            return self.request("GET", "/health").status == 200
        return False

    def leads(self) -> bool:
        """Whether the worker leads its group: it carries out a request that only the leader may do."""
        return self.request("DELETE", f"/connectors/{unique('missing')}?forward=false").status == 404

    def _connection(self) -> http.client.HTTPConnection:
        address = urlsplit(self.url)
        return http.client.HTTPConnection(str(address.hostname), address.port, timeout=60)

    def states(self, connector: str) -> list[str]:
        """The states of a connector and of its tasks, in order; empty until they are reported."""
        status = self.get(f"/connectors/{connector}/status")
        return [] if status is None else [status["connector"]["state"], *(task["state"] for task in status["tasks"])]

    def wait_for_states(self, connector: str, *states: str) -> None:
        wait_for(lambda: self.states(connector) == list(states), what=f"{connector} is {', '.join(states)}")


class Worker(WorkerApi):
    """A worker process, and requests to it."""

    def __init__(self, process: Process, port: int) -> None:
        super().__init__(port)
        self.process = process

    def wait_until_healthy(self) -> None:
        """Wait until the worker is in its group."""
        wait_for(lambda: self.healthy() or not self.process.running, what="the worker is in its group")
        assert self.process.running, self.process.output


class Group:
    """The files of a group of workers."""

    def __init__(self, folder: Path, bootstrap_servers: str, **settings: str) -> None:
        self.id = unique("group")
        self.folder = folder
        self.settings = {
            "bootstrap.servers": bootstrap_servers,
            "group.id": self.id,
            "exactly.once.source.support": "enabled",
            "config.storage.topic": f"{self.id}-configs",
            "offset.storage.topic": f"{self.id}-offsets",
            "offset.storage.partitions": "1",
            "status.storage.topic": f"{self.id}-status",
            "status.storage.partitions": "1",
            "key.converter": STRING,
            "value.converter": STRING,
            "session.timeout.ms": "6000",
            "heartbeat.interval.ms": "300",
            "scheduled.rebalance.max.delay.ms": "0",
            "fencepost.plugins.allowed.modules": "tests",
            "fencepost.files.allowed.paths": "/",
            **{name.replace("_", "."): value for name, value in settings.items()},
        }

    def config_records(self) -> list[tuple[str, bytes]]:
        """The keys and values of the config topic, in order, without deleted ones."""
        records = read_topic(self.settings["bootstrap.servers"], f"{self.id}-configs")
        return [((record.key or b"").decode(), record.value) for record in records if record.value is not None]

    def connector_records(self, name: str) -> list[tuple[str, Any]]:
        """The keys and values of records about a connector `c` and its first two tasks, in order.

        A configuration is shown as None, and so is a tombstone.
        """
        records = read_topic(self.settings["bootstrap.servers"], f"{self.id}-configs")
        decoded = [
            ((record.key or b"").decode().replace(name, "c"), json.loads(record.value) if record.value else None)
            for record in records
        ]
        about = [(key, value) for key, value in decoded if key.endswith(("-c", "-c-0", "-c-1"))]
        return [(key, None if value is None or "properties" in value else value) for key, value in about]

    def connector_states(self, name: str) -> list[str]:
        """The stored states of a connector, in order."""
        records = read_topic(self.settings["bootstrap.servers"], f"{self.id}-status")
        key = f"status-connector-{name}".encode()
        return [json.loads(record.value)["state"] for record in records if record.key == key and record.value]

    def status_keys(self, name: str) -> set[bytes]:
        """The keys of the stored statuses of a connector and its tasks."""
        records = read_topic(self.settings["bootstrap.servers"], f"{self.id}-status")
        latest = {record.key or b"": record.value for record in records}
        return {key for key, value in latest.items() if value and name.encode() in key}

    def internal(self, worker: WorkerApi, method: str, path: str, body: Any = None) -> Answer:
        """Send a request as workers of a group send it to each other: signed with the session key."""
        content = b"" if body is None else json.dumps(body).encode()
        return worker.request(method, path, body, signed(method, path, content, self.session_key()))

    def session_key(self) -> bytes:
        """The newest key with which workers of the group sign requests to each other."""
        key = next(json.loads(value)["key"] for name, value in reversed(self.config_records()) if name == "session-key")
        return base64.b64decode(key)

    def put_task_configs(self, worker: WorkerApi, config: Mapping[str, str], count: int, **changed: str) -> None:
        """Send other task configurations for a connector to the leader, like the worker that runs it."""
        tasks = [{**config, **changed, "task.id": str(number)} for number in range(count)]
        answer = self.internal(worker, "POST", f"/connectors/{config['name']}/tasks", tasks)
        assert answer.status == 204, answer

    @contextlib.contextmanager
    def worker(
        self, port: int | None = None, *, forked: bool = True, dies_at: str = "", **settings: str
    ) -> Iterator[Worker]:
        """A worker that is in the group, started as by `starting`."""
        with self.starting(port, forked=forked, dies_at=dies_at, **settings) as worker:
            worker.wait_until_healthy()
            yield worker

    @contextlib.contextmanager
    def workers(self, count: int) -> Iterator[list[Worker]]:
        """Start several workers, and wait until they are in the group; the leader comes first."""
        with contextlib.ExitStack() as stack:
            workers = [stack.enter_context(self.starting()) for _ in range(count)]
            for worker in workers:
                worker.wait_until_healthy()
            wait_for(lambda: any(worker.leads() for worker in workers), what="a worker leads")
            yield sorted(workers, key=lambda worker: not worker.leads())

    @contextlib.contextmanager
    def starting(
        self,
        port: int | None = None,
        *,
        forked: bool = True,
        dies_at: str = "",
        environment: Mapping[str, str] | None = None,
        **settings: str,
    ) -> Iterator[Worker]:
        """Start a worker, at a new port unless one is given; by exec unless `forked`.

        `dies_at` is a fail point for fencepost.failpoint.
        """
        port = port or free_ports(1)[0]
        own = {"listeners": f"http://127.0.0.1:{port}"}
        own |= {name.replace("_", "."): value for name, value in settings.items()}
        file = self.folder / f"worker-{port}.properties"
        file.write_text("".join(f"{name}={value}\n" for name, value in (self.settings | own).items()))
        log_file = self.folder / f"worker-{port}.log"
        start = Process.forked if forked else Process.fencepost
        changed = {**NO_JAVA, failpoint.VARIABLE: dies_at, **(environment or {})}
        with start("worker", str(file), log_file=log_file, environment=changed) as process:
            yield Worker(process, port)
