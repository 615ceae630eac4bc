"""`fencepost worker` and `fencepost verify` from outside: processes, and the REST API."""

from __future__ import annotations

import contextlib
import http.client
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.hostile.brokers import Kafka
from tests.hostile.programs import TIMEOUT_SECONDS, Program, command, free_port, unique, wait_for

CONNECTORS = Path(__file__).parent / "connectors"
STRING = "org.apache.kafka.connect.storage.StringConverter"
JSON = "org.apache.kafka.connect.json.JsonConverter"


@dataclass(frozen=True)
class Answer:
    status: int
    body: Any

    @property
    def message(self) -> str:
        """The message of an error response."""
        return str(self.body.get("message")) if isinstance(self.body, dict) else str(self.body)


class Worker:
    """The process `fencepost worker`, and requests to it. It may be restarted with the same file."""

    def __init__(self, folder: Path, properties: Mapping[str, str], *, spark: bool = False) -> None:
        self.port = free_port()
        # A worker that finds no Java does not start Spark, which would take most of the machine.
        self._environment = {} if spark else {"JAVA_HOME": "/nowhere", "PATH": "/nowhere"}
        self.properties = {**properties, "listeners": f"http://127.0.0.1:{self.port}"}
        self._file = folder / f"worker-{self.port}.properties"
        self.program: Program | None = None

    def start(self) -> None:
        """Start the process; does not wait."""
        self._file.write_text("".join(f"{name}={value}\n" for name, value in self.properties.items()))
        log = self._file.with_suffix(".log")
        self.program = Program("worker", str(self._file), log=log, environment=self._environment)

    @property
    def process(self) -> Program:
        """The process that was started last."""
        assert self.program is not None
        return self.program

    def wait_until_healthy(self) -> None:
        wait_for(lambda: self.healthy or not self.process.running, lambda: f"healthy:\n{self.process.output[-4000:]}")
        assert self.process.running, f"the worker ended:\n{self.process.output[-6000:]}"

    def restart(self) -> None:
        """Stop gracefully, start, and wait until the worker is in its group."""
        assert self.process.stop() == 0, self.process.output[-4000:]
        self.start()
        self.wait_until_healthy()

    def revive(self) -> bool:
        """Start a process that ended, like a service manager; return whether one had ended."""
        if self.process.running:
            return False
        self.process.close()
        self.start()
        self.wait_until_healthy()
        return True

    @property
    def healthy(self) -> bool:
        with contextlib.suppress(OSError, http.client.HTTPException):
            return self.request("GET", "/health").status == 200
        return False

    def request(self, method: str, path: str, body: Any = None, *, timeout: float = TIMEOUT_SECONDS) -> Answer:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        with contextlib.closing(connection):
            content = None if body is None else json.dumps(body)
            connection.request(method, path, content, {"Content-Type": "application/json"})
            response = connection.getresponse()
            text = response.read()
        try:
            return Answer(response.status, json.loads(text) if text else None)
        except ValueError:
            return Answer(response.status, text.decode(errors="replace"))

    def carried_out(self, method: str, path: str, body: Any = None) -> Answer:
        """Repeat a request while the worker answers 409, and return the final answer."""
        answers: list[Answer] = []

        def answered() -> bool:
            answers.append(self.request(method, path, body))
            return answers[-1].status not in (409, 503)

        wait_for(answered, lambda: f"{method} {path}: {answers[-1]}")
        return answers[-1]

    def create(self, name: str, config: Mapping[str, str]) -> Answer:
        return self.carried_out("PUT", f"/connectors/{name}/config", dict(config))

    def delete(self, name: str) -> None:
        """Delete a connector, and wait until it is gone."""
        answer = self.carried_out("DELETE", f"/connectors/{name}")
        assert answer.status in (204, 404), answer
        wait_for(lambda: self.request("GET", f"/connectors/{name}").status == 404, f"{name} is gone")

    def status(self, name: str) -> dict[str, Any]:
        """The status of a connector, with empty parts until they are reported."""
        answer = self.request("GET", f"/connectors/{name}/status")
        return answer.body if answer.status == 200 else {"connector": {"state": ""}, "tasks": []}

    def states(self, name: str) -> list[str]:
        """The states of a connector and its tasks."""
        status = self.status(name)
        return [status["connector"]["state"], *(task["state"] for task in status["tasks"])]

    def wait_for_states(self, name: str, *states: str) -> None:
        wait_for(lambda: self.states(name) == list(states), lambda: f"{states}: {self.status(name)}")

    def offsets(self, name: str) -> Any:
        """The committed offsets of a connector, from the worker.

        If another client wrote an invalid offset, the worker answers with an error until a task commits.
        """
        path = f"/connectors/{name}/offsets"
        answers: list[Answer] = []

        def answered() -> bool:
            answers.append(self.request("GET", path))
            return answers[-1].status == 200

        wait_for(answered, lambda: f"{path}: {answers[-1]}")
        return answers[-1].body["offsets"]

    def wait_for_progress(self, *names: str) -> None:
        """Wait until each connector commits again."""
        before = {name: self.offsets(name) for name in names}
        wait_for(
            lambda: all(self.offsets(name) != before[name] for name in names),
            lambda: f"commits of {[(name, self.status(name)) for name in names]}:\n{self.process.output[-4000:]}",
        )


def worker_properties(kafka: Kafka, group: str, **settings: str) -> dict[str, str]:
    """The properties file of a worker, with this package's connectors on its `plugin.path`."""
    return {
        "bootstrap.servers": kafka.bootstrap_servers,
        "group.id": group,
        "exactly.once.source.support": "enabled",
        "offset.storage.topic": f"{group}-offsets",
        "offset.storage.partitions": "2",
        "config.storage.topic": f"{group}-configs",
        "status.storage.topic": f"{group}-status",
        "status.storage.partitions": "1",
        "key.converter": STRING,
        "value.converter": STRING,
        "plugin.path": str(CONNECTORS),
        "spark.master": "local[2]",
        "task.shutdown.graceful.timeout.ms": "2000",
        "scheduled.rebalance.max.delay.ms": "0",
        "session.timeout.ms": "10000",
        **{name.replace("_", "."): value for name, value in settings.items()},
    }


@contextlib.contextmanager
def running_worker(folder: Path, kafka: Kafka, *, spark: bool = False, **settings: str) -> Iterator[Worker]:
    """Run `fencepost worker` in its own group until the end of the block."""
    worker = Worker(folder, worker_properties(kafka, unique("group"), **settings), spark=spark)
    worker.start()
    try:
        worker.wait_until_healthy()
        yield worker
    finally:
        worker.process.close()


def good(topic: str, *, tasks: str = "2", **config: str) -> dict[str, str]:
    """The configuration of a good connector, which writes numbered records to `topic`."""
    return {
        "connector.class": "good.Numbers",
        "topic": topic,
        "tasks.max": tasks,
        "exactly.once.support": "required",
        **{name.replace("_", "."): value for name, value in config.items()},
    }


def verify(kafka: Kafka, topic: str, connector: str, offsets_topic: str) -> str:
    """The errors that `fencepost verify` finds in the topic of a stopped good connector; empty if there are none."""
    arguments: Sequence[str] = (
        *("verify", topic, "--sequence", "value.seq", "--source-partition", "value.task", "--first", "1"),
        *("--connector", connector, "--offsets-topic", offsets_topic, "--bootstrap-server", kafka.bootstrap_servers),
    )
    result = command(*arguments)
    return "" if result.returncode == 0 else result.stdout + result.stderr
