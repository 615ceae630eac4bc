"""Offsets topics of several connectors, opened side by side."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from fencepost.config.connector_config import ConnectorConfig
from fencepost.config.worker_config import WorkerConfig
from fencepost.kafka.clients import KafkaClients
from fencepost.runtime.offset_stores import OffsetStores
from tests.support.fault_proxy import Act, ApiKey, FaultProxy
from tests.support.processes import wait_for
from tests.support.sequence_source import properties
from tests.support.topics import unique


def _stores(bootstrap_servers: str) -> OffsetStores:
    worker = {"bootstrap.servers": bootstrap_servers, "group.id": unique("group")}
    worker |= dict.fromkeys(["key.converter", "value.converter"], "org.apache.kafka.connect.storage.StringConverter")
    worker |= {"offset.storage.topic": unique("offsets"), "offset.storage.partitions": "1"}
    return OffsetStores(WorkerConfig.from_properties(worker, where="test worker"), KafkaClients())


def _elsewhere(address: str) -> ConnectorConfig:
    overrides = {"producer.override.bootstrap.servers": address, "offsets.storage.topic": unique("own")}
    return ConnectorConfig.from_properties(properties(unique("elsewhere"), unique("topic"), overrides))


def test_a_slow_cluster_does_not_block_connectors_of_other_clusters(
    bootstrap_servers: str, fault_proxy: FaultProxy
) -> None:
    stores = _stores(bootstrap_servers)
    slow = _elsewhere(fault_proxy.address)
    quick = ConnectorConfig.from_properties(properties(unique("quick"), unique("topic")))
    trap = fault_proxy.on_request(ApiKey.METADATA, Act.HOLD)
    with ThreadPoolExecutor(2) as threads:
        opening, opening_too = threads.submit(stores.open, slow), threads.submit(stores.open, slow)
        trap.wait()
        assert stores.open(quick).topic == stores.topic(quick)
        assert not opening.done()
        trap.release()
        assert opening.result().topic == opening_too.result().topic == stores.topic(slow)
    stores.close()


def test_an_offsets_topic_is_closed_with_the_last_of_its_readers(
    bootstrap_servers: str, fault_proxy: FaultProxy
) -> None:
    """A connector whose client properties change again and again leaves no open readers behind."""
    stores = _stores(bootstrap_servers)
    connector = _elsewhere(fault_proxy.address)
    first, second = stores.open(connector), stores.open(connector)
    second.refresh()
    del first
    assert second.offsets() == []
    wait_for(lambda: fault_proxy.connections == 1, what="the connection with which the topic was made is closed")
    del second
    wait_for(lambda: fault_proxy.connections == 0, what="the connection is closed")
    stores.close()
