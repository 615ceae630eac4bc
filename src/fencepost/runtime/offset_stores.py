"""The offsets topics of a worker's connectors: the worker's own, and those that connectors have to themselves."""

from __future__ import annotations

import threading

from fencepost.api.errors import ConfigError
from fencepost.config.client_overrides import ClientKind
from fencepost.config.connector_config import ConnectorConfig
from fencepost.config.worker_config import WorkerConfig
from fencepost.kafka.admin import Admin
from fencepost.kafka.client_config import ClientConfig
from fencepost.runtime.client_properties import (
    BOOTSTRAP_SERVERS,
    admin_config,
    brokers_written_to,
    client_properties,
)
from fencepost.storage.offset_store import OffsetStore


class OffsetStores:
    """Opens each offsets topic once, for all that read it with the same client properties. Safe for several threads."""

    def __init__(self, worker: WorkerConfig) -> None:
        self._worker = worker
        self._lock = threading.Lock()
        self._open: dict[tuple[str, ClientConfig], OffsetStore] = {}
        self._opening: dict[tuple[str, ClientConfig], threading.Lock] = {}

    def topic(self, connector: ConnectorConfig) -> str:
        """Return the name of the topic that holds a connector's offsets."""
        return connector.offsets_storage_topic or self._worker.offset_storage.name

    def open(self, connector: ConnectorConfig | None = None) -> OffsetStore:
        """Return the store of a connector's offsets, or the worker's own; its topic is created if it is missing.

        The topic is on the cluster that the connector's producer writes to. Raises ConfigError if the connector's
        consumer is set to read from another one, and what creating a topic raises.
        """
        topic = self._worker.offset_storage.name if connector is None else self.topic(connector)
        config = self._reading_config(connector)
        with self._lock:
            opening = self._opening.setdefault((topic, config), threading.Lock())
        # Not under the lock of all: another cluster may take its time to answer.
        with opening:
            with self._lock:
                store = self._open.get((topic, config))
            if store is None:
                store = self._create(topic, config, connector)
                with self._lock:
                    self._open[topic, config] = store
            return store

    def close(self) -> None:
        """Let go of all stores; reads that are under way end with an IllegalStateError."""
        with self._lock:
            for store in self._open.values():
                store.close()
            self._open.clear()

    def _reading_config(self, connector: ConnectorConfig | None) -> ClientConfig:
        properties = client_properties(self._worker, connector, ClientKind.CONSUMER)
        if connector is None:
            return ClientConfig.from_properties(properties, where=self._worker.where)
        written_to = brokers_written_to(self._worker, connector)
        chosen = connector.properties.get(f"consumer.override.{BOOTSTRAP_SERVERS}", written_to)
        if chosen != written_to:
            raise ConfigError(
                f"Connector {connector.name} writes to the cluster at {written_to}, and its source offsets with it, "
                f"but consumer.override.{BOOTSTRAP_SERVERS} is {chosen}: give both the same brokers",
                name=f"consumer.override.{BOOTSTRAP_SERVERS}",
            )
        return ClientConfig.from_properties(
            properties | {BOOTSTRAP_SERVERS: written_to}, where=f"connector {connector.name}"
        )

    def _create(self, topic: str, config: ClientConfig, connector: ConnectorConfig | None) -> OffsetStore:
        settings = self._worker.offset_storage
        store = OffsetStore(config, topic)
        try:
            with Admin(admin_config(self._worker, connector)) as admin:
                store.ensure_topic(
                    admin,
                    partitions=settings.partitions,
                    replication_factor=settings.replication_factor,
                    configs=settings.settings,
                )
        except BaseException:
            store.close()
            raise
        return store
