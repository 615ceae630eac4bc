"""fencepost as a stranger has it: its commands as processes, its REST API, and Kafka by other people's clients."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from confluent_kafka import OFFSET_END, Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
)
from kafka.admin import KafkaAdminClient, UpdateFeatureType

CONNECTORS = Path(__file__).parent / "connectors"
STRING = "org.apache.kafka.connect.storage.StringConverter"
JSON = "org.apache.kafka.connect.json.JsonConverter"

_TIMEOUT_SECONDS = 120.0
_POLL_SECONDS = 0.05
_STOP_SECONDS = 30.0

T = TypeVar("T")


def wait_for(condition: Callable[[], T], what: str | Callable[[], str], timeout: float = _TIMEOUT_SECONDS) -> T:
    """Wait until `condition` returns something true, and return that."""
    deadline = time.monotonic() + timeout
    while not (result := condition()):
        if time.monotonic() >= deadline:
            raise AssertionError(f"not within {timeout:g} s: {what if isinstance(what, str) else what()}")
        time.sleep(_POLL_SECONDS)
    return result


def wait_for_some(condition: Callable[[], object], timeout: float = 5.0) -> None:
    """Wait for something that may never be, and go on."""
    with contextlib.suppress(AssertionError, OSError, http.client.HTTPException):
        wait_for(condition, "", timeout)


def unique(prefix: str) -> str:
    """A name that nothing else has."""
    return f"{prefix}-{uuid.uuid4().hex[:8]}"


def free_port() -> int:
    """A port of the loopback that was free a moment ago."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


class Program:
    """The command `fencepost` with arguments, in a process group of its own; its output is in a file."""

    def __init__(self, *arguments: str, log: Path, environment: Mapping[str, str] | None = None) -> None:
        self.log = log
        command = [sys.executable, "-m", "fencepost", *arguments]
        # Ends with the test process, however that ends.
        leash = shutil.which("setpriv")
        if leash is not None:
            command = [leash, "--pdeathsig", "TERM", *command]
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=log.parent,
                env={**os.environ, **(environment or {})},
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    @property
    def output(self) -> str:
        return self.log.read_text(errors="replace")

    def send(self, number: int) -> None:
        """Send a signal to the process."""
        self._process.send_signal(number)

    def wait(self, timeout: float = _TIMEOUT_SECONDS) -> int:
        """Wait for the end and return the exit code."""
        try:
            return self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"still runs after {timeout:g} s:\n{self.output[-4000:]}") from None

    def stop(self) -> int:
        """End in good order: SIGTERM, and the exit code."""
        self.send(signal.SIGTERM)
        return self.wait()

    def end(self) -> None:
        """End at once, if it still runs: SIGKILL, for the process and all that it started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self._process.wait()

    def close(self) -> None:
        """End, whatever it takes, with all that it started."""
        if self.running:
            self.send(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_STOP_SECONDS)
        self.end()


def command(*arguments: str, timeout: float = _TIMEOUT_SECONDS) -> subprocess.CompletedProcess[str]:
    """Run `fencepost` to its end."""
    return subprocess.run(
        [sys.executable, "-m", "fencepost", *arguments], capture_output=True, text=True, timeout=timeout, check=False
    )


@dataclass(frozen=True)
class Answer:
    status: int
    body: Any

    @property
    def message(self) -> str:
        """The message of an error."""
        return str(self.body.get("message")) if isinstance(self.body, dict) else str(self.body)


class Worker:
    """`fencepost worker`, and requests to it. It may be started again with the same file."""

    def __init__(self, folder: Path, properties: Mapping[str, str], *, spark: bool = False) -> None:
        self.port = free_port()
        # A worker that finds no Java starts no Spark, which would take most of the machine.
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
        """Stop in good order, start, and wait until the worker is in its group."""
        assert self.process.stop() == 0, self.process.output[-4000:]
        self.start()
        self.wait_until_healthy()

    def revive(self) -> bool:
        """Start a process that ended, as what looks after services does; says whether one had ended."""
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

    def request(self, method: str, path: str, body: Any = None, *, timeout: float = _TIMEOUT_SECONDS) -> Answer:
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
        """Send a request until the worker does not ask to send it again (409), and return the answer."""
        answers: list[Answer] = []

        def answered() -> bool:
            answers.append(self.request(method, path, body))
            return answers[-1].status not in (409, 503)

        wait_for(answered, lambda: f"{method} {path}: {answers[-1]}")
        return answers[-1]

    def create(self, name: str, config: Mapping[str, str]) -> Answer:
        return self.carried_out("PUT", f"/connectors/{name}/config", dict(config))

    def delete(self, name: str) -> None:
        """Delete a connector, and see that it is gone."""
        answer = self.carried_out("DELETE", f"/connectors/{name}")
        assert answer.status in (204, 404), answer
        wait_for(lambda: self.request("GET", f"/connectors/{name}").status == 404, f"{name} is gone")

    def status(self, name: str) -> dict[str, Any]:
        """The status of a connector, with empty parts while nobody reported."""
        answer = self.request("GET", f"/connectors/{name}/status")
        return answer.body if answer.status == 200 else {"connector": {"state": ""}, "tasks": []}

    def states(self, name: str) -> list[str]:
        """The states of a connector and its tasks."""
        status = self.status(name)
        return [status["connector"]["state"], *(task["state"] for task in status["tasks"])]

    def wait_for_states(self, name: str, *states: str) -> None:
        wait_for(lambda: self.states(name) == list(states), lambda: f"{states}: {self.status(name)}")

    def offsets(self, name: str) -> Any:
        """The committed offsets of a connector as the worker tells them.

        A stranger's record that is no offset has the worker answer with an error, until a task commits.
        """
        path = f"/connectors/{name}/offsets"
        answers: list[Answer] = []

        def answered() -> bool:
            answers.append(self.request("GET", path))
            return answers[-1].status == 200

        wait_for(answered, lambda: f"{path}: {answers[-1]}")
        return answers[-1].body["offsets"]

    def wait_for_progress(self, *names: str) -> None:
        """Wait until each connector has committed something new."""
        before = {name: self.offsets(name) for name in names}
        wait_for(
            lambda: all(self.offsets(name) != before[name] for name in names),
            lambda: f"commits of {[(name, self.status(name)) for name in names]}:\n{self.process.output[-4000:]}",
        )


class Kafka:
    """A Kafka cluster as any client has it."""

    def __init__(self, bootstrap_servers: str) -> None:
        self.bootstrap_servers = bootstrap_servers
        self.admin = AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": 2})

    def create(self, topic: str, partitions: int = 1, **config: str) -> str:
        """Create a topic; settings have underscores for dots. One that is being deleted is waited for."""
        settings = {name.replace("_", "."): value for name, value in config.items()}

        def created() -> bool:
            try:
                self.admin.create_topics([NewTopic(topic, partitions, 1, config=settings)])[topic].result()
            except KafkaException as error:
                if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                    raise
                return False
            return True

        wait_for(created, f"{topic} is created")
        return topic

    def delete(self, topic: str) -> None:
        self.admin.delete_topics([topic])[topic].result()

    def grow(self, topic: str, partitions: int) -> None:
        self.admin.create_partitions([NewPartitions(topic, partitions)])[topic].result()

    def partitions(self, topic: str) -> int:
        """The number of partitions, 0 where there is no such topic."""
        found = self.admin.list_topics(timeout=30).topics.get(topic)
        return 0 if found is None or found.error is not None else len(found.partitions)

    def set(self, topic: str, **config: str) -> None:
        """Change settings of a topic; underscores for dots."""
        self._alter(ConfigResource(ResourceType.TOPIC, topic), config)

    def setting(self, topic: str, name: str) -> str:
        """A setting of a topic."""
        resource = ConfigResource(ResourceType.TOPIC, topic)
        return str(self.admin.describe_configs([resource])[resource].result()[name].value)

    def set_broker(self, **config: str) -> None:
        """Change settings of all brokers while they run."""
        for node in self.admin.list_topics(timeout=30).brokers:
            self._alter(ConfigResource(ResourceType.BROKER, str(node)), config)

    def set_transaction_version(self, version: int) -> None:
        """Have brokers keep transactions as those before 4.0 do (1), or with KIP-890 (2)."""
        admin = KafkaAdminClient(bootstrap_servers=self.bootstrap_servers)
        try:
            change = UpdateFeatureType.SAFE_DOWNGRADE if version == 1 else UpdateFeatureType.UPGRADE
            result = admin.update_features({"transaction.version": (change, version)})
        finally:
            admin.close()
        assert set(result.values()) <= {"OK"}, result

    def _alter(self, resource: ConfigResource, config: Mapping[str, str]) -> None:
        for name, value in config.items():
            entry = ConfigEntry(name.replace("_", "."), value, incremental_operation=AlterConfigOpType.SET)
            resource.add_incremental_config(entry)
        self.admin.incremental_alter_configs([resource])[resource].result()

    def send(self, topic: str, *records: tuple[bytes | None, bytes | None], partition: int | None = None) -> None:
        """Write records, as a stranger who may."""
        producer = Producer({"bootstrap.servers": self.bootstrap_servers, "message.max.bytes": 10_000_000})
        where = {} if partition is None else {"partition": partition}
        failures: list[KafkaError] = []
        for key, value in records:
            producer.produce(
                topic, value, key, on_delivery=lambda error, _: failures.append(error) if error else None, **where
            )
        assert producer.flush(60) == 0
        assert not failures, failures

    def read(self, topic: str) -> list[Message]:
        """All that a read_committed consumer sees by now, partition by partition."""
        settings = {"isolation.level": "read_committed", "enable.auto.commit": False, "enable.partition.eof": True}
        consumer = Consumer({"bootstrap.servers": self.bootstrap_servers, "group.id": unique("stranger"), **settings})
        messages = []
        with contextlib.closing(consumer):
            for number in range(self.partitions(topic)):
                partition = TopicPartition(topic, number, 0)
                # What is written meanwhile is left: a topic that is always written to has no end.
                end = consumer.get_watermark_offsets(partition, timeout=30)[1]
                consumer.assign([partition])
                while consumer.position([partition])[0].offset < end:
                    message = consumer.poll(_TIMEOUT_SECONDS)
                    assert message is not None, f"nothing from {topic}-{number}"
                    if message.error() is None:
                        messages.append(message)
                    elif message.error().code() == KafkaError._PARTITION_EOF:
                        break
                    else:
                        raise KafkaException(message.error())
        return messages

    def end(self, topic: str) -> int:
        """How far the logs of a topic go, all partitions together."""
        consumer = Consumer({"bootstrap.servers": self.bootstrap_servers, "group.id": unique("stranger")})
        with contextlib.closing(consumer):
            ends = [
                consumer.get_watermark_offsets(TopicPartition(topic, partition, OFFSET_END), timeout=30)[1]
                for partition in range(self.partitions(topic))
            ]
        return sum(ends)


@contextlib.contextmanager
def running_broker(folder: Path) -> Iterator[Kafka]:
    """`fencepost broker`, until the end of the block."""
    folder.mkdir(parents=True, exist_ok=True)
    port = free_port()
    program = Program("broker", "--port", str(port), "--data-dir", str(folder / "data"), log=folder / "broker.log")
    try:
        address = f"127.0.0.1:{port}"

        def answers() -> bool:
            assert program.running, program.output
            with contextlib.suppress(KafkaException):
                return bool(AdminClient({"bootstrap.servers": address, "log_level": 0}).list_topics(timeout=2).brokers)
            return False

        wait_for(answers, lambda: f"the broker answers:\n{program.output[-2000:]}")
        yield Kafka(address)
    finally:
        program.close()


def worker_properties(kafka: Kafka, group: str, **settings: str) -> dict[str, str]:
    """The file of a worker, with the connectors of this package on its `plugin.path`."""
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
    """`fencepost worker` in a group of its own, until the end of the block."""
    worker = Worker(folder, worker_properties(kafka, unique("group"), **settings), spark=spark)
    worker.start()
    try:
        worker.wait_until_healthy()
        yield worker
    finally:
        worker.process.close()


def good(topic: str, *, tasks: str = "2", **config: str) -> dict[str, str]:
    """The configuration of a well-behaved connector, which numbers what it writes to `topic`."""
    return {
        "connector.class": "good.Numbers",
        "topic": topic,
        "tasks.max": tasks,
        "exactly.once.support": "required",
        **{name.replace("_", "."): value for name, value in config.items()},
    }


def verify(kafka: Kafka, topic: str, connector: str, offsets_topic: str) -> str:
    """What `fencepost verify` has against the topic of a good connector that is stopped: nothing, if it is sound."""
    arguments: Sequence[str] = (
        *("verify", topic, "--sequence", "value.seq", "--source-partition", "value.task", "--first", "1"),
        *("--connector", connector, "--offsets-topic", offsets_topic, "--bootstrap-server", kafka.bootstrap_servers),
    )
    result = command(*arguments)
    return "" if result.returncode == 0 else result.stdout + result.stderr
