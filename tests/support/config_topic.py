"""Several workers with stores of one config topic."""

from __future__ import annotations

import queue
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

from fencepost.config.internal_topics import InternalTopic
from fencepost.kafka.clients import KafkaClients
from fencepost.kafka.config.client_config import ClientConfig, ProducerConfig
from fencepost.storage.configs.state import (
    ClusterConfigState,
    ConfigEvent,
)
from fencepost.storage.configs.topic import ConfigBackingStore
from tests.support.checker import Record, read_topic
from tests.support.topics import unique

T = TypeVar("T")


SECONDS = 120


def done(future: Future[T]) -> T:
    return future.result(SECONDS)


class Worker:
    """A worker's store, with the messages to its event loop."""

    def __init__(self, address: str, topic: str, group: str, *, transactional: bool = True) -> None:
        self.config = ClientConfig(bootstrap_servers=(address,))
        self.told: queue.Queue[Callable[[], None]] = queue.Queue()
        self.events: list[tuple[ConfigEvent, ClusterConfigState]] = []
        self.store = ConfigBackingStore(
            InternalTopic(topic, 1, None, {"segment.ms": "123456", "cleanup.policy": "compact"}),
            group,
            clients=KafkaClients(),
            transactional=transactional,
            consumer=self.config,
            producer=ProducerConfig(client=self.config, max_block_ms=20_000),
            listener=lambda event, state: self.events.append((event, state)),
            post=self.told.put,
        )

    def start(self) -> ClusterConfigState:
        return done(self.store.start(self.config))

    def lead(self) -> ConfigBackingStore:
        self.start()
        done(self.store.claim_write_privilege())
        return self.store

    def happened(self) -> list[ConfigEvent]:
        """The messages to the event loop so far."""
        while not self.told.empty():
            self.told.get()()
        return [event for event, _ in self.events]


class Cluster:
    """Workers of one group with their own config topic."""

    def __init__(self, bootstrap_servers: str) -> None:
        self.bootstrap_servers = bootstrap_servers
        self.topic = unique("configs")
        self.group = unique("group")
        self._workers: list[Worker] = []

    def worker(self, *, transactional: bool = True, address: str | None = None) -> Worker:
        worker = Worker(address or self.bootstrap_servers, self.topic, self.group, transactional=transactional)
        self._workers.append(worker)
        return worker

    def records(self) -> list[Record]:
        return read_topic(self.bootstrap_servers, self.topic)

    def rows(self) -> list[tuple[bytes | None, bytes | None]]:
        return [(record.key, record.value) for record in self.records()]

    def close(self) -> None:
        for worker in self._workers:
            worker.store.close()
