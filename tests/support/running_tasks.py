"""A connector whose tasks always send records, and the check that none was lost or doubled."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from tests.support.checker import read_offsets, read_topic, values
from tests.support.processes import wait_for
from tests.support.sequence_source import properties, seqs
from tests.support.topics import Topics, unique
from tests.support.workers import Group, Worker, WorkerApi

# Often enough to be in a transaction at any fault, and rarely enough to leave CPU to the workers.
_POLL_MS = 40


def running(worker: Worker, connector: str) -> Counter[str]:
    """The number of a connector's RUNNING tasks by worker id, according to one worker's status."""
    status = worker.get(f"/connectors/{connector}/status") or {"tasks": []}
    return Counter(task["worker_id"] for task in status["tasks"] if task["state"] == "RUNNING")


def create_sequence(worker: WorkerApi, name: str, topic: str, tasks: int = 1, **extra: Any) -> dict[str, str]:
    """Create a connector whose tasks send 50 numbers each, wait until they run, and return its configuration."""
    config = properties(name, topic, {"tasks.max": tasks, "limit": 50, **extra})
    answer = worker.request("POST", "/connectors", {"name": name, "config": config})
    assert answer.status == 201, answer
    worker.wait_for_states(name, *["RUNNING"] * (tasks + 1))
    return config


class RunningTasks:
    """A connector of the group whose tasks send records to their own topic, without end."""

    def __init__(self, group: Group, bootstrap_servers: str, count: int) -> None:
        self.name = unique("running")
        self.count = count
        self._topic = Topics(bootstrap_servers).create()
        self._offsets_topic = f"{group.id}-offsets"
        self._bootstrap_servers = bootstrap_servers

    @property
    def topic(self) -> str:
        return self._topic

    def create(self, worker: Worker, *, support: str = "required") -> None:
        """Create the connector through any worker, with this `exactly.once.support`."""
        answer = worker.request("POST", "/connectors", {"name": self.name, "config": self._config(support)})
        assert answer.status == 201, answer

    def change(self, worker: Worker, *, support: str) -> None:
        """Give the connector another `exactly.once.support`, through any worker."""
        answer = worker.request("PUT", f"/connectors/{self.name}/config", self._config(support))
        assert answer.status == 200, answer

    def _config(self, support: str) -> dict[str, str]:
        extra = {"tasks.max": self.count, "messages.per.poll": 5, "poll.ms": _POLL_MS, "exactly.once.support": support}
        return properties(self.name, self._topic, extra)

    def wait_until_shared(self, *workers: Worker) -> None:
        """Wait until these workers, and no others, run the tasks in equal shares, and each task sends."""
        shares = {worker.id: self.count // len(workers) for worker in workers}
        wait_for(lambda: running(workers[0], self.name) == shares, what=f"{self.name} runs as {shares}")
        self._wait_until_all_send()

    def wait_until_elsewhere(self, *workers: Worker) -> None:
        """Wait until these workers run all tasks, in any shares, and each task sends."""
        ids = {worker.id for worker in workers}
        wait_for(
            lambda: (shares := running(workers[0], self.name)).total() == self.count and shares.keys() <= ids,
            what=f"{self.name} runs on {ids} alone",
        )
        self._wait_until_all_send()

    def _wait_until_all_send(self) -> None:
        """Wait for a record of each task: a task is RUNNING a moment before its first transaction is committed."""
        before = self._last()
        wait_for(lambda: all(last > before[task] for task, last in self._last().items()), what="all tasks send")

    def owners(self, worker: Worker) -> dict[int, str]:
        """The worker id of each task, according to one worker's status."""
        return {task["id"]: task["worker_id"] for task in worker.get(f"/connectors/{self.name}/status")["tasks"]}

    def assert_exactly_once(self, worker: Worker) -> None:
        """Stop the connector, and fail unless each task has sent each number up to its offset, in order and once."""
        self._stop(worker)
        self._wait_until_all_are(lambda sent, last: sent == list(range(1, last + 1)), "in order and once")

    def assert_nothing_lost(self, worker: Worker) -> None:
        """Stop the connector, and fail unless each task has sent each number up to its offset, once or more."""
        self._stop(worker)
        self._wait_until_all_are(lambda sent, last: set(sent) == set(range(1, last + 1)), "there")

    def sent(self) -> int:
        """The number of records that the tasks have sent."""
        return len(self._found())

    def assert_exactly_once_between(self, begin: int, end: int) -> None:
        """Fail unless the records from number `begin` up to `end` have consecutive numbers of each task."""
        found = self._found()[begin:end]
        for task in range(self.count):
            numbers = seqs(found, self.name, task)
            assert numbers, f"task {task} sent nothing"
            assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))

    def _stop(self, worker: Worker) -> None:
        assert worker.request("PUT", f"/connectors/{self.name}/stop").status == 204
        worker.wait_for_states(self.name, "STOPPED")

    def _wait_until_all_are(self, sound: Callable[[list[int], int], bool], what: str) -> None:
        """Retry the check, as tasks may commit for a moment after the connector is STOPPED; a real error persists."""

        def all_are() -> bool:
            committed, found = self._committed(), self._found()
            return all(sound(seqs(found, self.name, task), last) for task, last in committed.items())

        wait_for(all_are, what=f"all that each task of {self.name} committed is {what}")

    def _committed(self) -> dict[int, int]:
        offsets = read_offsets(self._bootstrap_servers, self._offsets_topic, self.name)
        committed = {partition["task.id"]: offset["saved"] for partition, offset in offsets if offset}
        return {task: committed[f"{self.name}-{task}"] for task in range(self.count)}

    def _found(self) -> list[bytes | None]:
        return values(read_topic(self._bootstrap_servers, self._topic))

    def _last(self) -> dict[int, int]:
        found = self._found()
        return {task: max(seqs(found, self.name, task), default=0) for task in range(self.count)}
