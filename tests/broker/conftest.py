"""Fixtures for tests of source tasks."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fencepost.embedded.broker import EmbeddedBroker
from fencepost.kafka.consumer import read_to_end
from fencepost.kafka.producer.transaction import TransactionVersion
from fencepost.kafka.transport import cluster, created_topics
from tests.support.task_runner import TaskRunner
from tests.support.topics import unique


@pytest.fixture
def runner(bootstrap_servers: str) -> Iterator[TaskRunner]:
    """A worker with an offsets topic of its own, on `broker`."""
    with TaskRunner(bootstrap_servers) as runner:
        yield runner


@pytest.fixture(params=TransactionVersion, ids=lambda version: version.name)
def version_servers(request: pytest.FixtureRequest) -> str:
    """The bootstrap servers of a broker that uses this transaction version."""
    if request.param is TransactionVersion.V1:
        broker: EmbeddedBroker = request.getfixturevalue("tv1_broker")
        return broker.bootstrap_servers
    return str(request.getfixturevalue("bootstrap_servers"))


@pytest.fixture
def name() -> str:
    """A unique connector name."""
    return unique("connector")


@pytest.fixture
def brief_learning(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait half a second, not five, for topics that brokers do not know: a single broker knows them at once."""
    monkeypatch.setattr(created_topics, "UNKNOWN_MS", 500)
    monkeypatch.setattr(cluster, "UNKNOWN_MS", 500)
    monkeypatch.setattr(read_to_end, "_FOLLOWED_MAX_AGE_MS", 500)
