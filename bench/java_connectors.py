"""Java connectors in fencepost, against the same jars in Kafka Connect 4.1.1: exactly once on both, in turn.

    file       FileStreamSourceConnector over 100-byte lines, a transaction for each poll, --batch lines a poll
    mirror     MirrorSourceConnector over 100-byte records, a transaction each second
    debezium   Debezium's PostgreSQL connector over a backlog of inserts, a transaction each second

Both workers run all the time, on one broker; each round runs a connector on one of them after the other, and the first
round is thrown away. Rates count from the first record that a read_committed consumer sees to the last one. CPU is
that of the worker and of all its processes in the same time, without the broker's and the database's. Memory is the resident
memory of the worker's largest JVM after its last record; --heap limits the heap. By default, Kafka Connect collects garbage
as its own scripts set it, and fencepost as it does by itself; --connect-options gives Kafka Connect other options of java.

Kafka Connect runs all connectors in one JVM, which is warm after the first round. So does fencepost here, with
fencepost.java.isolation=worker: a connector that has nothing to read runs in both workers all the time, as fencepost's JVM
ends some time after its last connector. With --isolation connector, its default, each round pays for a cold JVM, unless
--lasting is given: then each worker runs one connector in all rounds, paused while the records of a round are made.

Run: .venv/bin/python bench/java_connectors.py file --batch 2000 --records 1000000 --rounds 5
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import os
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import Consumer, KafkaException, TopicPartition

from fencepost.embedded.broker import EmbeddedBroker
from fencepost.embedded.jars import KAFKA_VERSION, LOGGING_BACKEND, JarSet, class_path
from fencepost.embedded.java import find_java
from fencepost.embedded.ports import free_ports
from fencepost.embedded.postgres import EmbeddedPostgres
from fencepost.embedded.process import kill
from fencepost.embedded.properties import LOGGING
from java_sources import FILE_STREAM, PLUGINS, DebeziumSource, FileSource, MirrorSource, Source
from java_worker import Worker, wait_for

SOURCE = "items"
"""The place that both workers read if each round has a new connector."""
STRING = "org.apache.kafka.connect.storage.StringConverter"
RUNTIME = JarSet(
    f"connect-{KAFKA_VERSION}",
    "Kafka Connect",
    (
        ("org.apache.kafka", "connect-runtime", KAFKA_VERSION),
        ("org.apache.kafka", "connect-file", KAFKA_VERSION),
        LOGGING_BACKEND,
    ),
)


@dataclass(frozen=True)
class Figures:
    """One run: records a second, CPU microseconds a record, and the resident MiB of the worker's largest JVM."""

    rate: float
    cpu: float
    memory: float


class Bench:
    """The broker, both workers, and the source that they read."""

    def __init__(self, folder: Path, what: str, arguments: argparse.Namespace, stack: contextlib.ExitStack) -> None:
        self.folder, self.what, self.count = folder, what, arguments.records
        self.isolation, self.lasting, self.heap = arguments.isolation, arguments.lasting, arguments.heap
        self.connect_options: list[str] = arguments.connect_options.split()
        self.topics: dict[str, str] = {}
        self.stack = stack
        self.servers = stack.enter_context(EmbeddedBroker(folder / "broker")).bootstrap_servers
        self.consumer = Consumer(
            {"bootstrap.servers": self.servers, "group.id": "bench", "isolation.level": "read_committed"}
        )
        stack.callback(self.consumer.close)
        self.numbers = itertools.count()
        for name in {what, "file"}:
            plugin = folder / "plugins" / name
            plugin.mkdir(parents=True)
            for jar in class_path(find_java(), PLUGINS[name]):
                (plugin / jar.name).symlink_to(jar)
        self.workers = {"fencepost": self._fencepost(), "connect": self._connect()}
        for worker in self.workers.values():
            stack.callback(kill, worker.process)
            worker.wait_until_ready()
            self._run_idle(worker)
        self.source = self._source(arguments.batch)
        if not self.lasting and not self.source.reads_only_new:
            self.source.create(SOURCE)
            self.source.fill(SOURCE)

    def _source(self, batch: int) -> Source:
        if self.what == "file":
            return FileSource(self.folder, self.servers, self.count, batch)
        if self.what == "mirror":
            return MirrorSource(self.servers, self.count)
        return DebeziumSource(self.stack.enter_context(EmbeddedPostgres()), self.servers, self.count)

    def _settings(self, name: str, port: int) -> Path:
        settings = {
            "bootstrap.servers": self.servers,
            "group.id": name,
            "exactly.once.source.support": "enabled",
            "plugin.path": str(self.folder / "plugins"),
            "key.converter": STRING,
            "value.converter": STRING,
            "listeners": f"http://127.0.0.1:{port}",
            "plugin.discovery": "service_load",
            "producer.batch.size": "500000",
            "producer.buffer.memory": "67108864",
            "fencepost.java.heap": self.heap,
            "fencepost.java.isolation": self.isolation,
            "fencepost.files.allowed.paths": "/",
            **{f"{kind}.storage.topic": f"{name}-{kind}s" for kind in ("config", "offset")},
            "status.storage.topic": f"{name}-status",
            **{f"{kind}.storage.replication.factor": "1" for kind in ("config", "offset", "status")},
            "offset.storage.partitions": "1",
            "status.storage.partitions": "1",
        }
        file = self.folder / f"{name}.properties"
        file.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        return file

    def _fencepost(self) -> Worker:
        (port,) = free_ports(1)
        command = [sys.executable, "-m", "fencepost", "worker", str(self._settings("fencepost", port))]
        return Worker(command, self.folder / "fencepost.log", port)

    def _connect(self) -> Worker:
        (port,) = free_ports(1)
        java = find_java()
        jars = os.pathsep.join(str(jar) for jar in class_path(java, RUNTIME))
        logging = self.folder / "logging.properties"
        logging.write_text(LOGGING)
        command = [
            *(
                str(java.executable),
                f"-Xmx{self.heap}",
                *self.connect_options,
                f"-Dlog4j2.configurationFile={logging.as_uri()}",
            ),
            *("-cp", jars, "org.apache.kafka.connect.cli.ConnectDistributed", str(self._settings("connect", port))),
        ]
        return Worker(command, self.folder / "connect.log", port)

    def _run_idle(self, worker: Worker) -> None:
        """Run a connector without data."""
        empty = self.folder / "empty.txt"
        empty.touch()
        worker.create("idle", {"connector.class": FILE_STREAM, "file": str(empty), "topic": "idle", "tasks.max": "1"})

    def run(self, who: str) -> Figures:
        """Run a round in one of the workers."""
        if self.lasting:
            return self._run_lasting(who)
        worker, name = self.workers[who], f"{self.what}-{next(self.numbers)}"
        with self.source.connector(name, SOURCE) as (config, topic):
            if self.source.reads_only_new:
                self.source.fill(SOURCE)
            self._create(worker, name, config)
            figures = self._measured(worker, topic)
            assert worker.request("DELETE", f"/connectors/{name}") == 204, worker.answer
        return figures

    def _create(self, worker: Worker, name: str, config: dict[str, str]) -> None:
        worker.create(name, {**config, "name": name, "exactly.once.support": "required", "tasks.max": "1"})

    def _run_lasting(self, who: str) -> Figures:
        worker, name = self.workers[who], f"{self.what}-{who}"
        if who not in self.topics:
            self.source.create(who)
            config, self.topics[who] = self.stack.enter_context(self.source.connector(name, who))
            self._create(worker, name, config)
            self.stack.callback(worker.request, "DELETE", f"/connectors/{name}")
            worker.wait_for_task(name, "RUNNING")
        assert worker.request("PUT", f"/connectors/{name}/pause") == 202, worker.answer
        worker.wait_for_task(name, "PAUSED")
        self.source.fill(who)
        before = self._end(self.topics[who])
        assert worker.request("PUT", f"/connectors/{name}/resume") == 202, worker.answer
        return self._measured(worker, self.topics[who], before)

    def _end(self, topic: str) -> int:
        """The number of offsets in a topic, transaction markers included; 0 without the topic."""
        # A partition that was created just now has no leader yet.
        with contextlib.suppress(KafkaException):
            if topic in self.consumer.list_topics(timeout=60).topics:
                partitions = range(self.source.partitions)
                ends = (
                    self.consumer.get_watermark_offsets(TopicPartition(topic, one), timeout=60) for one in partitions
                )
                return sum(end for _, end in ends)
        return 0

    def _measured(self, worker: Worker, topic: str, before: int = 0) -> Figures:
        """Measure until a round's records are in a topic, whose end offset was `before`."""
        wait_for(lambda: self._end(topic) > before)
        first, started, cpu = self._end(topic), time.perf_counter(), worker.cpu_seconds()
        # Transaction markers have offsets as well. After the last record, only a marker is left.
        wait_for(lambda: self._end(topic) >= before + self.count)
        last = self._end(topic)
        while True:
            seconds, spent = time.perf_counter() - started, worker.cpu_seconds() - cpu
            time.sleep(1)
            if (now := self._end(topic)) == last:
                break
            last = now
        assert last > first, "all records came in one transaction: give more --records"
        return Figures((last - first) / seconds, spent * 1e6 / (last - first), worker.jvm_mib())


def report(what: str, results: dict[str, list[Figures]]) -> None:
    ours, theirs = results["fencepost"], results["connect"]
    for name, runs in results.items():
        rate, cpu, memory = (
            statistics.median(getattr(one, part) for one in runs) for part in ("rate", "cpu", "memory")
        )
        print(f"{what:9} {name:10} {rate:12,.0f}/s {cpu:7.2f} us a record {memory:7.0f} MiB of the JVM")
    for part in ("rate", "cpu"):
        ratios = sorted(getattr(own, part) / getattr(other, part) for own, other in zip(ours, theirs, strict=True))
        print(
            f"{what:9} {part} of fencepost to Connect's: {statistics.median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=PLUGINS)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--records", type=int, default=500_000)
    parser.add_argument("--batch", type=int, default=2_000)
    parser.add_argument("--isolation", choices=("worker", "connector"), default="worker")
    parser.add_argument("--lasting", action="store_true")
    parser.add_argument("--heap", default="1g", help="the largest heap of each JVM")
    parser.add_argument("--connect-options", default="-XX:+UseG1GC", help="Kafka Connect's other options of java")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="fencepost-bench-") as folder, contextlib.ExitStack() as stack:
        bench = Bench(Path(folder), arguments.what, arguments, stack)
        results: dict[str, list[Figures]] = {"fencepost": [], "connect": []}
        for number in range(arguments.rounds + 1):
            for who, runs in results.items():
                figures = bench.run(who)
                print(f"round {number} {who:10} {figures.rate:12,.0f}/s {figures.cpu:7.2f} us", flush=True)
                if number:
                    runs.append(figures)
        report(arguments.what, results)


if __name__ == "__main__":
    main()
