"""The offsets topics of a worker's connectors: the worker's own topic, and separate topics of connectors.

A connector has a separate topic in two cases: its property `offsets.storage.topic` names another topic, or its producer
writes to another Kafka cluster. In the second case the topic is on that cluster, by default with the name of the
worker's topic.

Clusters are distinguished by their ids, because different lists of brokers may lead to the same cluster. If the
worker's own topic were mistaken for a separate one, its offsets would be copied into the topic itself, and a late copy
would replace a newer commit.
"""

from __future__ import annotations

import threading
from dataclasses import replace
from functools import cached_property, partial
from weakref import WeakValueDictionary

from fencepost.api.errors import ConfigError
from fencepost.config.client_overrides import BOOTSTRAP_SERVERS, ClientKind
from fencepost.config.connector_config import ConnectorConfig
from fencepost.config.worker_config import WorkerConfig
from fencepost.kafka.clients import KafkaClients
from fencepost.kafka.config.client_config import ClientConfig, ProducerConfig
from fencepost.runtime.connector.client_properties import (
    admin_config,
    brokers_written_to,
    client_properties,
    reading_config,
)
from fencepost.storage.offsets.codec import Origin
from fencepost.storage.offsets.connector_store import ConnectorOffsetStore, SharedOffsets
from fencepost.storage.offsets.copies import OffsetCopies
from fencepost.storage.offsets.topic import OffsetStore


class OffsetStores:
    """Opens each offsets topic once for all readers with the same client properties. Thread-safe.

    The store of the worker's own topic is open until `close`. Any other store is open as long as a task or a request
    references the result of `open`. So the old stores of a connector whose client properties change again and again do
    not stay open.
    """

    def __init__(self, worker: WorkerConfig, clients: KafkaClients) -> None:
        self._worker = worker
        self._clients = clients
        self._lock = threading.Lock()
        self._global: OffsetStore | None = None
        self._open: WeakValueDictionary[tuple[str, ClientConfig], OffsetStore] = WeakValueDictionary()
        self._opening: WeakValueDictionary[tuple[str, ClientConfig], threading.Lock] = WeakValueDictionary()
        self._cluster_ids: dict[tuple[str, ...], str] = {}
        self._copies: OffsetCopies | None = None

    def topic(self, connector: ConnectorConfig) -> str:
        """Return the name of the topic to which a connector's tasks commit their offsets."""
        return connector.offsets_storage_topic or self._worker.offset_storage.name

    def open_global(self) -> OffsetStore:
        """Return the store of the worker's offsets topic, which is created if it is missing.

        Raises the errors of creating a topic.
        """
        store = self._opened(self._worker.offset_storage.name, self._global_config, None)
        with self._lock:
            self._global = store
        return store

    def open(self, connector: ConnectorConfig) -> ConnectorOffsetStore:
        """Return the store of a connector's offsets; its topic is created if it is missing.

        The topic is on the cluster that the connector's producer writes to. Raises ConfigError if the connector's
        consumer or admin client is configured for another cluster, and the errors of creating a topic.
        """
        config = reading_config(self._worker, connector)
        self._check_clusters(connector, config)
        own = self._opened(self.topic(connector), config, connector)
        here = self._same_cluster(config, self._global_config)
        open_former = partial(self._open_former, connector, config)
        if own.topic == self._worker.offset_storage.name and here:
            return ConnectorOffsetStore(connector.name, own, open_former=open_former)
        origin = Origin(own.topic, None if here else self._cluster_id(config))
        return ConnectorOffsetStore(connector.name, own, self._shared(), origin=origin, open_former=open_former)

    def is_beside(self, connector: ConnectorConfig) -> bool:
        """Return whether a connector writes to the worker's own cluster. Raises the errors of `open`."""
        return self._same_cluster(self._writing_config(connector), self._global_config)

    def pending_copies(self) -> int:
        """Return the number of offsets that are not yet copied to the worker's topic."""
        with self._lock:
            copies = self._copies
        return 0 if copies is None else copies.pending()

    def close(self) -> None:
        """Close all stores. Reads that are running end with an IllegalStateError.

        Waits some seconds at most for pending copies to the worker's topic.
        """
        with self._lock:
            copies, self._copies = self._copies, None
        if copies is not None:
            copies.close()
        with self._lock:
            for store in list(self._open.values()):
                store.close()
            self._open.clear()
            self._global = None

    def _open_former(self, connector: ConnectorConfig, config: ClientConfig, origin: Origin) -> OffsetStore | None:
        """Open an earlier offsets topic of a connector; None if it was deleted, or its cluster is unreachable."""
        if origin.cluster_id is not None:
            if origin.cluster_id != self._cluster_id(config):
                return None
        elif not self._same_cluster(config, self._global_config):
            config = self._global_config
        with self._clients.admin(config) as admin:
            if not admin.topic_exists(origin.topic):
                return None
        return self._opened(origin.topic, config, connector, create=False)

    def _opened(
        self, topic: str, config: ClientConfig, connector: ConnectorConfig | None, *, create: bool = True
    ) -> OffsetStore:
        with self._lock:
            opening = self._opening.setdefault((topic, config), threading.Lock())
        # The common lock is not held while the topic is opened, because another cluster may be slow to answer.
        with opening:
            with self._lock:
                store = self._open.get((topic, config))
            if store is None:
                store = self._new_store(topic, config, connector)
                with self._lock:
                    self._open[topic, config] = store
            if create and not store.is_ensured:
                store.ensure_topic()
            return store

    def _shared(self) -> SharedOffsets:
        store = self.open_global()
        with self._lock:
            if self._copies is None:
                properties = client_properties(self._worker, None, ClientKind.PRODUCER)
                properties[BOOTSTRAP_SERVERS] = self._worker.bootstrap_servers
                config = ProducerConfig.from_properties(properties, where=self._worker.where)
                self._copies = OffsetCopies(store, self._clients.plain_producer(config))
            return SharedOffsets(store, self._copies)

    def _check_clusters(self, connector: ConnectorConfig, consumer: ClientConfig) -> None:
        """Raise ConfigError if a connector's consumer or admin client uses another cluster than its producers."""
        clients = {ClientKind.CONSUMER: consumer, ClientKind.ADMIN: admin_config(self._worker, connector)}
        for kind, config in clients.items():
            name = f"{kind}.override.{BOOTSTRAP_SERVERS}"
            if name in connector.properties and not self._same_cluster(config, self._writing_config(connector)):
                raise ConfigError(
                    f"Connector {connector.name} writes to the cluster at "
                    f"{brokers_written_to(self._worker, connector)}, and its source offsets with it, but "
                    f"{name}={connector.properties[name]} is another cluster: give both brokers of one cluster",
                    name=name,
                )

    def _writing_config(self, connector: ConnectorConfig) -> ClientConfig:
        properties = client_properties(self._worker, connector, ClientKind.PRODUCER)
        return ProducerConfig.from_properties(properties, where=f"connector {connector.name}").client

    def _same_cluster(self, one: ClientConfig, other: ClientConfig) -> bool:
        if set(one.bootstrap_servers) == set(other.bootstrap_servers):
            return True
        return self._cluster_id(one) == self._cluster_id(other)

    def _cluster_id(self, config: ClientConfig) -> str:
        with self._lock:
            known = self._cluster_ids.get(config.bootstrap_servers)
        if known is None:
            with self._clients.admin(config) as admin:
                known = admin.cluster_id()
            with self._lock:
                self._cluster_ids[config.bootstrap_servers] = known
        return known

    @cached_property
    def _global_config(self) -> ClientConfig:
        properties = client_properties(self._worker, None, ClientKind.CONSUMER)
        properties[BOOTSTRAP_SERVERS] = self._worker.bootstrap_servers
        return ClientConfig.from_properties(properties, where=self._worker.where)

    def _new_store(self, topic: str, config: ClientConfig, connector: ConnectorConfig | None) -> OffsetStore:
        settings = replace(self._worker.offset_storage, name=topic)
        administration = admin_config(self._worker, connector)
        return OffsetStore(settings, clients=self._clients, consumer=config, admin=administration)
