"""A worker that gets no REST requests while its tasks send records: its memory must not grow, and no record be lost."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path

from tests.chaos.growth import Sample
from tests.hostile.workers import CONNECTORS, good
from tests.support.checker import assert_exactly_once, read_offsets, read_topic
from tests.support.topics import Topics
from tests.support.workers import Group, Worker

TOPIC = "bystander"
"""The topic, and the connector that writes it."""

_PARTITIONS = 3


class Bystander:
    """The worker, and samples of its memory taken from outside."""

    def __init__(self, group: Group, worker: Worker, tasks: int) -> None:
        self.worker = worker
        self._group = group
        self._tasks = tasks
        self.samples: list[Sample] = [Sample.of(worker.process.pid)]

    def sample(self) -> None:
        """Sample the worker's memory. Fails if the worker has ended."""
        assert self.worker.process.running, self.worker.process.output[-4000:]
        self.samples.append(Sample.of(self.worker.process.pid))

    def stopped(self) -> int:
        """Stop the connector and return the number of its records. Fails if a record is missing or duplicated."""
        assert self.worker.request("PUT", f"/connectors/{TOPIC}/stop").status == 204
        self.worker.wait_for_states(TOPIC, "STOPPED")
        servers = self._group.settings["bootstrap.servers"]
        offsets = read_offsets(servers, self._group.settings["offset.storage.topic"], TOPIC)
        assert len(offsets) == self._tasks, f"{len(offsets)} of {self._tasks} tasks have committed"
        ends = [(partition["task"], offset["seq"]) for partition, offset in offsets if offset]
        expected = [(task, seq) for task, end in ends for seq in range(1, end + 1)]
        values = [json.loads(record.value or b"") for record in read_topic(servers, TOPIC)]
        assert_exactly_once([(value["task"], value["seq"]) for value in values], expected)
        return len(expected)


@contextlib.contextmanager
def running_bystander(folder: Path, bootstrap_servers: str, tasks: int, poll_ms: int) -> Iterator[Bystander]:
    """Start a worker in its own group, each of whose tasks sends some records every `poll_ms`."""
    Topics(bootstrap_servers).create(TOPIC, partitions=_PARTITIONS)
    group = Group(
        folder,
        bootstrap_servers,
        plugin_path=str(CONNECTORS),
        session_timeout_ms="30000",
        heartbeat_interval_ms="3000",
    )
    with group.worker(forked=False) as worker:
        config = good(TOPIC, tasks=str(tasks), poll_ms=str(poll_ms))
        assert worker.request("PUT", f"/connectors/{TOPIC}/config", config).status == 201
        worker.wait_for_states(TOPIC, *["RUNNING"] * (tasks + 1))
        yield Bystander(group, worker, tasks)
