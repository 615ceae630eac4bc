"""Java workers of Kafka Connect and fencepost workers in one group, at the same time and one after the other."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path

import pytest

from fencepost.failpoint import FailPoint
from fencepost.kafka.admin.admin import Admin
from fencepost.kafka.config.client_config import ClientConfig
from tests.support.checker import read_offsets, read_topic, values
from tests.support.java_worker import BEFORE_KIP_618, java_worker
from tests.support.processes import wait_for
from tests.support.topics import Topics, unique
from tests.support.workers import Group, Worker

CONNECTORS = 4
LINES = [f"line {number}".encode() for number in range(200)]

Start = Callable[[Group], AbstractContextManager[Worker]]
WORKERS: dict[str, tuple[Start, Start]] = {
    "java leads": (java_worker, Group.starting),
    "fencepost leads": (Group.starting, java_worker),
}


@contextmanager
def running(start: Start, group: Group) -> Iterator[Worker]:
    """Start a worker, and wait until it is in its group."""
    with start(group) as worker:
        worker.wait_until_healthy()
        yield worker


def create(worker: Worker, name: str, topic: str, file: Path, **extra: str) -> None:
    config = {
        "connector.class": "org.apache.kafka.connect.file.FileStreamSourceConnector",
        "file": str(file),
        "topic": topic,
        **{key.replace("_", "."): value for key, value in extra.items()},
    }

    def created() -> bool:
        answer = worker.request("POST", "/connectors", {"name": name, "config": config})
        # Java's worker answers 409 during the rebalance for the previous connector.
        assert answer.status in (201, 409), answer
        return answer.status == 201

    wait_for(created, what=f"{name} is created")


def append(file: Path, line: bytes) -> None:
    with file.open("ab") as end:
        end.write(line + b"\n")


def owners(worker: Worker, names: list[str]) -> dict[str, tuple[str, str]]:
    """The owners of each connector and of its RUNNING task, according to one worker's status."""
    found = {}
    for name in names:
        status = worker.get(f"/connectors/{name}/status")
        if status and [task["state"] for task in status["tasks"]] == ["RUNNING"]:
            found[name] = (status["connector"]["worker_id"], status["tasks"][0]["worker_id"])
    return found


def wait_until_shared(leader: Worker, follower: Worker, names: list[str]) -> None:
    """Wait until each worker has half of the connectors and tasks, according to both workers."""

    def shared() -> bool:
        seen = [owners(worker, names) for worker in (leader, follower)]
        even = all(
            sorted(owner[kind] for owner in seen[0].values()) == sorted([leader.id, follower.id] * (len(names) // 2))
            for kind in (0, 1)
        )
        return even and seen[0] == seen[1]

    wait_for(shared, what="each worker has half of the connectors and of the tasks, and both say so")


def stop_and_resume(leader: Worker, follower: Worker, name: str) -> None:
    """Stop a connector and resume it, and wait until both workers show each state, and its tasks."""
    path = f"/connectors/{name}"

    def is_as(worker: Worker, states: list[str]) -> bool:
        tasks = (worker.get(path) or {"tasks": None})["tasks"]
        return worker.states(name) == states and tasks is not None and len(tasks) == len(states) - 1

    for request, states in ("stop", ["STOPPED"]), ("resume", ["RUNNING", "RUNNING"]):
        # Java's worker answers 409 during a rebalance.
        wait_for(lambda request=request: follower.request("PUT", f"{path}/{request}").status in (202, 204))
        for worker in (leader, follower):
            wait_for(
                lambda worker=worker, states=states: is_as(worker, states), what=f"{worker.id} shows {name} as {states}"
            )


# The first run on a machine downloads the jars.
@pytest.mark.timeout(900)
@pytest.mark.parametrize(("first", "second"), WORKERS.values(), ids=WORKERS)
def test_a_java_worker_and_one_of_fencepost_share_work(
    tmp_path: Path, bootstrap_servers: str, topics: Topics, first: Start, second: Start
) -> None:
    file = tmp_path / "lines.txt"
    file.write_bytes(b"\n".join(LINES) + b"\n")
    group = Group(tmp_path, bootstrap_servers)
    connectors = {unique("connector"): topics.create() for _ in range(CONNECTORS)}
    names = list(connectors)
    with ExitStack() as stack:
        leader, follower = (stack.enter_context(running(start, group)) for start in (first, second))
        assert leader.leads()
        assert not follower.leads()

        for number, (name, topic) in enumerate(connectors.items()):
            create((leader, follower)[number % 2], name, topic, file)

        wait_until_shared(leader, follower, names)
        for topic in connectors.values():
            wait_for(lambda topic=topic: len(read_topic(bootstrap_servers, topic)) >= len(LINES))
            assert values(read_topic(bootstrap_servers, topic)) == LINES

        for worker in (leader, follower):
            theirs = [name for name, (_, task) in owners(leader, names).items() if task == worker.id]
            stop_and_resume(leader, follower, theirs[0])
            wait_until_shared(leader, follower, names)

        # Whichever worker stopped and resumed them, the follower's connectors go on at their offsets.
        before = owners(leader, names)
        leader.process.kill()
        wait_for(
            lambda: owners(follower, names) == dict.fromkeys(names, (follower.id, follower.id)),
            what="the follower has taken over everything",
        )
        assert {worker for pair in before.values() for worker in pair} == {leader.id, follower.id}
        append(file, b"the end")
        for topic in connectors.values():
            wait_for(lambda topic=topic: len(read_topic(bootstrap_servers, topic)) > len(LINES))
            assert values(read_topic(bootstrap_servers, topic)) == [*LINES, b"the end"]


@pytest.mark.timeout(900)
@pytest.mark.parametrize(("who", "protocol"), [("java leads", "eager"), ("fencepost leads", "compatible")])
def test_java_and_fencepost_workers_share_work_in_older_protocols(
    tmp_path: Path, bootstrap_servers: str, topics: Topics, who: str, protocol: str
) -> None:
    """Data that fencepost's workers add to the protocol must not disturb Apache's workers."""
    file = tmp_path / "lines.txt"
    file.write_bytes(b"line\n")
    group = Group(tmp_path, bootstrap_servers, connect_protocol=protocol)
    names = [unique("connector") for _ in range(2)]
    with ExitStack() as stack:
        leader, follower = (stack.enter_context(running(start, group)) for start in WORKERS[who])
        assert leader.leads()
        for name in names:
            create(follower, name, topics.create(), file)
        wait_until_shared(leader, follower, names)


@pytest.mark.timeout(900)
def test_java_workers_take_over_a_group_whose_worker_died_in_a_commit(
    tmp_path: Path, bootstrap_servers: str, topics: Topics
) -> None:
    """Connectors continue at their offsets, also one whose own offsets topic the Java workers do not know."""
    group = Group(tmp_path, bootstrap_servers)
    own, common = unique("own"), unique("common")
    files = {name: tmp_path / f"{name}.txt" for name in (own, common)}
    for file in files.values():
        file.write_bytes(b"\n".join(LINES) + b"\n")
    targets = {name: topics.create() for name in files}

    def wait_until_committed(name: str) -> None:
        def committed() -> bool:
            offsets = read_offsets(bootstrap_servers, f"{group.id}-offsets", name)
            return [offset["position"] for _, offset in offsets if offset] == [files[name].stat().st_size]

        wait_for(committed, what="the worker's topic has the offset of the last line")

    with group.worker(dies_at=f"{FailPoint.BEFORE_END_TXN}:3") as worker:
        create(worker, own, targets[own], files[own], offsets_storage_topic=unique("offsets"))
        wait_until_committed(own)
        create(worker, common, targets[common], files[common])
        wait_until_committed(common)
        append(files[common], b"of the third transaction")
        assert worker.process.wait() == -signal.SIGKILL
    with Admin(ClientConfig((bootstrap_servers,))) as admin:
        admin.abort_transaction(f"{group.id}-{common}-0")
    # The uncommitted offset stays in the topic. Old Java workers would use it unless isolation.level is read_committed.
    group.settings["isolation.level"] = "read_committed"

    with java_worker(group, BEFORE_KIP_618):
        for name, lines in (own, LINES), (common, [*LINES, b"of the third transaction"]):
            append(files[name], b"the end")
            wait_for(
                lambda name=name: b"the end" in values(read_topic(bootstrap_servers, targets[name])),
                240,
                what=f"{name} goes on to the end",
            )
            assert values(read_topic(bootstrap_servers, targets[name])) == [*lines, b"the end"]
