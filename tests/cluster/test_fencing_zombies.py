"""Tasks and workers that live on after others have replaced them: none of their writes is accepted any more."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from fencepost.embedded.broker import EmbeddedBroker
from fencepost.kafka.errors import ProducerFencedError
from fencepost.kafka.producer.transactional import TransactionalProducer
from tests.support.checker import assert_exactly_once, read_offsets, read_topic, values
from tests.support.fault_proxy import Act, ApiKey, FaultProxy, Link
from tests.support.local_workers import LocalWorkers
from tests.support.processes import wait_for
from tests.support.running_tasks import running
from tests.support.sequence_source import SEEN, properties, seqs
from tests.support.topics import Topics, unique
from tests.support.workers import Group, WorkerApi
from tests.support.writing import open_producer, producer_config, write_in_transaction

ZOMBIE = b"of a task that was believed dead"
SYNC_TIMEOUT_MS = 3_000


class Tasks:
    """A connector whose tasks always send records, and producers that pretend to be its earlier tasks."""

    def __init__(self, group: Group, name: str, topic: str) -> None:
        self.group = group
        self.name = name
        self.topic = topic
        self.bootstrap_servers = group.settings["bootstrap.servers"]

    def config(self, count: int, **extra: Any) -> dict[str, str]:
        own = {"tasks.max": count, "messages.per.poll": 5, "poll.ms": 40, **extra}
        return properties(self.name, self.topic, own)

    def create(self, worker: WorkerApi, count: int, **extra: Any) -> None:
        body = {"name": self.name, "config": self.config(count, **extra)}
        answer = worker.request("POST", "/connectors", body)
        assert answer.status == 201, answer

    def stop(self, worker: WorkerApi) -> None:
        assert worker.request("PUT", f"/connectors/{self.name}/stop").status == 204
        worker.wait_for_states(self.name, "STOPPED")

    def wait_until_sending(self, worker: WorkerApi, count: int) -> None:
        """Wait until all tasks run and have sent new records."""
        wait_for(lambda: running(worker, self.name).total() == count, what=f"{count} tasks of {self.name} run")
        before = self.last(count)
        wait_for(lambda: all(new > old for new, old in zip(self.last(count), before, strict=True)), what="all send")

    def last(self, count: int) -> list[int]:
        found = values(read_topic(self.bootstrap_servers, self.topic))
        return [max(seqs(found, self.name, task), default=0) for task in range(count)]

    def zombies(self, stack: ExitStack, count: int) -> list[TransactionalProducer]:
        """Producers under the transactional ids of the first tasks, each in an open transaction."""
        zombies = []
        for task in range(count):
            config = producer_config(self.bootstrap_servers)
            zombie = stack.enter_context(open_producer(config, f"{self.group.id}-{self.name}-{task}"))
            zombie.begin_transaction()
            write_in_transaction(zombie, self.topic, [ZOMBIE])
            zombies.append(zombie)
        return zombies

    def _read_between_commits(self) -> tuple[list[Any], list[Any]] | None:
        """The topic's values and the committed offsets at one time; None if there was a commit meanwhile."""
        offsets = f"{self.group.id}-offsets"
        before = read_offsets(self.bootstrap_servers, offsets, self.name)
        found = values(read_topic(self.bootstrap_servers, self.topic))
        committed = read_offsets(self.bootstrap_servers, offsets, self.name)
        return (found, committed) if committed == before else None

    def assert_exactly_once(self, worker: WorkerApi) -> None:
        """Stop the connector, and check that each task sent each record up to its offset, once and in order."""
        self.stop(worker)
        # A task on another worker may commit its last transaction after the connector is STOPPED.
        between = wait_for(self._read_between_commits, what="the last commits")
        assert between is not None
        found, committed = between
        sent = 0
        for partition, offset in committed:
            assert offset is not None
            numbers = seqs(found, self.name, int(partition["task.id"].rpartition("-")[2]))
            assert numbers == list(range(1, offset["saved"] + 1))
            sent += len(numbers)
        assert sent == len(found), "nobody else sent anything"


@pytest.fixture(scope="module")
def pair(
    tmp_path_factory: pytest.TempPathFactory, broker: EmbeddedBroker, _session_proxy: FaultProxy
) -> Iterator[tuple[Group, WorkerApi, WorkerApi]]:
    """A leader, and a follower whose traffic goes through the proxy. Both answer often enough to stay in the group."""
    assert _session_proxy.upstream in broker.nodes[0].place.ports.values()
    group = Group(
        tmp_path_factory.mktemp("zombies"),
        broker.bootstrap_servers,
        session_timeout_ms="60000",
        worker_sync_timeout_ms=str(SYNC_TIMEOUT_MS),
        task_shutdown_graceful_timeout_ms="500",
    )
    with LocalWorkers(group) as workers:
        leader, follower = workers.start(), workers.start(bootstrap_servers=_session_proxy.address)
        assert leader.leads()
        yield group, leader, follower


@pytest.fixture
def tasks(pair: tuple[Group, WorkerApi, WorkerApi], topic: str) -> Iterator[Tasks]:
    """A connector that is deleted at the end."""
    tasks = Tasks(pair[0], unique("connector"), topic)
    yield tasks
    pair[1].request("DELETE", f"/connectors/{tasks.name}")


def task_of(worker: WorkerApi, connector: str) -> int:
    """The number of a task that a worker runs."""
    status = worker.get(f"/connectors/{connector}/status")
    return next(int(task["id"]) for task in status["tasks"] if task["worker_id"] == worker.id)


def test_all_earlier_tasks_are_fenced_for_any_old_and_new_number(
    pair: tuple[Group, WorkerApi, WorkerApi], tasks: Tasks
) -> None:
    """The connector has 3, 5, 1, 5 and 3 tasks, and then 2 after another connector has its name."""
    _, leader, follower = pair
    path = f"/connectors/{tasks.name}"
    tasks.create(follower, 3)
    tasks.wait_until_sending(leader, 3)
    former = 3
    for count in (5, 1, 5, 3):
        tasks.stop(follower)
        with ExitStack() as stack:
            zombies = tasks.zombies(stack, former)
            assert follower.request("PUT", f"{path}/config", tasks.config(count)).status == 200
            assert follower.request("PUT", f"{path}/resume").status == 202
            tasks.wait_until_sending(leader, count)
            for zombie in zombies:
                with pytest.raises(ProducerFencedError):
                    zombie.commit_transaction()
        former = count

    assert leader.request("DELETE", path).status == 204
    wait_for(lambda: leader.get(f"{path}/status") is None and follower.get(f"{path}/status") is None)
    with ExitStack() as stack:
        zombies = tasks.zombies(stack, former)
        tasks.create(follower, 2)
        tasks.wait_until_sending(leader, 2)
        for zombie in zombies:
            with pytest.raises(ProducerFencedError):
                zombie.commit_transaction()
    tasks.assert_exactly_once(leader)


def test_a_slow_task_overtaken_by_a_reconfiguration_does_not_run(
    pair: tuple[Group, WorkerApi, WorkerApi], tasks: Tasks, topics: Topics, fault_proxy: FaultProxy
) -> None:
    _, leader, follower = pair
    tasks.create(leader, 2)
    tasks.wait_until_sending(leader, 2)
    slow = task_of(follower, tasks.name)
    trap = fault_proxy.on_request(ApiKey.INIT_PRODUCER_ID, Act.HOLD)
    assert follower.request("POST", f"/connectors/{tasks.name}/tasks/{slow}/restart").status == 204
    trap.wait()
    starts = SEEN[tasks.name].starts

    former_topic, tasks.topic = tasks.topic, topics.create()
    assert leader.request("PUT", f"/connectors/{tasks.name}/config", tasks.config(2)).status == 200
    tasks.wait_until_sending(leader, 2)
    assert SEEN[tasks.name].starts == starts + 2
    # The overtaken task's delayed request takes the id from its successor, which restarts.
    trap.release()
    tasks.wait_until_sending(leader, 2)

    tasks.stop(leader)
    found = values(read_topic(tasks.bootstrap_servers, former_topic))
    later = values(read_topic(tasks.bootstrap_servers, tasks.topic))
    committed = read_offsets(tasks.bootstrap_servers, f"{tasks.group.id}-offsets", tasks.name)
    assert len(committed) == 2
    for partition, offset in committed:
        assert offset is not None
        task = int(partition["task.id"].rpartition("-")[2])
        numbers = seqs([*found, *later], tasks.name, task)
        assert_exactly_once(numbers, range(1, offset["saved"] + 1))


def test_a_worker_that_cannot_read_the_config_topic_restarts_no_task(
    pair: tuple[Group, WorkerApi, WorkerApi], tasks: Tasks, fault_proxy: FaultProxy
) -> None:
    group, leader, follower = pair
    path = f"/connectors/{tasks.name}"
    tasks.create(leader, 2)
    tasks.wait_until_sending(leader, 2)
    restart = f"{path}/tasks/{task_of(follower, tasks.name)}/restart"
    theirs = f"{path}/tasks/{task_of(leader, tasks.name)}/restart"

    fault_proxy.to_client = Link.HOLD
    # The group waits for the follower before it assigns the two new tasks.
    group.put_task_configs(leader, tasks.config(4), 4)
    due = leader.request("POST", theirs)
    assert due.status == 409
    assert "ask again soon" in due.body["message"]
    late = follower.request("POST", restart)
    assert late.status == 500
    assert f"{SYNC_TIMEOUT_MS} ms (worker.sync.timeout.ms)" in late.body["message"]
    assert leader.request("DELETE", path).status == 204
    fault_proxy.heal()
    wait_for(lambda: follower.request("POST", restart).status == 404, what="the follower knows that it is gone")


def test_all_writes_of_a_leader_suspended_past_its_session_are_refused(
    tmp_path: Path, bootstrap_servers: str, topic: str
) -> None:
    """A process is suspended amid the transactions of its tasks, replaced, and resumed."""
    group = Group(tmp_path, bootstrap_servers)
    tasks = Tasks(group, unique("connector"), topic)
    long = {"transaction.boundary": "interval", "transaction.boundary.interval.ms": 600_000}
    with group.workers(2) as (zombie, successor):
        tasks.create(successor, 2, **long, **{"producer.override.transaction.timeout.ms": "900000"})
        wait_for(lambda: sorted(running(successor, tasks.name).values()) == [1, 1], what="each has a task")
        # A pause commits the transaction, so all later records are in an open one.
        wait_until_open(successor, tasks.name)
        assert successor.request("PUT", f"/connectors/{tasks.name}/pause").status == 202
        successor.wait_for_states(tasks.name, "PAUSED", "PAUSED", "PAUSED")
        assert successor.request("PUT", f"/connectors/{tasks.name}/resume").status == 202
        wait_until_open(successor, tasks.name)
        committed = tasks.last(2)
        assert min(committed) > 0
        slept = f"{group.id}-{tasks.name}-{task_of(zombie, tasks.name)}"

        zombie.process.signal(signal.SIGSTOP)
        wait_for(
            lambda: running(successor, tasks.name) == {successor.id: 2} and successor.leads(),
            what="the other worker runs everything and leads",
        )
        wait_until_open(successor, tasks.name)
        zombie.process.signal(signal.SIGCONT)

        zombie.process.wait_for_output(f"took over the transactional id {slept}")
        wait_for(lambda: zombie.healthy() and not zombie.leads(), what="it is a follower")
        wait_for(lambda: sorted(running(successor, tasks.name).values()) == [1, 1], what="each has a task again")
        tasks.assert_exactly_once(zombie)
        assert all(last > before for last, before in zip(tasks.last(2), committed, strict=True))


def wait_until_open(worker: WorkerApi, connector: str) -> None:
    """Wait until both tasks of a connector have sent uncommitted records."""

    def is_open() -> bool:
        body = worker.get(f"/connectors/{connector}/transactions") or {"tasks": []}
        return [task["state"] == "IN_TRANSACTION" and task["records"] > 0 for task in body["tasks"]] == [True, True]

    wait_for(is_open, what=f"both tasks of {connector} are in a transaction")
