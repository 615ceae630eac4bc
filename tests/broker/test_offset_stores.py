"""Offsets topics of several connectors, opened side by side."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from fencepost.config.connector_config import ConnectorConfig
from fencepost.config.worker_config import WorkerConfig
from fencepost.runtime.offset_stores import OffsetStores
from tests.support.fault_proxy import Act, ApiKey, FaultProxy
from tests.support.sequence_source import properties
from tests.support.topics import unique


def test_a_cluster_that_is_slow_does_not_hold_up_connectors_of_others(
    bootstrap_servers: str, fault_proxy: FaultProxy
) -> None:
    """D2."""
    worker = {"bootstrap.servers": bootstrap_servers, "group.id": unique("group")}
    worker |= dict.fromkeys(["key.converter", "value.converter"], "org.apache.kafka.connect.storage.StringConverter")
    worker |= {"offset.storage.topic": unique("offsets"), "offset.storage.partitions": "1"}
    stores = OffsetStores(WorkerConfig.from_properties(worker, where="test worker"))
    elsewhere = {"producer.override.bootstrap.servers": fault_proxy.address, "offsets.storage.topic": unique("own")}
    slow = ConnectorConfig.from_properties(properties(unique("slow"), unique("topic"), elsewhere))
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
