"""Creates the status store and the membership of a worker of a group, from the worker's settings."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from fencepost.config.group_config import GroupConfig
from fencepost.config.worker_config import WorkerConfig
from fencepost.herder.distributed.config_topic import ConfigTopic
from fencepost.herder.distributed.group_metrics import GroupMetrics
from fencepost.herder.distributed.group_view import GroupView
from fencepost.herder.work.worker_clients import consumer_config, worker_producer_config
from fencepost.kafka.clients import KafkaClients
from fencepost.kafka.group.member import GroupMember
from fencepost.kafka.group.membership import GroupListener, GroupSettings
from fencepost.kafka.group.protocol import Assignment, ConnectProtocol, Election
from fencepost.runtime.worker import Worker
from fencepost.storage.statuses.topic import StatusBackingStore


def status_store(clients: KafkaClients, config: WorkerConfig) -> StatusBackingStore:
    """Return the store of the status topic. Raises ConfigError."""
    return StatusBackingStore(
        config.status_storage,
        clients=clients,
        consumer=consumer_config(config),
        producer=worker_producer_config(config),
    )


def group_member(
    worker: Worker,
    group: GroupConfig,
    view: GroupView,
    *,
    topic: ConfigTopic,
    assign: Callable[[Election], Mapping[str, Assignment]],
    listener: GroupListener,
    metrics: GroupMetrics,
) -> GroupMember:
    """Return the membership of a worker, not joined yet. It runs on the current event loop. Raises ConfigError."""
    return worker.clients.group_member(
        consumer_config(worker.config),
        _settings(worker.config, group, view),
        config_offset=lambda: topic.state.offset,
        assign=assign,
        listener=listener,
        observer=metrics,
        loop=asyncio.get_running_loop(),
    )


def _settings(config: WorkerConfig, group: GroupConfig, view: GroupView) -> GroupSettings:
    return GroupSettings(
        group_id=config.group_id,
        url=view.group_url,
        support=str(config.exactly_once_source_support),
        topics=view.topics.own,
        files=view.files,
        protocol=ConnectProtocol.of_setting(group.connect_protocol),
        session_timeout_ms=group.session_timeout_ms,
        heartbeat_interval_ms=group.heartbeat_interval_ms,
        rebalance_timeout_ms=group.rebalance_timeout_ms,
    )
