"""Creates the store of the config topic, from the settings of a worker."""

from __future__ import annotations

import asyncio

from fencepost.config.client_overrides import ClientKind
from fencepost.config.worker_config import ExactlyOnceSourceSupport, WorkerConfig
from fencepost.kafka.admin.admin import missing_internal_topics
from fencepost.kafka.clients import KafkaClients
from fencepost.kafka.config.client_config import ClientConfig, ProducerConfig
from fencepost.runtime.connector.client_properties import admin_config, client_properties
from fencepost.storage.configs.topic import ConfigBackingStore, ConfigListener


def config_store(
    clients: KafkaClients, config: WorkerConfig, listener: ConfigListener, loop: asyncio.AbstractEventLoop
) -> ConfigBackingStore:
    """Return the store of the config topic, which notifies `listener` on `loop`. Raises ConfigError."""
    return ConfigBackingStore(
        config.config_storage,
        config.group_id,
        clients=clients,
        transactional=config.exactly_once_source_support is not ExactlyOnceSourceSupport.DISABLED,
        consumer=consumer_config(config),
        producer=config_topic_producer(config),
        listener=listener,
        post=loop.call_soon_threadsafe,
    )


def cluster_id(clients: KafkaClients, config: WorkerConfig) -> str:
    """Request the id of the worker's cluster. Raises BrokerUnavailableError and other errors of connecting."""
    with clients.admin(admin_config(config, None)) as admin:
        return admin.cluster_id()


def require_internal_topics(clients: KafkaClients, config: WorkerConfig) -> None:
    """Make sure that the worker's topics exist if it may not create them.

    Raises one ConfigError that names all missing topics.
    """
    with clients.admin(admin_config(config, None)) as admin:
        missing = [
            topic.name
            for topic in config.internal_topics
            if not topic.created and not admin.exists_compacted(topic.name)
        ]
    if missing:
        raise missing_internal_topics(missing)


def consumer_config(config: WorkerConfig) -> ClientConfig:
    """Return the properties with which the worker itself reads topics. Raises ConfigError."""
    properties = client_properties(config, None, ClientKind.CONSUMER)
    return ClientConfig.from_properties(properties, where=config.where)


def worker_producer_config(config: WorkerConfig) -> ProducerConfig:
    """Return the properties with which the worker itself writes topics. Raises ConfigError."""
    properties = client_properties(config, None, ClientKind.PRODUCER)
    return ProducerConfig.from_properties(properties, where=config.where)


def config_topic_producer(config: WorkerConfig) -> ProducerConfig:
    """Return the properties with which the worker writes the config topic. By default, gzip compression is used.

    Each commit of task configurations contains the configurations of all tasks of a connector. These are similar to
    each other, so compression saves a lot. Raises ConfigError.
    """
    # Java's client reads gzip without a native library.
    properties = {"compression.type": "gzip", **client_properties(config, None, ClientKind.PRODUCER)}
    return ProducerConfig.from_properties(properties, where=config.where)
