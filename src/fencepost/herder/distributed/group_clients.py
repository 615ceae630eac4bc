"""Creates the Kafka clients of a worker of a group, its stores and its membership, from the worker's settings."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from fencepost.config.client_overrides import ClientKind
from fencepost.config.worker_config import ExactlyOnceSourceSupport, WorkerConfig
from fencepost.herder.distributed.group_parts import GroupParts
from fencepost.kafka.clients import KafkaClients
from fencepost.kafka.config.client_config import ClientConfig, ProducerConfig
from fencepost.kafka.group.member import GroupMember
from fencepost.kafka.group.membership import GroupListener, GroupSettings
from fencepost.kafka.group.protocol import Assignment, ConnectProtocol, Election
from fencepost.runtime.connector.client_properties import admin_config, client_properties
from fencepost.storage.configs.topic import ConfigBackingStore, ConfigListener
from fencepost.storage.statuses.topic import StatusBackingStore


def config_store(
    clients: KafkaClients, config: WorkerConfig, listener: ConfigListener, loop: asyncio.AbstractEventLoop
) -> ConfigBackingStore:
    """Return the store of the config topic, which notifies `listener` on `loop`. Raises ConfigError."""
    return ConfigBackingStore(
        config.config_storage,
        config.group_id,
        clients=clients,
        transactional=config.exactly_once_source_support is not ExactlyOnceSourceSupport.DISABLED,
        consumer=_client_config(config),
        producer=_producer_config(config),
        listener=listener,
        post=loop.call_soon_threadsafe,
    )


def status_store(clients: KafkaClients, config: WorkerConfig) -> StatusBackingStore:
    """Return the store of the status topic. Raises ConfigError."""
    return StatusBackingStore(
        config.status_storage, clients=clients, consumer=_client_config(config), producer=_producer_config(config)
    )


def group_member(
    parts: GroupParts, assign: Callable[[Election], Mapping[str, Assignment]], listener: GroupListener
) -> GroupMember:
    """Return the membership of a worker, not joined yet. Raises ConfigError."""
    return parts.worker.clients.group_member(
        _client_config(parts.config),
        _settings(parts),
        config_offset=lambda: parts.state.offset,
        assign=assign,
        listener=listener,
        observer=parts.metrics,
        loop=parts.loop,
    )


def cluster_id(clients: KafkaClients, config: WorkerConfig) -> str:
    """Request the id of the worker's cluster. Raises BrokerUnavailableError and what else connecting raises."""
    with clients.admin(admin_config(config, None)) as admin:
        return admin.cluster_id()


def _client_config(config: WorkerConfig) -> ClientConfig:
    properties = client_properties(config, None, ClientKind.CONSUMER)
    return ClientConfig.from_properties(properties, where=config.where)


def _producer_config(config: WorkerConfig) -> ProducerConfig:
    properties = client_properties(config, None, ClientKind.PRODUCER)
    return ProducerConfig.from_properties(properties, where=config.where)


def _settings(parts: GroupParts) -> GroupSettings:
    config, group = parts.config, parts.group
    return GroupSettings(
        group_id=config.group_id,
        url=f"{parts.url.rstrip('/')}/",
        support=str(config.exactly_once_source_support),
        protocol=ConnectProtocol.of_setting(group.connect_protocol),
        session_timeout_ms=group.session_timeout_ms,
        heartbeat_interval_ms=group.heartbeat_interval_ms,
        rebalance_timeout_ms=group.rebalance_timeout_ms,
    )
