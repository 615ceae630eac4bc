from __future__ import annotations

import pytest

from fencepost.config.client_overrides import ClientKind
from fencepost.config.connector_config import ConnectorConfig
from fencepost.config.ids import ConnectorTaskId
from fencepost.config.worker_config import WorkerConfig
from fencepost.kafka.compression import Compression
from fencepost.runtime.client_properties import (
    admin_config,
    client_properties,
    offset_producer_config,
    producer_config,
)

TASK = ConnectorTaskId("c", 0)


def _worker(properties: dict[str, str] | None = None) -> WorkerConfig:
    minimal = {"bootstrap.servers": "b:9092", "key.converter": "String", "value.converter": "String"}
    return WorkerConfig.from_properties(minimal | (properties or {}), where="worker.properties")


def _connector(properties: dict[str, str] | None = None) -> ConnectorConfig:
    return ConnectorConfig.from_properties({"name": "c", "connector.class": "x"} | (properties or {}))


def test_a_connectors_override_wins_over_the_workers_producer_property():
    worker = _worker({"producer.compression.type": "gzip", "producer.max.request.size": "2000000"})
    config = producer_config(worker, _connector({"producer.override.compression.type": "lz4"}), TASK)
    assert (config.compression, config.max_request_size) == (Compression.LZ4, 2_000_000)
    assert config.client.client_id == "connector-producer-c-0"


def test_k8_a_connectors_transactional_id_is_ignored_with_a_warning(caplog: pytest.LogCaptureFixture):
    """K8."""
    producer_config(_worker(), _connector({"producer.override.transactional.id": "x"}), TASK)
    assert "producer.override.transactional.id, set in connector c, is ignored" in caplog.text


@pytest.mark.parametrize(
    ("connector", "expected"),
    [
        ({}, 60_000),
        ({"transaction.boundary": "interval"}, 120_000),
        ({"transaction.boundary": "interval", "transaction.boundary.interval.ms": "1000"}, 60_000),
        ({"transaction.boundary": "interval", "transaction.boundary.interval.ms": "3600000"}, 900_000),
        ({"transaction.boundary": "interval", "producer.override.transaction.timeout.ms": "5000"}, 5_000),
    ],
)
def test_a_transaction_may_take_longer_than_the_interval_that_it_collects_for(connector: dict[str, str], expected: int):
    """D4."""
    assert producer_config(_worker(), _connector(connector), TASK).transaction_timeout_ms == expected


def test_where_admin_is_listened_for_is_no_concern_of_admin_clients():
    worker = _worker({"admin.listeners": "https://:8084", "admin.listeners.https.ssl.key.password": "x"})
    assert "ssl.key.password" not in client_properties(worker, None, ClientKind.ADMIN)
    assert admin_config(worker, None).bootstrap_servers == ("b:9092",)


def test_topics_are_created_where_the_connector_writes():
    connector = _connector({"producer.override.bootstrap.servers": "other:9092"})
    assert admin_config(_worker(), connector).bootstrap_servers == ("other:9092",)
    assert admin_config(_worker(), None).bootstrap_servers == ("b:9092",)
    assert client_properties(_worker(), connector, ClientKind.CONSUMER)["bootstrap.servers"] == "b:9092"


@pytest.mark.parametrize(
    ("connector", "user"),
    [
        ({}, "worker"),
        ({"offsets.storage.topic": "own"}, "connector"),
        ({"producer.override.bootstrap.servers": "other:9092"}, "connector"),
    ],
)
def test_offsets_outside_of_transactions_are_written_by_whoever_their_topic_belongs_to(
    connector: dict[str, str], user: str
):
    jaas = "org.apache.kafka.common.security.plain.PlainLoginModule required username='%s' password='x';"
    sasl = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}
    worker = _worker(sasl | {"sasl.jaas.config": jaas % "worker"})
    own = {"producer.override.sasl.jaas.config": jaas % "connector"}
    config = offset_producer_config(worker, _connector(own | connector), TASK)
    assert config.client.sasl is not None
    assert config.client.sasl.username == user


def test_a_flush_of_offsets_takes_no_longer_than_its_time_out():
    worker = _worker({"offset.flush.timeout.ms": "700", "producer.max.block.ms": "500"})
    config = offset_producer_config(worker, _connector(), TASK)
    assert (config.delivery_timeout_ms, config.max_block_ms) == (700, 500)
