"""Java connectors in fencepost, against the same jars in Kafka Connect 4.1.1: exactly once on both, in turn.

    file       FileStreamSourceConnector over 100-byte lines, a transaction for each poll, --batch lines a poll
    mirror     MirrorSourceConnector over 100-byte records, a transaction each second
    debezium   Debezium's PostgreSQL connector over a backlog of inserts, a transaction each second

Both workers run all the time, on one broker; each round runs a connector on one of them after the other, and the first
round is thrown away. Rates are taken from the first records that a reader at read_committed could see to the last. CPU is
that of the worker and of all its processes in the same time, without the broker's and the database's.

Kafka Connect runs all connectors in one JVM, which is warm after the first round. So does fencepost here, with
fencepost.java.isolation=worker: a connector that has nothing to read runs in both workers all the time, as fencepost's JVM
ends some time after its last connector. With --isolation connector, its default, each round pays for a cold JVM, unless
--lasting is given: then each worker runs one connector in all rounds, paused while the records of a round are made.

Run: .venv/bin/python bench/java_connectors.py file --batch 2000 --records 1000000 --rounds 5
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import itertools
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from fencepost.embedded.broker import EmbeddedBroker
from fencepost.embedded.jars import KAFKA_VERSION, LOGGING_BACKEND, JarSet, class_path
from fencepost.embedded.java import find_java
from fencepost.embedded.ports import free_ports
from fencepost.embedded.postgres import EmbeddedPostgres
from fencepost.embedded.process import kill, launch
from fencepost.embedded.properties import LOGGING

_LOOK_S = 0.02
_LIMIT_S = 600
HEAP = "1g"
SOURCE = "items"
"""What both workers read if each round has a new connector."""
MIRRORED_PARTITIONS = 3
ACTIVE = "select 1 from pg_replication_slots where active and slot_name = %s"
FILE_STREAM = "org.apache.kafka.connect.file.FileStreamSourceConnector"
BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"
STRING = "org.apache.kafka.connect.storage.StringConverter"
JSON = "org.apache.kafka.connect.json.JsonConverter"


def artifacts(folder: str, *parts: tuple[str, str, str]) -> JarSet:
    return JarSet(folder, folder, parts)


RUNTIME = artifacts(
    f"connect-{KAFKA_VERSION}",
    ("org.apache.kafka", "connect-runtime", KAFKA_VERSION),
    ("org.apache.kafka", "connect-file", KAFKA_VERSION),
    LOGGING_BACKEND,
)
PLUGINS = {
    "file": JarSet(
        f"connect-file-{KAFKA_VERSION}", "file", (), alone=(("org.apache.kafka", "connect-file", KAFKA_VERSION),)
    ),
    "mirror": artifacts(f"connect-mirror-{KAFKA_VERSION}", ("org.apache.kafka", "connect-mirror", KAFKA_VERSION)),
    "debezium": artifacts("debezium-postgres-3.7.0", ("io.debezium", "debezium-connector-postgres", "3.7.0.Final")),
}


@dataclass(frozen=True)
class Figures:
    """One run: records a second, and CPU microseconds a record."""

    rate: float
    cpu: float


class Worker:
    """A worker of either kind."""

    def __init__(self, command: list[str], log: Path, port: int) -> None:
        self.process = launch(command, log)
        self.port = port

    def request(self, method: str, path: str, body: Any = None) -> int:
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=_LIMIT_S)) as connection:
            content = None if body is None else json.dumps(body)
            connection.request(method, path, content, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            self.answer = answer.read()
            return answer.status

    def wait_until_ready(self) -> None:
        def ready() -> bool:
            assert self.process.poll() is None, "the worker has ended"
            with contextlib.suppress(OSError):
                return self.request("GET", "/health") == 200
            return False

        wait_for(ready)

    def cpu_seconds(self) -> float:
        worker, total = psutil.Process(self.process.pid), 0.0
        for one in [worker, *worker.children(recursive=True)]:
            with contextlib.suppress(psutil.NoSuchProcess):
                total += sum(one.cpu_times()[:2])
        return total


def wait_for(condition: Any) -> None:
    deadline = time.monotonic() + _LIMIT_S
    while not condition():
        assert time.monotonic() < deadline, "nothing happens any more"
        time.sleep(_LOOK_S)


class Bench:
    """The broker, both workers, and what they read."""

    def __init__(self, folder: Path, what: str, arguments: argparse.Namespace, stack: contextlib.ExitStack) -> None:
        self.folder, self.what, self.count, self.batch = folder, what, arguments.records, arguments.batch
        self.isolation, self.lasting = arguments.isolation, arguments.lasting
        self.topics: dict[str, str] = {}
        self.stack = stack
        self.servers = stack.enter_context(EmbeddedBroker(folder / "broker")).bootstrap_servers
        self.consumer = Consumer(
            {"bootstrap.servers": self.servers, "group.id": "bench", "isolation.level": "read_committed"}
        )
        stack.callback(self.consumer.close)
        self.admin = AdminClient({"bootstrap.servers": self.servers})
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
        self.postgres = stack.enter_context(EmbeddedPostgres()) if what == "debezium" else None
        self._prepare()

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
            "fencepost.java.heap": HEAP,
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
            *(str(java.executable), f"-Xmx{HEAP}", "-XX:+UseG1GC", f"-Dlog4j2.configurationFile={logging.as_uri()}"),
            *("-cp", jars, "org.apache.kafka.connect.cli.ConnectDistributed", str(self._settings("connect", port))),
        ]
        return Worker(command, self.folder / "connect.log", port)

    def _run_idle(self, worker: Worker) -> None:
        """Run a connector that has nothing to read."""
        empty = self.folder / "empty.txt"
        empty.touch()
        config = {"connector.class": FILE_STREAM, "file": str(empty), "topic": "idle", "tasks.max": "1"}
        assert worker.request("PUT", "/connectors/idle/config", config) == 201, worker.answer

    def _prepare(self) -> None:
        if self.what != "debezium" and not self.lasting:
            self._create_source(SOURCE)
            self._fill(SOURCE)

    def _create_source(self, source: str) -> None:
        if self.what == "file":
            (self.folder / source).touch()
        elif self.what == "mirror":
            self.admin.create_topics([NewTopic(source, MIRRORED_PARTITIONS, 1)])[source].result()

    def _fill(self, source: str) -> None:
        """Append the records of a round."""
        if self.what == "file":
            with (self.folder / source).open("ab") as out:
                for number in range(self.count):
                    out.write(b"%09d %s\n" % (number, b"abcdefghi " * 9))
        elif self.what == "mirror":
            producer = Producer(
                {"bootstrap.servers": self.servers, "linger.ms": 20, "queue.buffering.max.messages": 10**6}
            )
            for number in range(self.count):
                producer.produce(
                    source, b"%09d %s" % (number, b"abcdefghi " * 9), partition=number % MIRRORED_PARTITIONS
                )
                if number % 10_000 == 0:
                    producer.poll(0)
            producer.flush()
        else:
            self._insert(source)

    def run(self, who: str) -> Figures:
        if self.lasting:
            return self._run_lasting(who)
        worker, name = self.workers[who], f"{self.what}-{next(self.numbers)}"
        with getattr(self, f"_{self.what}")(name, SOURCE) as (config, topic):
            if self.what == "debezium":
                self._fill(SOURCE)
            self._create(worker, name, config)
            figures = self._measured(worker, topic)
            assert worker.request("DELETE", f"/connectors/{name}") == 204, worker.answer
        return figures

    def _create(self, worker: Worker, name: str, config: dict[str, str]) -> None:
        common = {"name": name, "exactly.once.support": "required", "tasks.max": "1"}
        assert worker.request("PUT", f"/connectors/{name}/config", {**config, **common}) == 201, worker.answer

    def _run_lasting(self, who: str) -> Figures:
        worker, name = self.workers[who], f"{self.what}-{who}"

        def wait_for_tasks(state: str) -> None:
            def reached() -> bool:
                worker.request("GET", f"/connectors/{name}/status")
                return [task["state"] for task in json.loads(worker.answer).get("tasks", ())] == [state]

            wait_for(reached)

        if who not in self.topics:
            self._create_source(who)
            made = getattr(self, f"_{self.what}")(name, who)
            config, self.topics[who] = self.stack.enter_context(made)
            self._create(worker, name, config)
            self.stack.callback(worker.request, "DELETE", f"/connectors/{name}")
            wait_for_tasks("RUNNING")
        assert worker.request("PUT", f"/connectors/{name}/pause") == 202, worker.answer
        wait_for_tasks("PAUSED")
        self._fill(who)
        before = self._end(self.topics[who])
        assert worker.request("PUT", f"/connectors/{name}/resume") == 202, worker.answer
        return self._measured(worker, self.topics[who], before)

    def _end(self, topic: str) -> int:
        """How many offsets a topic has, markers of transactions included; 0 without the topic."""
        # A partition that was created just now has no leader yet.
        with contextlib.suppress(KafkaException):
            if topic in self.consumer.list_topics(timeout=60).topics:
                partitions = range(MIRRORED_PARTITIONS if self.what == "mirror" else 1)
                ends = (
                    self.consumer.get_watermark_offsets(TopicPartition(topic, one), timeout=60) for one in partitions
                )
                return sum(end for _, end in ends)
        return 0

    def _measured(self, worker: Worker, topic: str, before: int = 0) -> Figures:
        """Measure until a round's records are in a topic, which ended at `before`."""
        wait_for(lambda: self._end(topic) > before)
        first, started, cpu = self._end(topic), time.perf_counter(), worker.cpu_seconds()
        # Markers of transactions have offsets as well; the last record has none after it that moves.
        wait_for(lambda: self._end(topic) >= before + self.count)
        last = self._end(topic)
        while True:
            seconds, spent = time.perf_counter() - started, worker.cpu_seconds() - cpu
            time.sleep(1)
            if (now := self._end(topic)) == last:
                break
            last = now
        return Figures((last - first) / seconds, spent * 1e6 / (last - first))

    @contextlib.contextmanager
    def _file(self, name: str, source: str) -> Iterator[tuple[dict[str, str], str]]:
        self.admin.create_topics([NewTopic(name, 1, 1)])[name].result()
        yield (
            {
                "connector.class": FILE_STREAM,
                "file": str(self.folder / source),
                "topic": name,
                "batch.size": str(self.batch),
                "transaction.boundary": "poll",
            },
            name,
        )
        self.admin.delete_topics([name])[name].result()

    @contextlib.contextmanager
    def _mirror(self, name: str, source: str) -> Iterator[tuple[dict[str, str], str]]:
        yield (
            {
                "connector.class": "org.apache.kafka.connect.mirror.MirrorSourceConnector",
                "source.cluster.alias": name,
                "target.cluster.alias": f"{name}-west",
                "source.cluster.bootstrap.servers": self.servers,
                "target.cluster.bootstrap.servers": self.servers,
                "topics": source,
                "source.consumer.isolation.level": "read_committed",
                "consumer.isolation.level": "read_committed",
                "consumer.max.poll.records": "2000",
                "replication.factor": "1",
                "offset-syncs.topic.replication.factor": "1",
                "sync.topic.acls.enabled": "false",
                "transaction.boundary": "interval",
                "transaction.boundary.interval.ms": "1000",
                **{f"{part}.converter": BYTES for part in ("key", "value", "header")},
            },
            f"{name}.{source}",
        )
        self.admin.delete_topics([f"{name}.{source}"])[f"{name}.{source}"].result()

    def _insert(self, table: str) -> None:
        from psycopg.sql import SQL, Identifier  # noqa: PLC0415 - as below

        rows = SQL(
            "insert into {} (name, price) select 'item number ' || n, n / 100.0 from generate_series(%s::bigint, %s::bigint) n"
        ).format(Identifier(table))
        with self._database() as database:
            for first in range(0, self.count, 1_000):
                database.execute(rows, [first, first + 999])

    def _database(self) -> Any:
        import psycopg  # noqa: PLC0415 - only this one needs it

        assert self.postgres is not None
        return psycopg.connect(self.postgres.conninfo(), autocommit=True)

    @contextlib.contextmanager
    def _debezium(self, name: str, source: str) -> Iterator[tuple[dict[str, str], str]]:
        assert self.postgres is not None
        slot, topic = name.replace("-", "_"), f"{name}.public.{source}"
        self.admin.create_topics([NewTopic(topic, 1, 1)])[topic].result()
        with self._database() as database:
            database.execute(f"drop table if exists {source}".encode())
            columns = "id bigint generated always as identity primary key, name text, price numeric(10,2)"
            database.execute(f"create table {source} ({columns})".encode())
            database.execute(f"create publication {slot} for table {source}".encode())
            database.execute("select pg_create_logical_replication_slot(%s, 'pgoutput')", [slot])
            yield (
                {
                    "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
                    "plugin.name": "pgoutput",
                    "database.hostname": "127.0.0.1",
                    "database.port": str(self.postgres.port),
                    "database.user": "postgres",
                    "database.password": "none",
                    "database.dbname": "postgres",
                    "topic.prefix": name,
                    "table.include.list": f"public.{source}",
                    "slot.name": slot,
                    "publication.name": slot,
                    "snapshot.mode": "no_data",
                    # Debezium sleeps this long, 500 ms by default, once the server had nothing ready five times.
                    "poll.interval.ms": "20",
                    "transaction.boundary": "interval",
                    "transaction.boundary.interval.ms": "1000",
                    **{f"{part}.converter": JSON for part in ("key", "value")},
                    **{f"{part}.converter.schemas.enable": "false" for part in ("key", "value")},
                },
                topic,
            )
            wait_for(lambda: not database.execute(ACTIVE, [slot]).fetchall())
            database.execute("select pg_drop_replication_slot(%s)", [slot])
            database.execute(f"drop publication {slot}".encode())
        self.admin.delete_topics([topic])[topic].result()


def report(what: str, results: dict[str, list[Figures]]) -> None:
    ours, theirs = results["fencepost"], results["connect"]
    for name, runs in results.items():
        rates, cpus = ([getattr(one, part) for one in runs] for part in ("rate", "cpu"))
        print(f"{what:9} {name:10} {statistics.median(rates):12,.0f}/s {statistics.median(cpus):7.2f} us a record")
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
