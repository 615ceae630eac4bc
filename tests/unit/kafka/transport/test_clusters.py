"""The cluster metadata that a process caches."""

from __future__ import annotations

import gc

from fencepost.kafka.config.client_config import ClientConfig
from fencepost.kafka.transport import cluster
from fencepost.kafka.transport.cluster import Cluster


def config(number: int) -> ClientConfig:
    return ClientConfig((f"127.0.0.1:{number}",))


def test_a_view_that_is_in_use_is_shared():
    first = Cluster.of(config(1))
    for number in range(2, 500):
        Cluster.of(config(number))
    gc.collect()
    assert Cluster.of(config(1)) is first


def test_unused_views_are_forgotten_except_the_latest():
    gc.collect()
    # Other tests may have cached metadata of their own.
    before = len(cluster._CLUSTERS)
    for number in range(500):
        Cluster.of(config(number))
    latest = Cluster.of(config(499))
    gc.collect()
    assert Cluster.of(config(499)) is latest
    assert len(cluster._CLUSTERS) <= before + 20
