"""What grows with the number of connectors and tasks: a cost for each that grows with their number is a wall.

    python bench/growth.py [connectors] [tasks] [partitions] [topics] [files] [--connectors 25 100] [--tasks 10 100]

connectors  connectors of one idle task, created one by one, until all run
tasks       one connector of so many idle tasks, until all run; then with one task only
partitions  a connector that committed an offset in so many source partitions: its offsets are shown, one is altered, all
            are removed
topics      a connector whose first batch has one record for each of so many new topics, until it is committed
files       a connector of so many files of one line in a directory: until all are in Kafka; then a file is added

The last column compares CPU (of the columns that its head names) with the row before, as a power of the size: 1.0 is linear,
2.0 quadratic. A row above 1.3 is marked by `<-- grows`: something is quadratic. Small sizes say little, because what a
worker costs anyway hides there.

The machine may be busy: the columns that count are CPU time of the worker's process (`CPU`, `ms each`), and what it holds
(memory, threads, connections, descriptors). `lost` counts how often the worker fell out of its group; it must be 0. All
sizes run beside a broker of their own, in a worker without Spark. The defaults are small; to find a wall, quadruple the
size again and again: `--connectors 100 400 1600 --tasks 10 100 500 2000
--partitions 10000 40000 160000 1000000 --topics 100 300 1000 --files 1000 4000 16000 100000`. `--busy 20` keeps the worker on one core, together with
so many processes that only burn CPU, all with low priority.
"""

from __future__ import annotations

import argparse
import http.client
import json
import math
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from fencepost import SourceConnector, SourceRecord, SourceTask
from fencepost.embedded.broker import EmbeddedBroker
from fencepost.embedded.ports import free_ports
from fencepost.embedded.process import launch, terminate

FOLDER = Path(__file__).parent
LIMIT_SECONDS = 1_200.0
LOOK_SECONDS = 1.0
IDLE_SECONDS = 10.0
POLL_SECONDS = 1.0
RECORDS = 5_000
FILE_TASKS = 4
FEW_THREADS = 50
GROWS = 1.3
ON_ONE_CORE = ("/usr/bin/taskset", "-c", "0", "/usr/bin/nice", "-n", "10")


class IdleTask(SourceTask):
    def start(self, config: Mapping[str, str]) -> None:  # noqa: ARG002 - SourceTask's signature
        self._stopping = threading.Event()

    def poll(self) -> list[SourceRecord] | None:
        self._stopping.wait(POLL_SECONDS)
        return None

    def stop(self) -> None:
        self._stopping.set()


class IdleConnector(SourceConnector):
    """As many tasks as `tasks.max`, none of which has anything."""

    def task_class(self) -> type[SourceTask]:
        return IdleTask

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        return [{"task": str(task)} for task in range(max_tasks)]


class PartitionsTask(IdleTask):
    """Commits an offset in each of `partitions` source partitions, with records for `topics`, and then has nothing."""

    def start(self, config: Mapping[str, str]) -> None:
        super().start(config)
        self._topics = int(config["topics"])
        self._left = list(range(int(config["partitions"])))

    def poll(self) -> list[SourceRecord] | None:
        numbers, self._left = self._left[:RECORDS], self._left[RECORDS:]
        if not numbers:
            return super().poll()
        return [
            SourceRecord(
                {"table": f"t{number}"},
                {"position": number},
                f"rows-{self._topics}-{number % self._topics}",
                value="row",
            )
            for number in numbers
        ]


class PartitionsConnector(SourceConnector):
    def start(self, config: Mapping[str, str]) -> None:
        self._config = config

    def task_class(self) -> type[SourceTask]:
        return PartitionsTask

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        del max_tasks
        return [{name: self._config[name] for name in ("partitions", "topics")}]


class Worker:
    """A worker process, what it costs, and requests to it."""

    def __init__(self, file: Path, port: int, busy: int) -> None:
        # A worker that finds no Java leaves Spark alone, which these tasks do not need.
        environment = {"JAVA_HOME": "/nowhere", "PATH": "/nowhere", "PYTHONPATH": str(FOLDER)}
        changed = [f"{name}={value}" for name, value in environment.items()]
        self._log = file.with_suffix(".log")
        # Of the whole process: nice and affinity belong to threads, which inherit them.
        beside = ON_ONE_CORE if busy else ()
        command = ["/usr/bin/env", *changed, *beside, sys.executable, "-m", "fencepost", "worker", str(file)]
        self._launched = launch(command, self._log)
        self.process = psutil.Process(self._launched.pid)
        self._port = port

    def request(self, method: str, path: str, body: Any = None) -> tuple[int, bytes]:
        """The status and the body of the answer. Raises OSError."""
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
        """Seconds, CPU seconds of the worker, and bytes of the answer, which must be 200."""
        started, cpu = time.perf_counter(), self.cpu_seconds()
        status, answer = self.request(method, path, body)
        assert status == 200, answer
        return time.perf_counter() - started, self.cpu_seconds() - cpu, len(answer)

    def configure(self, name: str, config: Mapping[str, str]) -> None:
        """Create or change a connector, again while the worker has no time for it."""

        def taken() -> bool:
            with suppress(OSError):
                status, body = self.request("PUT", f"/connectors/{name}/config", config)
                assert status in {200, 201, 409, 500, 503, 504}, body
                return status in {200, 201}
            return False

        wait_for(taken)

    def states(self) -> Counter[str]:
        """How many tasks are in which state."""
        with suppress(OSError, ValueError):
            _, body = self.request("GET", "/connectors?expand=status")
            return Counter(task["state"] for one in json.loads(body).values() for task in one["status"]["tasks"])
        return Counter()

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
        """What the process holds."""
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
        while found := self._consumer.consume(RECORDS, timeout=LOOK_SECONDS):
            self._found += sum(message.error() is None for message in found)
        return self._found

    def close(self) -> None:
        self._consumer.close()


class Site:
    """A broker, and a new worker for each size."""

    def __init__(self, folder: Path, bootstrap_servers: str, busy: int) -> None:
        self.folder = folder
        self._bootstrap_servers = bootstrap_servers
        self._busy = busy
        self._workers = 0

    def lines(self, topic: str) -> Lines:
        """Create a topic, and follow it."""
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


def connectors(site: Site, size: int) -> dict[str, float]:
    """Create connectors of one task one by one."""
    with site.worker() as worker:
        config = {"connector.class": "growth.IdleConnector", "tasks.max": "1"}
        started, cpu = time.perf_counter(), worker.cpu_seconds()
        for number in range(size):
            worker.configure(f"idle-{number}", config)
        created = time.perf_counter() - started
        return {"created s": created, **run_all(worker, size, started, cpu)}


def tasks(site: Site, size: int) -> dict[str, float]:
    """Create one connector of many tasks, and leave it with one."""
    with site.worker() as worker:
        config = {"connector.class": "growth.IdleConnector", "tasks.max": str(size)}
        started, cpu = time.perf_counter(), worker.cpu_seconds()
        worker.configure("idle", config)
        figures = run_all(worker, size, started, cpu)
        worker.configure("idle", {**config, "tasks.max": "1"})
        # The other tasks may still be stopping.
        wait_for(lambda: worker.states() == Counter(RUNNING=1) and worker.process.num_threads() < FEW_THREADS)
        return {**figures, "descriptors after": worker.figures()["descriptors"], "lost": worker.times_lost()}


def partitions(site: Site, size: int) -> dict[str, float]:
    """Show, alter one of, and remove the offsets of one connector with many source partitions."""
    with site.worker() as worker:
        commit_offsets(worker, partitions=size, topics=1)
        before = worker.figures()["MB"]
        shown = worker.measured("GET", "/connectors/p/offsets")
        worker.request("PUT", "/connectors/p/stop")
        wait_for(lambda: worker.states() == Counter())
        one = {"offsets": [{"partition": {"table": "t0"}, "offset": {"position": 1}}]}
        altered = worker.measured("PATCH", "/connectors/p/offsets", one)
        removed = worker.measured("DELETE", "/connectors/p/offsets")
        return {
            "MB": before,
            "bytes shown": shown[2],
            "shown s": shown[0],
            "CPU ms": shown[1] * 1000,
            "one altered s": altered[0],
            "its CPU ms": altered[1] * 1000,
            "all removed s": removed[0],
            "their CPU ms": removed[1] * 1000,
        }


def topics(site: Site, size: int) -> dict[str, float]:
    """Send one record to each of so many new topics, in one batch of at most RECORDS."""
    with site.worker() as worker:
        started, cpu = time.perf_counter(), worker.cpu_seconds()
        commit_offsets(worker, partitions=size, topics=size)
        spent = worker.cpu_seconds() - cpu
        return {
            "committed s": time.perf_counter() - started,
            "CPU s": spent,
            "ms each": spent / size * 1000,
            "lost": worker.times_lost(),
        }


def commit_offsets(worker: Worker, *, partitions: int, topics: int) -> None:
    """Create the connector `p`, and return when the offset of each source partition is committed."""
    config = {"connector.class": "growth.PartitionsConnector", "partitions": str(partitions), "topics": str(topics)}
    creation = {"topic.creation.default.partitions": "1", "topic.creation.default.replication.factor": "1"}
    worker.configure("p", config | creation)
    wait_for(lambda: worker.request("GET", "/connectors/p/offsets")[1].count(b'"position"') == partitions)


def files(site: Site, size: int) -> dict[str, float]:
    """Send so many files of one line, and then another one."""
    with site.worker() as worker, closing(site.lines(f"lines-{size}")) as lines:
        folder = site.folder / f"files-{size}"
        folder.mkdir()
        for number in range(size):
            (folder / f"{number:07}.txt").write_text("line\n")
        config = {
            "connector.class": "FileSource",
            "files": f"{folder}/*.txt",
            "format": "text",
            "topic": f"lines-{size}",
            "tasks.max": str(FILE_TASKS),
            "files.poll.interval.ms": "1000",
        }
        started, cpu = time.perf_counter(), worker.cpu_seconds()
        worker.configure("files", config)
        wait_for(lambda: lines.count() == size)
        figures = {
            "in Kafka s": time.perf_counter() - started,
            "CPU s": (spent := worker.cpu_seconds() - cpu),
            "ms each": spent / size * 1000,
            "MB": worker.figures()["MB"],
            "idle cores": (idle := worker.idle_cores()),
        }
        started, cpu = time.perf_counter(), worker.cpu_seconds()
        (folder / "one-more.txt").write_text("line\n")
        wait_for(lambda: lines.count() == size + 1)
        seconds, spent = time.perf_counter() - started, worker.cpu_seconds() - cpu
        sizes = (
            len(json.dumps(task["config"])) for task in json.loads(worker.request("GET", "/connectors/files/tasks")[1])
        )
        return {
            **figures,
            "new file s": seconds,
            "its CPU s": spent - idle * seconds,
            "config bytes": max(sizes),
            "lost": worker.times_lost(),
        }


def run_all(worker: Worker, size: int, started: float, cpu: float) -> dict[str, float]:
    wait_for(lambda: worker.states() == Counter(RUNNING=size))
    seconds, spent = time.perf_counter() - started, worker.cpu_seconds() - cpu
    return {
        "running s": seconds,
        "CPU s": spent,
        "ms each": spent / size * 1000,
        **worker.figures(),
        "idle cores": worker.idle_cores(),
        "lost": worker.times_lost(),
    }


def burner() -> subprocess.Popen[bytes]:
    """A process that takes as much of the worker's core as the worker may."""
    return subprocess.Popen([*ON_ONE_CORE, sys.executable, "-c", "while 1: pass"])


PARTS: dict[str, Callable[[Site, int], dict[str, float]]] = {
    "connectors": connectors,
    "tasks": tasks,
    "partitions": partitions,
    "topics": topics,
    "files": files,
}

COMPARED = {
    "connectors": ("CPU s",),
    "tasks": ("CPU s",),
    "partitions": ("CPU ms", "their CPU ms"),
    "topics": ("CPU s",),
    "files": ("CPU s", "its CPU s"),
}
"""The columns in which a part's rows are compared."""


def powers(
    before: tuple[int, Mapping[str, float]], size: int, figures: Mapping[str, float], part: str
) -> dict[str, float]:
    """How each compared column grows with the size since the row before: as its first, second ... power."""
    former_size, former = before
    step = math.log(size / former_size)
    return {name: math.log(max(figures[name], 1e-9) / max(former[name], 1e-9)) / step for name in COMPARED[part]}


def print_row(
    part: str, size: int, figures: Mapping[str, float], before: tuple[int, Mapping[str, float]] | None
) -> None:
    widths = {name: max(len(name), 9) for name in figures}
    if before is None:
        names = ", ".join(COMPARED[part])
        print(f"\n{part:>12} " + " ".join(f"{name:>{width}}" for name, width in widths.items()) + f"  power of {names}")
    row = f"{size:>12,} " + " ".join(f"{figures[name]:>{width},.4g}" for name, width in widths.items())
    if before is not None:
        grown = powers(before, size, figures, part)
        row += "  " + ", ".join(f"{power:.1f}" for power in grown.values())
        row += "  <-- grows" if max(grown.values()) > GROWS else ""
    print(row, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"some of {', '.join(PARTS)}; all if none is named")
    parser.add_argument("--connectors", type=int, nargs="+", default=[25, 100])
    parser.add_argument("--tasks", type=int, nargs="+", default=[10, 100])
    parser.add_argument("--partitions", type=int, nargs="+", default=[1_000, 10_000])
    parser.add_argument("--topics", type=int, nargs="+", default=[25, 100])
    parser.add_argument("--files", type=int, nargs="+", default=[250, 1_000])
    parser.add_argument("--busy", type=int, default=0)
    arguments = parser.parse_args()
    if unknown := set(arguments.parts) - PARTS.keys():
        parser.error(f"there is no part {', '.join(sorted(unknown))}")
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        broker = stack.enter_context(EmbeddedBroker(folder / "broker"))
        site = Site(folder, broker.bootstrap_servers, arguments.busy)
        for _ in range(arguments.busy):
            stack.callback(burner().kill)
        for part in arguments.parts or PARTS:
            before = None
            for size in getattr(arguments, part):
                figures = PARTS[part](site, size)
                print_row(part, size, figures, before)
                before = size, figures


if __name__ == "__main__":
    main()
