"""Seconds from a change of a connector's configuration until all of its tasks run and have committed under the new one.

One worker, a process of its own without Spark, and a broker of its own. Every task commits a record as it starts and
then has nothing to do but poll. Each round fences all tasks and starts them again.

Run: .venv/bin/python bench/reconfiguration.py [--tasks 100 500] [--rounds 5]
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import Consumer

from fencepost import SourceConnector, SourceRecord, SourceTask
from fencepost.cli.common.connect_client import ConnectClient, RequestRefusedError, WorkerUnreachableError
from fencepost.embedded.broker import EmbeddedBroker
from fencepost.embedded.ports import free_ports
from fencepost.embedded.process import launch, terminate

TOPIC = "rounds"
TIMEOUT_SECONDS = 600.0


class OnceTask(SourceTask):
    def start(self, config: Mapping[str, str]) -> None:
        self._stopped = threading.Event()
        self._record: SourceRecord | None = SourceRecord(
            {"task": config["task"]}, {"round": config["round"]}, TOPIC, value=f"{config['round']}:{config['task']}"
        )

    def poll(self) -> list[SourceRecord] | None:
        if self._record is None:
            self._stopped.wait(0.5)
            return None
        record, self._record = self._record, None
        return [record]

    def stop(self) -> None:
        self._stopped.set()


class OnceConnector(SourceConnector):
    def start(self, config: Mapping[str, str]) -> None:
        self._config = config

    def task_class(self) -> type[SourceTask]:
        return OnceTask

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        return [{"round": self._config["round"], "task": str(task)} for task in range(max_tasks)]


@contextmanager
def worker(folder: Path, bootstrap_servers: str) -> Iterator[ConnectClient]:
    (port,) = free_ports(1)
    properties = {
        "bootstrap.servers": bootstrap_servers,
        "group.id": "bench",
        "exactly.once.source.support": "enabled",
        "listeners": f"http://127.0.0.1:{port}",
        "plugin.path": str(Path(__file__).parent),
        **{f"{kind}.storage.topic": f"bench-{kind}" for kind in ("config", "offset", "status")},
        **{f"{kind}.converter": "org.apache.kafka.connect.storage.StringConverter" for kind in ("key", "value")},
    }
    file = folder / "worker.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
    # A worker that finds no Java does not start Spark, which these tasks do not need.
    environment = {"JAVA_HOME": "/nowhere", "PATH": "/nowhere"}
    environment["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    changed = [f"{name}={value}" for name, value in environment.items()]
    command = ["/usr/bin/env", *changed, sys.executable, "-m", "fencepost", "worker", str(file)]
    process = launch(command, folder / "worker.log")
    client = ConnectClient(f"http://127.0.0.1:{port}", retry_seconds=TIMEOUT_SECONDS)
    try:
        wait_until_healthy(client)
        yield client
    finally:
        terminate(process, 60)


def wait_until_healthy(client: ConnectClient) -> None:
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while time.monotonic() < deadline:
        try:
            client.ask("GET", "/health")
        except (WorkerUnreachableError, RequestRefusedError):
            time.sleep(0.2)
        else:
            return
    raise SystemExit("the worker did not start")


class Rounds:
    """Configures a connector again and again, and reads what its tasks committed."""

    def __init__(self, client: ConnectClient, consumer: Consumer, tasks: int) -> None:
        self._client = client
        self._consumer = consumer
        self._tasks = tasks
        self._name = f"once-{tasks}"
        self._number = 0

    def seconds(self) -> float:
        """Configure the connector, and return how long it took until all tasks committed and are RUNNING."""
        self._number += 1
        config = {
            "connector.class": "reconfiguration.OnceConnector",
            "tasks.max": str(self._tasks),
            "round": f"{self._name}-{self._number}",
        }
        start = time.perf_counter()
        self._client.ask("PUT", f"/connectors/{self._name}/config", config)
        self._wait_for_records(config["round"])
        while self._states() != ["RUNNING"] * self._tasks:
            time.sleep(0.05)
        return time.perf_counter() - start

    def delete(self) -> None:
        self._client.ask("DELETE", f"/connectors/{self._name}")

    def _wait_for_records(self, name: str) -> None:
        missing = {f"{name}:{task}" for task in range(self._tasks)}
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while missing:
            if time.monotonic() > deadline:
                raise SystemExit(f"{len(missing)} of {self._tasks} tasks committed nothing: {self._states()}")
            for message in self._consumer.consume(1000, timeout=0.1):
                if message.error() is None:
                    missing.discard((message.value() or b"").decode())

    def _states(self) -> list[str]:
        status = self._client.ask("GET", f"/connectors/{self._name}/status")
        return [task["state"] for task in status["tasks"]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, nargs="+", default=[100, 500])
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, EmbeddedBroker(Path(folder) / "broker") as broker:
        consumer = Consumer(
            {
                "bootstrap.servers": broker.bootstrap_servers,
                "group.id": "reader",
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
                "topic.metadata.refresh.interval.ms": 200,
                "log_level": 0,
            }
        )
        consumer.subscribe([TOPIC])
        with worker(Path(folder), broker.bootstrap_servers) as client:
            print(f"{'tasks':>5} {'created, s':>10} {'changed, median s':>17} {'lowest':>7} {'highest':>7}")
            for tasks in arguments.tasks:
                rounds = Rounds(client, consumer, tasks)
                created = rounds.seconds()
                changed = sorted(rounds.seconds() for _ in range(arguments.rounds))
                median = statistics.median(changed)
                print(f"{tasks:>5} {created:>10.2f} {median:>17.2f} {changed[0]:>7.2f} {changed[-1]:>7.2f}", flush=True)
                rounds.delete()
        consumer.close()


if __name__ == "__main__":
    main()
