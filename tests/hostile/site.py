"""A worker with good connectors, which must stay correct whatever is done to the worker."""

from __future__ import annotations

import contextlib
import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.hostile.brokers import Kafka
from tests.hostile.programs import unique
from tests.hostile.workers import Worker, good, running_worker, verify

# Texts that no log may have, whatever connectors do: they are of errors that no code handled.
_FORGOTTEN = ("was never retrieved", "was never awaited", "Exception in callback", "Unhandled exception in event loop")


@dataclass
class Site:
    """A broker, a worker, and its good connectors; each is named like its topic."""

    folder: Path
    kafka: Kafka
    worker: Worker
    goods: dict[str, dict[str, str]] = field(default_factory=dict)

    @property
    def offsets_topic(self) -> str:
        return self.worker.properties["offset.storage.topic"]

    @property
    def topics(self) -> dict[str, str]:
        """The worker's own topics: `offsets`, `configs` and `status`."""
        storage = {"offsets": "offset", "configs": "config", "status": "status"}
        return {what: self.worker.properties[f"{name}.storage.topic"] for what, name in storage.items()}

    def add_good(self, **config: str) -> str:
        """Start a good connector, and wait until it commits."""
        name = unique("good")
        self.kafka.create(name, 3)
        self.goods[name] = good(name, **config)
        answer = self.worker.create(name, self.goods[name])
        assert answer.status == 201, answer
        self.worker.wait_for_states(name, "RUNNING", *["RUNNING"] * int(self.goods[name]["tasks.max"]))
        self.worker.wait_for_progress(name)
        return name

    def check(self) -> None:
        """Check that the worker is in its group, no error was lost, and the good connectors go on correctly."""
        assert self.worker.process.running, self.worker.process.output[-6000:]
        assert self.worker.healthy
        self.worker.wait_for_progress(*self.goods)
        for name, config in self.goods.items():
            states = self.worker.states(name)
            assert states == ["RUNNING"] * (1 + int(config["tasks.max"])), self.worker.status(name)
            unsound = faults(self.kafka, name, self.committed(name))
            assert not unsound, f"{name}: {unsound}"
        forgotten = [
            line for line in self.worker.process.output.splitlines() if any(text in line for text in _FORGOTTEN)
        ]
        assert not forgotten, forgotten

    def committed(self, name: str) -> dict[str, int]:
        """The number of the last committed record of each task, for connectors that number like `good`."""
        found = ((at["partition"], at["offset"]) for at in self.worker.offsets(name))
        return {str(where["task"]): at["seq"] for where, at in found if "task" in where and type(at.get("seq")) is int}

    def verify(self) -> None:
        """Stop the good connectors, check them with `fencepost verify`, and resume them."""
        for name in self.goods:
            assert self.worker.carried_out("PUT", f"/connectors/{name}/stop").status == 204
        for name, config in self.goods.items():
            self.worker.wait_for_states(name, "STOPPED")
            own = config.get("offsets.storage.topic", self.offsets_topic)
            unsound = verify(self.kafka, name, name, own)
            assert not unsound, f"{name}: {unsound}"
        for name, config in self.goods.items():
            assert self.worker.carried_out("PUT", f"/connectors/{name}/resume").status == 202
            self.worker.wait_for_states(name, *["RUNNING"] * (1 + int(config["tasks.max"])))


def faults(kafka: Kafka, topic: str, committed: Mapping[str, int]) -> str:
    """The errors in the numbers of a topic that is being written to; empty if there are none.

    All numbers that were committed before the check must be there, and no number twice.
    """
    seen: dict[str, list[int]] = defaultdict(list)
    for message in kafka.read(topic):
        value = json.loads(message.value())
        seen[value["task"]].append(value["seq"])
    for task, last in committed.items():
        numbers = seen[task]
        lost = set(range(1, last + 1)) - set(numbers)
        doubled = len(numbers) - len(set(numbers))
        if lost or doubled:
            return f"task {task} of {topic}: {len(lost)} lost ({sorted(lost)[:5]}), {doubled} doubled"
    return ""


@contextlib.contextmanager
def running_site(kafka: Kafka, folder: Path, *, spark: bool = False, **settings: str) -> Iterator[Site]:
    """Run a worker with two good connectors: one has a transaction for each poll, the other one for each interval.

    At the end both are verified, and the worker must stop gracefully.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with running_worker(folder, kafka, spark=spark, **settings) as worker:
        site = Site(folder, kafka, worker)
        site.add_good()
        site.add_good(tasks="1", transaction_boundary="interval", transaction_boundary_interval_ms="300")
        yield site
        # If the worker has ended, the test that ended it has failed already.
        if not worker.process.running:
            return
        site.verify()
        code = worker.process.stop()
        assert code == 0, f"ended with {code}:\n{worker.process.output[-4000:]}"
