"""A connector whose tasks work all the time, and the proof in the end that nothing of theirs was lost or doubled."""

from __future__ import annotations

from collections import Counter

from tests.support.checker import read_offsets, read_topic, values
from tests.support.processes import wait_for
from tests.support.sequence_source import properties, seqs
from tests.support.topics import Topics, unique
from tests.support.workers import Group, Worker

# Often enough to be in a transaction whenever something happens, and rarely enough to leave the machine to the workers.
_POLL_MS = 40


def running(worker: Worker, connector: str) -> Counter[str]:
    """How many RUNNING tasks of a connector each worker has, by worker id, as one of them sees it."""
    status = worker.get(f"/connectors/{connector}/status") or {"tasks": []}
    return Counter(task["worker_id"] for task in status["tasks"] if task["state"] == "RUNNING")


class RunningTasks:
    """A connector of the group whose tasks send to a topic of their own, without end."""

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
        """Create the connector, through any worker, with this `exactly.once.support`."""
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
        before = self._last()
        wait_for(lambda: all(last > before[task] for task, last in self._last().items()), what="all tasks send")

    def owners(self, worker: Worker) -> dict[int, str]:
        """The ids of the workers that have each task, as one of them sees it."""
        return {task["id"]: task["worker_id"] for task in worker.get(f"/connectors/{self.name}/status")["tasks"]}

    def assert_exactly_once(self, worker: Worker) -> None:
        """Stop the connector, and fail unless each task sent all up to its committed offset, in order and once."""
        assert worker.request("PUT", f"/connectors/{self.name}/stop").status == 204
        worker.wait_for_states(self.name, "STOPPED")
        found = values(read_topic(self._bootstrap_servers, self._topic))
        offsets = read_offsets(self._bootstrap_servers, self._offsets_topic, self.name)
        committed = {partition["task.id"]: offset["saved"] for partition, offset in offsets if offset}
        for task in range(self.count):
            last = committed[f"{self.name}-{task}"]
            assert seqs(found, self.name, task) == list(range(1, last + 1))

    def _last(self) -> dict[int, int]:
        found = values(read_topic(self._bootstrap_servers, self._topic))
        return {task: max(seqs(found, self.name, task), default=0) for task in range(self.count)}
