from __future__ import annotations

import pytest

from fencepost import ConfigError
from fencepost.config.client_overrides import DEFAULT_ALLOWLIST, ClientKind, OverridePolicy
from fencepost.config.connector_config import ConnectorConfig
from fencepost.config.ids import ConnectorTaskId
from fencepost.config.worker_config import WorkerConfig, WorkerMode
from fencepost.kafka.config import client_properties as known
from fencepost.kafka.records.compression import Compression
from fencepost.runtime.connector.client_properties import (
    admin_config,
    client_properties,
    offset_producer_config,
    override_errors,
    producer_config,
    reading_config,
)

TASK = ConnectorTaskId("c", 0)
JAAS = "org.apache.kafka.common.security.plain.PlainLoginModule required username='%s' password='x';"
OAUTH = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required clientId='w' clientSecret='x';"
SASL = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}
TOKENS = "sasl.oauthbearer.token.endpoint.url"


def _worker(properties: dict[str, str] | None = None) -> WorkerConfig:
    minimal = {"bootstrap.servers": "b:9092", "key.converter": "String", "value.converter": "String"}
    return WorkerConfig.from_properties(minimal | (properties or {}), where="worker.properties")


def _connector(properties: dict[str, str] | None = None) -> ConnectorConfig:
    return ConnectorConfig.from_properties({"name": "c", "connector.class": "x"} | (properties or {}))


def test_a_connector_of_a_group_names_only_token_endpoints_that_are_allowed():
    stores = {f"{kind}.storage.topic": kind for kind in ("config", "offset", "status")}
    given = {"group.id": "g", **stores, TOKENS: "https://own/t", "key.converter": "S", "value.converter": "S"}
    given |= {"bootstrap.servers": "b:9092", "org.apache.kafka.sasl.oauthbearer.allowed.urls": "https://listed/t"}
    worker = WorkerConfig.from_properties(given, where="w", mode=WorkerMode.DISTRIBUTED)
    for kind in ClientKind:
        for url in ("https://own/t", "https://listed/t"):
            own = {f"{kind}.override.{TOKENS}": url}
            assert client_properties(worker, _connector(own), kind)[TOKENS] == url
        for url in ("https://listed/t/../x", "http://listed/t", "https://other/t"):
            own = {f"{kind}.override.{TOKENS}": url}
            with pytest.raises(ConfigError, match=r"oauthbearer\.allowed\.urls"):
                client_properties(worker, _connector(own), kind)
    assert client_properties(_worker(), _connector(own), kind)[TOKENS] == url


def test_a_connectors_override_wins_over_the_workers_producer_property():
    worker = _worker({"producer.compression.type": "gzip", "producer.max.request.size": "2000000"})
    config = producer_config(worker, _connector({"producer.override.compression.type": "lz4"}), TASK)
    assert (config.compression, config.max_request_size) == (Compression.LZ4, 2_000_000)
    assert config.client.client_id == "connector-producer-c-0"


def test_a_connectors_transactional_id_is_ignored_with_a_warning(caplog: pytest.LogCaptureFixture):
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
    assert producer_config(_worker(), _connector(connector), TASK).transaction_timeout_ms == expected


def test_admin_listeners_do_not_reach_admin_clients():
    worker = _worker({"admin.listeners": "https://:8084", "admin.listeners.https.ssl.key.password": "x"})
    assert "ssl.key.password" not in client_properties(worker, None, ClientKind.ADMIN)
    assert admin_config(worker, None).bootstrap_servers == ("b:9092",)


def test_topics_are_created_where_the_connector_writes():
    connector = _connector({"producer.override.bootstrap.servers": "other:9092"})
    assert admin_config(_worker(), connector).bootstrap_servers == ("other:9092",)
    assert admin_config(_worker(), None).bootstrap_servers == ("b:9092",)
    assert reading_config(_worker(), connector).bootstrap_servers == ("other:9092",)


@pytest.mark.parametrize(
    ("connector", "user"),
    [
        ({}, "worker"),
        ({"offsets.storage.topic": "own"}, "connector"),
        ({"producer.override.bootstrap.servers": "other:9092"}, "connector"),
    ],
)
def test_offsets_outside_of_transactions_are_written_by_the_owner_of_their_topic(connector: dict[str, str], user: str):
    worker = _worker(SASL | {"sasl.jaas.config": JAAS % "worker"})
    own = {"producer.override.sasl.jaas.config": JAAS % "connector"}
    config = offset_producer_config(worker, _connector(own | connector), TASK)
    assert config.client.sasl is not None
    assert config.client.sasl.username == user


def test_a_flush_of_offsets_takes_no_longer_than_its_time_out():
    worker = _worker({"offset.flush.timeout.ms": "700", "producer.max.block.ms": "500"})
    config = offset_producer_config(worker, _connector(), TASK)
    assert (config.delivery_timeout_ms, config.max_block_ms) == (700, 500)


@pytest.mark.parametrize(
    ("worker", "override"),
    [
        (SASL, {"bootstrap.servers": "b:9092,other:9092"}),
        (SASL, {"sasl.mechanism": "SCRAM-SHA-512"}),
        (SASL | {"security.protocol": "SASL_SSL"}, {"security.protocol": "SASL_PLAINTEXT"}),
        (SASL | {"security.protocol": "SASL_SSL"}, {"ssl.endpoint.identification.algorithm": ""}),
        (
            SASL | {"sasl.mechanism": "OAUTHBEARER", "sasl.jaas.config": OAUTH, TOKENS: "https://idp/token"},
            {TOKENS: "https://other/token"},
        ),
    ],
)
@pytest.mark.parametrize("kind", ClientKind)
def test_the_workers_credentials_go_only_where_the_worker_sends_them(
    worker: dict[str, str], override: dict[str, str], kind: ClientKind
):
    base = _worker({"sasl.jaas.config": JAAS % "worker"} | worker)
    moved = {f"{kind}.override.{name}": value for name, value in override.items()}
    found = override_errors(base, _connector(moved))
    assert f"{kind}.override.sasl.jaas.config" in [error.name for error in found]
    assert next(iter(override)) in found[0].errors[0]
    own = {f"{kind}.override.sasl.jaas.config": JAAS % "connector"}
    assert client_properties(base, _connector(moved | own), kind)["sasl.jaas.config"] == JAAS % "connector"


def test_credentials_do_not_follow_any_client_to_another_cluster():
    worker = _worker(SASL | {"sasl.jaas.config": JAAS % "worker"})
    connector = _connector(
        {"producer.override.bootstrap.servers": "other:9092", "producer.override.sasl.jaas.config": JAAS % "connector"}
    )
    missing = [f"{kind}.override.sasl.jaas.config" for kind in (ClientKind.CONSUMER, ClientKind.ADMIN)]
    assert [error.name for error in override_errors(worker, connector)] == missing


def test_the_workers_credentials_are_not_even_named_where_the_client_needs_none():
    worker = _worker(SASL | {"sasl.jaas.config": JAAS % "worker"})
    connector = _connector(
        {
            f"{kind}.override.{name}": value
            for kind in ClientKind
            for name, value in {"bootstrap.servers": "other:9092", "security.protocol": "PLAINTEXT"}.items()
        }
    )
    assert override_errors(worker, connector) == []
    assert all("sasl.jaas.config" not in client_properties(worker, connector, kind) for kind in ClientKind)


def test_the_workers_credentials_stay_with_some_of_its_own_brokers():
    worker = _worker(SASL | {"sasl.jaas.config": JAAS % "worker", "bootstrap.servers": "b:9092, c:9092"})
    connector = _connector({"producer.override.bootstrap.servers": "c:9092"})
    assert override_errors(worker, connector) == []
    assert producer_config(worker, connector, TASK).client.sasl is not None


def test_by_default_a_connector_may_override_nothing_that_says_where_credentials_go():
    """The list has only Kafka client properties, and none for a server, trust or a file."""
    allowed = set(DEFAULT_ALLOWLIST)
    assert allowed <= known.ALL
    forbidden = ("bootstrap", "endpoint", "truststore", "location", "url", "handler", "class", "reporters", "lookup")
    assert [name for name in allowed if any(word in name for word in forbidden)] == []
    assert _worker().override_policy == OverridePolicy("Allowlist", frozenset(DEFAULT_ALLOWLIST))
