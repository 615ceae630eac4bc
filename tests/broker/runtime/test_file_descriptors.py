"""A worker with fewer file descriptors than its tasks need."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import psutil
import pytest

from fencepost import SourceRecord, SourceTask
from fencepost.embedded.broker import EmbeddedBroker
from fencepost.embedded.ports import free_ports
from tests.hostile.workers import CONNECTORS, good
from tests.support.bare_source import BareConnector
from tests.support.checker import assert_exactly_once, read_offsets, read_topic
from tests.support.processes import Process, wait_for
from tests.support.topics import Topics, unique
from tests.support.workers import NO_JAVA, Group, Worker

TASKS = 30
ROOM = 60
MOST_LOGGED_BYTES = 300_000
REQUESTS = 30
FEW_MORE = 8
FEW = 110
PARTS_OF_REQUESTS = (
    b"",
    b"GET /connectors HTTP/1.1\r\nHo",
    b"POST /connectors HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{",
)


class GreedyTask(SourceTask):
    """Opens as many files as the process may have open, once, and closes them when it is stopped."""

    def start(self, config: Mapping[str, str]) -> None:
        del config
        self.opened: list[int] = []
        self.stopping = threading.Event()

    def poll(self) -> Sequence[SourceRecord] | None:
        with contextlib.suppress(OSError):
            while not self.stopping.is_set():
                self.opened.append(os.open(os.devnull, os.O_RDONLY))
        self.stopping.wait()
        return None

    def stop(self) -> None:
        self.stopping.set()
        for descriptor in self.opened:
            os.close(descriptor)


class GreedyConnector(BareConnector):
    def task_class(self) -> type[SourceTask]:
        return GreedyTask

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        del max_tasks
        return [{}]


@pytest.fixture
def group(broker: EmbeddedBroker, tmp_path: Path) -> Group:
    return Group(tmp_path, broker.bootstrap_servers, plugin_path=str(CONNECTORS))


@pytest.fixture
def worker(group: Group) -> Iterator[Worker]:
    with group.worker() as worker:
        yield worker


@pytest.fixture
def topic(topics: Topics) -> str:
    return topics.create(unique("numbers"))


def _limit(worker: Worker, room: int | None) -> None:
    """Limit a worker to this many more descriptors than it has open; None for the system's maximum."""
    process = psutil.Process(worker.process.pid)
    _, hard = process.rlimit(resource.RLIMIT_NOFILE)
    process.rlimit(resource.RLIMIT_NOFILE, (hard if room is None else process.num_fds() + room, hard))


def _tasks(worker: Worker, name: str, wanted: Callable[[Mapping[str, str]], bool]) -> int:
    status = worker.get(f"/connectors/{name}/status") or {"tasks": []}
    return sum(map(wanted, status["tasks"]))


def _runs(task: Mapping[str, str]) -> bool:
    return task["state"] == "RUNNING"


def _waits(task: Mapping[str, str]) -> bool:
    return task["state"] == "RESTARTING" and "LimitNOFILE=" in task["trace"]


def _all_answered(worker: Worker) -> bool:
    """Whether /health and the list of connectors are answered, over several connections at once."""
    with contextlib.ExitStack() as stack:
        connections = [stack.enter_context(contextlib.closing(worker._connection())) for _ in range(4)]
        for connection in connections:
            connection.connect()
        return all(worker.request("GET", path).status == 200 for path in ("/health", "/connectors"))


@contextlib.contextmanager
def _limited(group: Group, soft: int, hard: int) -> Iterator[Worker]:
    """Start a worker with these limits."""
    port = free_ports(1)[0]
    file = group.folder / "limited.properties"
    lines = group.settings | {"listeners": f"http://127.0.0.1:{port}"}
    file.write_text("".join(f"{name}={value}\n" for name, value in lines.items()))
    program = [sys.executable, "-m", "fencepost", "worker", str(file)]
    command = ["/bin/sh", "-c", f'ulimit -Sn {soft}; ulimit -Hn {hard}; exec "$@"', "sh", *program]
    with Process(command, group.folder / "limited.log", environment=dict(NO_JAVA)) as process:
        worker = Worker(process, port)
        worker.wait_until_healthy()
        yield worker


def test_a_worker_starts_with_the_hard_limit_of_open_files(group: Group) -> None:
    with _limited(group, 100, 900) as worker:
        assert psutil.Process(worker.process.pid).rlimit(resource.RLIMIT_NOFILE) == (900, 900)


def test_clients_that_send_no_whole_request_stop_neither_requests_nor_tasks(group: Group, topic: str) -> None:
    with _limited(group, FEW, FEW) as worker, contextlib.ExitStack() as stack:
        assert worker.request("PUT", f"/connectors/{topic}/config", good(topic, tasks="1")).status == 201
        worker.wait_for_states(topic, "RUNNING", "RUNNING")
        address = ("127.0.0.1", worker.port)
        page = stack.enter_context(socket.create_connection(address, timeout=60))
        page.sendall(b"GET /ui/api/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert b"200" in page.recv(15)

        for number in range(FEW * 2):
            waiting = stack.enter_context(socket.create_connection(address, timeout=60))
            waiting.sendall(PARTS_OF_REQUESTS[number % len(PARTS_OF_REQUESTS)])

        assert all(_all_answered(worker) for _ in range(REQUESTS))
        before = _end(group, topic)
        wait_for(lambda: _end(group, topic) > before, what="the task goes on")
        while b"data: " not in page.recv(1_000):
            pass
        worker.wait_for_states(topic, "RUNNING", "RUNNING")
        assert worker.process.log_file.stat().st_size < MOST_LOGGED_BYTES


def test_tasks_that_do_not_fit_wait_until_the_limit_is_raised(worker: Worker, group: Group, topic: str) -> None:
    _limit(worker, ROOM)
    config = good(topic, tasks=str(TASKS), poll_ms="200")
    assert worker.request("PUT", f"/connectors/{topic}/config", config).status == 201
    wait_for(lambda: _tasks(worker, topic, _runs) + _tasks(worker, topic, _waits) == TASKS, what="tasks run, or wait")
    assert 0 < _tasks(worker, topic, _waits) < TASKS
    assert all(_all_answered(worker) for _ in range(REQUESTS))

    _limit(worker, None)

    worker.wait_for_states(topic, *["RUNNING"] * (TASKS + 1))
    wait_for(lambda: len(_ends(group, topic)) == TASKS, what="all tasks have committed")
    assert worker.request("PUT", f"/connectors/{topic}/stop").status == 204
    worker.wait_for_states(topic, "STOPPED")
    _assert_exactly_once(group, topic)
    assert worker.process.log_file.stat().st_size < MOST_LOGGED_BYTES


def test_tasks_that_do_not_fit_start_once_others_are_deleted(worker: Worker, topics: Topics) -> None:
    first, second = (topics.create(unique("numbers")) for _ in range(2))
    _limit(worker, ROOM)
    assert worker.request("PUT", f"/connectors/{first}/config", good(first, tasks=str(TASKS))).status == 201
    wait_for(lambda: _tasks(worker, first, _waits) > 0, what="tasks wait")
    assert worker.request("PUT", f"/connectors/{second}/config", good(second, tasks=str(TASKS))).status == 201
    wait_for(lambda: _tasks(worker, second, _waits) > 0, what="tasks of the second connector wait")

    before = _tasks(worker, second, _runs)

    assert worker.request("DELETE", f"/connectors/{first}").status == 204

    wait_for(lambda: _tasks(worker, second, _runs) > before, what="more tasks of the second connector run")


def test_a_worker_whose_tasks_became_one_keeps_no_descriptors_of_the_others(
    worker: Worker, group: Group, topic: str
) -> None:
    process = psutil.Process(worker.process.pid)
    one, many = (good(topic, tasks=str(tasks), poll_ms="200") for tasks in (1, TASKS))
    assert worker.request("PUT", f"/connectors/{topic}/config", one).status == 201
    worker.wait_for_states(topic, "RUNNING", "RUNNING")
    wait_for(lambda: _end(group, topic) > 0, what="the task commits")
    before = process.num_fds()
    assert worker.request("PUT", f"/connectors/{topic}/config", many).status == 200
    worker.wait_for_states(topic, *["RUNNING"] * (TASKS + 1))
    wait_for(lambda: process.num_fds() > before + TASKS, what="each task has a connection")

    assert worker.request("PUT", f"/connectors/{topic}/config", one).status == 200

    worker.wait_for_states(topic, "RUNNING", "RUNNING")
    # The other tasks may still be stopping.
    wait_for(lambda: process.num_fds() <= before + FEW_MORE, what="the descriptors of 29 tasks are closed")


def test_requests_are_answered_while_a_connector_has_opened_all_files(worker: Worker, topic: str) -> None:
    name = f"{GreedyConnector.__module__}.{GreedyConnector.__name__}"
    greedy = {"connector.class": name, "exactly.once.support": "requested"}
    _limit(worker, ROOM)
    assert worker.request("PUT", "/connectors/greedy/config", greedy).status == 201
    process = psutil.Process(worker.process.pid)
    wait_for(lambda: process.num_fds() >= process.rlimit(resource.RLIMIT_NOFILE)[0] - 8, what="all files are open")

    assert all(worker.healthy() for _ in range(REQUESTS))

    assert worker.request("DELETE", "/connectors/greedy").status == 204
    assert worker.request("PUT", f"/connectors/{topic}/config", good(topic, tasks="1")).status == 201
    worker.wait_for_states(topic, "RUNNING", "RUNNING")
    assert worker.process.log_file.stat().st_size < MOST_LOGGED_BYTES


def _end(group: Group, topic: str) -> int:
    return len(read_topic(group.settings["bootstrap.servers"], topic))


def _ends(group: Group, name: str) -> list[tuple[str, int]]:
    offsets = read_offsets(group.settings["bootstrap.servers"], group.settings["offset.storage.topic"], name)
    return [(partition["task"], offset["seq"]) for partition, offset in offsets if offset]


def _assert_exactly_once(group: Group, name: str) -> None:
    values = [json.loads(record.value or b"") for record in read_topic(group.settings["bootstrap.servers"], name)]
    found = [(value["task"], value["seq"]) for value in values]
    assert_exactly_once(found, [(task, seq) for task, end in _ends(group, name) for seq in range(1, end + 1)])
