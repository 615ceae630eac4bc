"""The distributed worker: real worker processes on a broker of their own, asked through the REST API.

    python bench/worker.py [start] [create] [join] [kill] [back] [many] [--rounds 5] [--connectors 500]

start   from the start of the process to the first answer of the REST API, and to the worker's joining of its group
create  from POST /connectors to the task being RUNNING, once the worker is idle
join    from the start of a third worker to an even share of running tasks on each of the three
kill    from the SIGKILL of one of three workers to all tasks RUNNING on the others, with a session of 10 s and no delay
back    from the restart of a broker that was down for some seconds, to the answer 200 for a PUT of a configuration
many    connectors of one idle task, created one by one: until all run, then memory and threads of the worker with its
        JVM, idle CPU, and GET /connectors?expand=status

Each round of start and of many has a worker and topics of its own. Shown are medians with the range over the rounds.
"""

from __future__ import annotations

import argparse
import http.client
import itertools
import json
import statistics
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import psutil

from fencepost.embedded.broker import EmbeddedBroker
from fencepost.embedded.ports import free_ports
from fencepost.embedded.process import kill, launch

FOLDER = Path(__file__).parent
TASKS_OF_THREE = 12
LOOK_SECONDS = 0.01
LIMIT_SECONDS = 600
IDLE_SECONDS = 30
STATUS_REQUESTS = 20
AWAY_SECONDS = (5, 45)

# The worker and its child processes count as idle once they use less than this part of a core for a second.
QUIET_CORES = 0.1

Figures = defaultdict[str, list[float]]


class Worker:
    """A worker process, and requests to it."""

    def __init__(self, file: Path, port: int) -> None:
        self.id = f"127.0.0.1:{port}"
        self.started = time.perf_counter()
        self.process = launch([sys.executable, "-m", "fencepost", "worker", str(file)], file.with_suffix(".log"))
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=LIMIT_SECONDS)

    def request(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """Send a request; return the status and the body of the answer. Raises OSError."""
        try:
            content = None if body is None else json.dumps(body)
            self._connection.request(method, path, content, {"Content-Type": "application/json"})
            answer = self._connection.getresponse()
            text = answer.read()
        except (OSError, http.client.HTTPException) as error:
            self._connection.close()
            raise OSError(str(error)) from error
        return answer.status, json.loads(text) if text else None

    def wait_for_answer(self, path: str, *statuses: int) -> float:
        """Wait for an answer with one of the statuses; return the seconds since the process started."""

        def answers() -> bool:
            with suppress(OSError):
                return self.request("GET", path)[0] in statuses
            return False

        wait_for(answers)
        return time.perf_counter() - self.started

    def create(self, name: str) -> None:
        config = {"connector.class": "idle_source.IdleConnector", "tasks.max": "1"}
        status, body = self.request("POST", "/connectors", {"name": name, "config": config})
        assert status == 201, body

    def takes(self, name: str, number: int) -> bool:
        """Whether the worker accepts a new configuration of the connector."""
        config = {"connector.class": "idle_source.IdleConnector", "tasks.max": "1", "number": str(number)}
        with suppress(OSError):
            return self.request("PUT", f"/connectors/{name}/config", config)[0] == 200
        return False

    def task_places(self) -> list[tuple[str, str]]:
        """The state and the worker of each task that has reported one."""
        _, body = self.request("GET", "/connectors?expand=status")
        return [(task["state"], task["worker_id"]) for one in body.values() for task in one["status"]["tasks"]]

    def runs(self, name: str) -> bool:
        _, body = self.request("GET", f"/connectors/{name}/status")
        return [task["state"] for task in body.get("tasks", ())] == ["RUNNING"]

    def tree(self) -> list[psutil.Process]:
        """The worker process, its JVM and its Python workers."""
        worker = psutil.Process(self.process.pid)
        return [worker, *worker.children(recursive=True)]

    def cpu_seconds(self) -> float:
        return sum(spent.user + spent.system for spent in (process.cpu_times() for process in self.tree()))

    def settle(self) -> None:
        """Wait until the workers are idle."""
        wait_for(lambda: self._cores_over(1.0) < QUIET_CORES)

    def _cores_over(self, seconds: float) -> float:
        before, started = self.cpu_seconds(), time.perf_counter()
        time.sleep(seconds)
        return (self.cpu_seconds() - before) / (time.perf_counter() - started)

    def idle_cores(self) -> float:
        return self._cores_over(IDLE_SECONDS)


@dataclass
class Group:
    """The workers of a group, and the folder of their files. `settings` are further worker properties."""

    folder: Path
    bootstrap_servers: str
    name: str
    settings: Mapping[str, str] = field(default_factory=dict)

    @contextmanager
    def worker(self, *, joined: bool = True) -> Iterator[Worker]:
        """Start a worker, and wait until it is in the group unless `joined` is false."""
        port = free_ports(1)[0]
        file = self.folder / f"{self.name}-{port}.properties"
        settings = {
            "bootstrap.servers": self.bootstrap_servers,
            "group.id": self.name,
            "listeners": f"http://127.0.0.1:{port}",
            "exactly.once.source.support": "enabled",
            "scheduled.rebalance.max.delay.ms": "0",
            "session.timeout.ms": "10000",
            "plugin.path": str(FOLDER),
            "fencepost.files.allowed.paths": str(self.folder),
            "key.converter": "org.apache.kafka.connect.storage.StringConverter",
            "value.converter": "org.apache.kafka.connect.storage.StringConverter",
            **{f"{kind}.storage.topic": f"{self.name}-{kind}" for kind in ("config", "offset", "status")},
            **self.settings,
        }
        file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        worker = Worker(file, port)
        try:
            if joined:
                worker.wait_for_answer("/health", 200)
            yield worker
        finally:
            for process in worker.tree() if worker.process.poll() is None else ():
                with suppress(psutil.NoSuchProcess):
                    process.kill()
            kill(worker.process)


class Bench:
    """Measures each part, and collects the figures."""

    def __init__(self, folder: Path, broker: EmbeddedBroker, *, rounds: int, connectors: int) -> None:
        self.figures: Figures = defaultdict(list)
        self._folder = folder
        self._broker = broker
        self._rounds = rounds
        self._connectors = connectors
        self._numbers = itertools.count()

    def start(self) -> None:
        for _ in range(self._rounds):
            with self._group().worker(joined=False) as worker:
                self._add("start: /health answers, s", worker.wait_for_answer("/health", 200, 503))
                self._add("start: its CPU until then, s", worker.cpu_seconds())
                self._add("start: GET / answers 200, s", worker.wait_for_answer("/", 200))
                self._add("start: in the group, s", worker.wait_for_answer("/health", 200))
                self._add("start: its CPU until in the group, s", sum(worker.tree()[0].cpu_times()[:2]))

    def create(self) -> None:
        with self._group().worker() as worker:
            worker.settle()
            worker.create("warm")
            wait_for(lambda: worker.runs("warm"))
            for number in range(self._rounds):
                started = time.perf_counter()
                worker.create(f"idle-{number}")
                wait_for(partial(worker.runs, f"idle-{number}"))
                self._add("create: POST to RUNNING, s", time.perf_counter() - started)

    def join(self) -> None:
        group = self._group()
        with ExitStack() as stack:
            first, second = self._two(group, stack)
            for _ in range(self._rounds):
                with group.worker(joined=False) as third:
                    wait_for(partial(balanced, first, {first.id, second.id, third.id}))
                    self._add("join: start of a third worker to balanced, s", time.perf_counter() - third.started)
                wait_for(lambda: balanced(first, {first.id, second.id}))

    def kill(self) -> None:
        group = self._group()
        with ExitStack() as stack:
            first, second = self._two(group, stack)
            for _ in range(self._rounds):
                with group.worker() as third:
                    wait_for(partial(balanced, first, {first.id, second.id, third.id}))
                    kill(third.process)
                    started = time.perf_counter()
                    wait_for(lambda: balanced(first, {first.id, second.id}))
                    self._add("kill: SIGKILL to RUNNING elsewhere, s", time.perf_counter() - started)

    def back(self) -> None:
        with self._group().worker() as worker:
            worker.settle()
            worker.create("idle")
            wait_for(lambda: worker.runs("idle"))
            for number, away in itertools.product(range(self._rounds), AWAY_SECONDS):
                self._broker.kill()
                time.sleep(away)
                self._broker.start()
                returned = time.perf_counter()
                wait_for(partial(worker.takes, "idle", number * 100 + away))
                self._add(f"back: away {away} s, return to 200 for a PUT, s", time.perf_counter() - returned)
                wait_for(lambda: worker.runs("idle"))

    def many(self) -> None:
        for _ in range(self._rounds):
            with self._group().worker() as worker:
                worker.settle()
                self._create_many(worker)
                tree = worker.tree()
                self._add("many: resident in all, MiB", sum(one.memory_info().rss for one in tree) / 2**20)
                self._add("many: of these the JVM, MiB", sum(one.memory_info().rss for one in tree[1:]) / 2**20)
                self._add("many: threads in all", sum(one.num_threads() for one in tree))
                self._add("many: of these the JVM's", sum(one.num_threads() for one in tree[1:]))
                self._add("many: connections of the worker", len(tree[0].net_connections("tcp")))
                worker.settle()
                self._add("many: idle CPU, cores", worker.idle_cores())
                self._add("many: GET expand=status, ms", statistics.median(self._status_times(worker)))

    def _create_many(self, worker: Worker) -> None:
        started, cpu = time.perf_counter(), worker.cpu_seconds()
        for number in range(self._connectors):
            worker.create(f"idle-{number}")
        self._add("many: created, s", time.perf_counter() - started)
        wait_for(lambda: Counter(state for state, _ in worker.task_places())["RUNNING"] == self._connectors)
        self._add("many: created and RUNNING, s", time.perf_counter() - started)
        self._add("many: the worker's CPU for that, s", worker.cpu_seconds() - cpu)

    @staticmethod
    def _status_times(worker: Worker) -> Iterator[float]:
        for _ in range(STATUS_REQUESTS):
            started = time.perf_counter()
            worker.request("GET", "/connectors?expand=status")
            yield (time.perf_counter() - started) * 1000

    def _two(self, group: Group, stack: ExitStack) -> tuple[Worker, Worker]:
        """Two workers that share tasks evenly."""
        first, second = (stack.enter_context(group.worker()) for _ in range(2))
        for number in range(TASKS_OF_THREE):
            first.create(f"idle-{number}")
        wait_for(lambda: balanced(first, {first.id, second.id}))
        first.settle()
        second.settle()
        return first, second

    def _group(self) -> Group:
        return Group(self._folder, self._broker.bootstrap_servers, f"bench-{next(self._numbers)}")

    def _add(self, name: str, figure: float) -> None:
        self.figures[name].append(figure)


def balanced(worker: Worker, members: set[str]) -> bool:
    """Whether all tasks run, with the same number of them on each worker."""
    places = worker.task_places()
    shares = Counter(place for _, place in places)
    each = TASKS_OF_THREE // len(members)
    return all(state == "RUNNING" for state, _ in places) and shares == dict.fromkeys(members, each)


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.perf_counter() + LIMIT_SECONDS
    while not condition():
        assert time.perf_counter() < deadline, "it takes too long: see the worker's log"
        time.sleep(LOOK_SECONDS)


def main() -> None:
    parts = ("start", "create", "join", "kill", "back", "many")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"some of {', '.join(parts)}; all if none is named")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--connectors", type=int, default=500)
    arguments = parser.parse_args()
    unknown = set(arguments.parts) - set(parts)
    if unknown:
        parser.error(f"there is no part {', '.join(sorted(unknown))}")
    with tempfile.TemporaryDirectory() as folder, EmbeddedBroker(Path(folder, "broker")) as broker:
        bench = Bench(Path(folder), broker, rounds=arguments.rounds, connectors=arguments.connectors)
        for part in arguments.parts or parts:
            bench.figures.clear()
            getattr(bench, part)()
            for name, figures in bench.figures.items():
                print(
                    f"{name:48} {statistics.median(figures):9.3f} ({min(figures):.3f}-{max(figures):.3f})", flush=True
                )


if __name__ == "__main__":
    main()
