"""A group of workers with a config topic."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.config_topic import Cluster


@pytest.fixture
def cluster(bootstrap_servers: str) -> Iterator[Cluster]:
    cluster = Cluster(bootstrap_servers)
    yield cluster
    cluster.close()
