"""What all tests share. A broker is started when the first test asks for it, once for each xdist worker."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from fencepost.embedded.broker import EmbeddedBroker
from tests.support.topics import Topics

_FOLDERS = ("unit", "broker", "cluster", "chaos")

# Expired transactions are looked for every 10 s by default; tests do not wait that long.
FAST_EXPIRY = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "200"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark each test by the folder that it stands in."""
    for item in items:
        for folder in _FOLDERS:
            if folder in item.path.relative_to(Path(__file__).parent).parts[:-1]:
                item.add_marker(folder)


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedBroker]:
    """A broker of one node, transaction version 2, without security. Tests that stop it take one of their own."""
    with EmbeddedBroker(tmp_path_factory.mktemp("broker"), properties=FAST_EXPIRY) as broker:
        yield broker


@pytest.fixture
def bootstrap_servers(broker: EmbeddedBroker) -> str:
    return broker.bootstrap_servers


@pytest.fixture
def topics(broker: EmbeddedBroker) -> Topics:
    """Creates topics on `broker`."""
    return Topics(broker.bootstrap_servers)


@pytest.fixture
def topic(topics: Topics) -> str:
    """A new topic of one partition on `broker`."""
    return topics.create()


@pytest.fixture(scope="session")
def tv1_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedBroker]:
    """A broker with transaction version 1, as Kafka 2.5 to 3.9."""
    arguments = ("--feature", "transaction.version=1")
    with EmbeddedBroker(tmp_path_factory.mktemp("tv1"), properties=FAST_EXPIRY, format_arguments=arguments) as broker:
        yield broker


@pytest.fixture(scope="session")
def three_node_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedBroker]:
    """A cluster of three nodes. A test that stops a node starts it again."""
    broker = EmbeddedBroker(tmp_path_factory.mktemp("three"), nodes=3, properties=FAST_EXPIRY, heap_mb=160)
    try:
        yield broker.start()
    finally:
        broker.kill()
