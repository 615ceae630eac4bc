"""Chooses the delivery of a connector's tasks: exactly once or at least once."""

from __future__ import annotations

from collections.abc import Callable

from fencepost.config.connector_config import ConnectorConfig
from fencepost.config.ids import ConnectorTaskId
from fencepost.config.worker_config import ExactlyOnceSourceSupport, WorkerConfig
from fencepost.kafka.clients import KafkaClients
from fencepost.runtime.connector.client_properties import boundary_interval_ms, offset_producer_config, producer_config
from fencepost.runtime.task.acknowledged_writes import AtLeastOnceDelivery
from fencepost.runtime.task.boundaries import FlushInterval, TransactionBoundaryManager, boundary_manager
from fencepost.runtime.task.transactional_writes import ExactlyOnceDelivery
from fencepost.runtime.task.writes import Delivery

NewDelivery = Callable[[], Delivery]
NewBoundaries = Callable[[float], TransactionBoundaryManager]


def delivers_exactly_once(worker: WorkerConfig, connector: ConnectorConfig) -> bool:
    """Return whether the tasks of a connector on a worker write in transactions."""
    enabled = worker.exactly_once_source_support is ExactlyOnceSourceSupport.ENABLED
    return enabled and not connector.at_least_once


def delivery(
    clients: KafkaClients, worker: WorkerConfig, connector: ConnectorConfig, task: ConnectorTaskId
) -> tuple[NewDelivery, NewBoundaries]:
    """Return the factories of the delivery and of the boundaries of a task's runs. Raises ConfigError."""
    records = producer_config(worker, connector, task)
    if delivers_exactly_once(worker, connector):
        transactional_id = task.transactional_id(worker.group_id)
        interval_s = boundary_interval_ms(worker, connector) / 1000
        flush_interval_s = worker.offset_flush_interval_ms / 1000
        return (
            lambda: ExactlyOnceDelivery(clients.transactional_producer(records, transactional_id), flush_interval_s),
            lambda now: boundary_manager(connector.transaction_boundary, interval_s, now),
        )
    offsets = offset_producer_config(worker, connector, task)
    return (
        lambda: AtLeastOnceDelivery(clients.idempotent_producer(records), clients.idempotent_producer(offsets)),
        lambda now: FlushInterval(worker.offset_flush_interval_ms / 1000, now),
    )
