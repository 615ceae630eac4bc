"""The configuration of a connector's Kafka clients: the worker's properties, overridden by the connector's own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Final

from fencepost.api.config_def import ConfigValue
from fencepost.api.errors import ConfigError
from fencepost.config.client_overrides import BOOTSTRAP_SERVERS, ClientKind, combined, overrides
from fencepost.config.connector_config import ConnectorConfig, TransactionBoundary
from fencepost.config.ids import ConnectorTaskId
from fencepost.config.log_context import log_context
from fencepost.config.worker_config import ALLOWED_URLS, WorkerConfig
from fencepost.kafka.config.client_config import ClientConfig, ProducerConfig
from fencepost.kafka.config.oauth import ENDPOINT

_PRODUCERS_BROKERS: Final = f"producer.override.{BOOTSTRAP_SERVERS}"
_TRANSACTION_TIMEOUT: Final = "transaction.timeout.ms"
_USUAL_TRANSACTION_TIMEOUT_MS: Final = 60_000
_LONGEST_TRANSACTION_TIMEOUT_MS: Final = 900_000
"""The brokers' default of `transaction.max.timeout.ms`."""


def client_properties(worker: WorkerConfig, connector: ConnectorConfig | None, kind: ClientKind) -> dict[str, str]:
    """Return the properties of a kind of client, for a connector, or for the worker itself if `connector` is None.

    All clients of a connector use the cluster that its producers write to, unless the connector overrides that. Raises
    ConfigError if clients would need the worker's credentials for other brokers.
    """
    properties = worker.client_properties(kind)
    if connector is None:
        return properties
    own = overrides(connector.properties, f"{kind}.override.", kind, where=f"connector {connector.name}")
    _check_token_endpoint(worker, own.get(ENDPOINT), usual=properties.get(ENDPOINT))
    if kind is not ClientKind.PRODUCER:
        properties[BOOTSTRAP_SERVERS] = _workers_brokers(worker)
        if _PRODUCERS_BROKERS in connector.properties:
            own.setdefault(BOOTSTRAP_SERVERS, connector.properties[_PRODUCERS_BROKERS])
    return combined(properties, own, kind, connector=connector.name)


def _check_token_endpoint(worker: WorkerConfig, endpoint: str | None, *, usual: str | None) -> None:
    allowed = worker.allowed_token_urls
    if allowed is not None and endpoint is not None and endpoint not in (*allowed, usual):
        raise ConfigError(
            f"The token endpoint {endpoint} is not used: the worker's property {ALLOWED_URLS} does not list it. Use "
            "one that it lists, or ask the worker's owner to add it",
            name=ENDPOINT,
        )


def admin_config(worker: WorkerConfig, connector: ConnectorConfig | None) -> ClientConfig:
    """Return the admin client's configuration for a connector's cluster, or the worker's. Raises ConfigError."""
    properties = client_properties(worker, connector, ClientKind.ADMIN)
    return ClientConfig.from_properties(properties, where=_where(worker, connector))


def brokers_written_to(worker: WorkerConfig, connector: ConnectorConfig) -> str:
    """Return the `bootstrap.servers` of a connector's producers, which is also the cluster of its source offsets."""
    return connector.properties.get(_PRODUCERS_BROKERS, _workers_brokers(worker))


def _workers_brokers(worker: WorkerConfig) -> str:
    return worker.properties.get(f"producer.{BOOTSTRAP_SERVERS}", worker.bootstrap_servers)


def reading_config(worker: WorkerConfig, connector: ConnectorConfig) -> ClientConfig:
    """Return the configuration of the client that reads a connector's source offsets. Raises ConfigError."""
    properties = client_properties(worker, connector, ClientKind.CONSUMER)
    return ClientConfig.from_properties(properties, where=f"connector {connector.name}")


def override_errors(worker: WorkerConfig, connector: ConnectorConfig) -> list[ConfigValue]:
    """Check the overridden properties of each kind of client. Return the first error of each kind, on its property."""
    clients: dict[ClientKind, Callable[[WorkerConfig, ConnectorConfig], object]] = {
        ClientKind.PRODUCER: partial(producer_config, task=ConnectorTaskId(connector.name, 0)),
        ClientKind.CONSUMER: reading_config,
        ClientKind.ADMIN: admin_config,
    }
    found = []
    for kind, make in clients.items():
        prefix = f"{kind}.override."
        given = [name for name in connector.properties if name.startswith(prefix)]
        if not given and _PRODUCERS_BROKERS not in connector.properties:
            continue
        try:
            with log_context(connector.name):
                make(worker, connector)
        except ConfigError as error:
            blamed = prefix + error.name if error.name else next(iter(given), _PRODUCERS_BROKERS)
            found.append(ConfigValue(blamed, connector.properties.get(blamed), errors=[str(error)]))
    return found


def producer_config(worker: WorkerConfig, connector: ConnectorConfig, task: ConnectorTaskId) -> ProducerConfig:
    """Return the configuration of a task's producer. Raises ConfigError.

    If `transaction.timeout.ms` is not set, it is chosen so that it exceeds the configured interval: with Kafka's
    default of one minute, transactions of the default interval of one minute would expire. If a transaction may last
    for a snapshot, or for a transaction of the source, the longest time-out is chosen.
    """
    properties = {"client.id": f"connector-producer-{task}"} | client_properties(worker, connector, ClientKind.PRODUCER)
    if connector.transaction_boundary in (TransactionBoundary.SNAPSHOT, TransactionBoundary.SOURCE):
        properties.setdefault(_TRANSACTION_TIMEOUT, str(_LONGEST_TRANSACTION_TIMEOUT_MS))
    if connector.transaction_boundary is TransactionBoundary.INTERVAL and _TRANSACTION_TIMEOUT not in properties:
        wanted = 2 * boundary_interval_ms(worker, connector)
        timeout = min(max(wanted, _USUAL_TRANSACTION_TIMEOUT_MS), _LONGEST_TRANSACTION_TIMEOUT_MS)
        properties[_TRANSACTION_TIMEOUT] = str(timeout)
    return ProducerConfig.from_properties(properties, where=_where(worker, connector))


def offset_producer_config(worker: WorkerConfig, connector: ConnectorConfig, task: ConnectorTaskId) -> ProducerConfig:
    """Return the configuration of the producer that writes a task's source offsets outside of transactions.

    Raises ConfigError.

    Offsets in the worker's own topic are written with the worker's principal. A flush is given up after
    `offset.flush.timeout.ms`.
    """
    by_worker = connector.offsets_storage_topic in (None, worker.offset_storage.name) and (
        brokers_written_to(worker, connector) == worker.bootstrap_servers
    )
    owner = None if by_worker else connector
    properties = {"client.id": f"connector-offsets-{task}"} | client_properties(worker, owner, ClientKind.PRODUCER)
    properties[BOOTSTRAP_SERVERS] = brokers_written_to(worker, connector)
    config = ProducerConfig.from_properties(properties, where=_where(worker, owner))
    timeout_ms = worker.offset_flush_timeout_ms
    return replace(
        config,
        delivery_timeout_ms=min(config.delivery_timeout_ms, timeout_ms),
        max_block_ms=min(config.max_block_ms, timeout_ms),
    )


def boundary_interval_ms(worker: WorkerConfig, connector: ConnectorConfig) -> int:
    """Return how long a transaction of the boundary `interval` collects records."""
    own = connector.transaction_boundary_interval_ms
    return worker.offset_flush_interval_ms if own is None else own


def _where(worker: WorkerConfig, connector: ConnectorConfig | None) -> str:
    return worker.where if connector is None else f"{worker.where} or connector {connector.name}"
