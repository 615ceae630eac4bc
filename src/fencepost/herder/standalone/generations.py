"""Moves a connector from one generation of tasks to the next, with the old one fenced (KIP-618).

Between the reading of the former count and the writing of the new one nobody else may write a count: whoever moves
a connector on first owns the transactional id of the group's leader. One that is overtaken finds out when it writes,
and begins again.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import closing
from typing import Final

from fencepost.config.client_overrides import ClientKind
from fencepost.config.connector_config import ConnectorConfig
from fencepost.config.ids import ConnectorTaskId
from fencepost.config.worker_config import WorkerConfig
from fencepost.herder.errors import OvertakenError
from fencepost.kafka.clients import KafkaClients
from fencepost.kafka.config.client_config import ClientConfig, ProducerConfig
from fencepost.kafka.errors import ProducerFencedError
from fencepost.runtime.connector.client_properties import admin_config, client_properties
from fencepost.storage.configs.task_count import fencing_plan, leader_transactional_id, task_transactional_id
from fencepost.storage.configs.task_count_store import UNKNOWN_OFFSET, TaskCounts

_log: Final = logging.getLogger(__name__)

_ATTEMPTS: Final = 5


class Generation:
    """The right of a connector's tasks to run, for as long as nobody has started newer ones.

    Its checks stand around the moment in which a task takes over its transactional id. The one before it keeps a task
    that starts again in place from fencing its successor; the one after it keeps a worker that was held up between
    the fencing and its tasks' start from running them beside those of another.
    """

    def __init__(self, clients: KafkaClients, worker: WorkerConfig, connector: str, offset: int) -> None:
        """`offset` is that of the task count record that began this generation."""
        self._clients = clients
        self._worker = worker
        self._connector = connector
        self._offset = offset

    def before_ownership(self, task: ConnectorTaskId) -> None:
        """Raise OvertakenError if there is a newer generation."""
        with _task_counts(self._clients, self._worker) as counts:
            if counts.latest_offset(task.connector) != self._offset:
                raise OvertakenError(self._connector, self._worker.group_id)

    def after_ownership(self, task: ConnectorTaskId) -> None:
        """Raise OvertakenError if there is a newer generation."""
        self.before_ownership(task)


class Generations:
    """Keeps account of task generations in the worker's config topic."""

    def __init__(self, clients: KafkaClients, worker: WorkerConfig) -> None:
        self._clients = clients
        self._worker = worker

    def ensure_topic(self) -> None:
        """Create the config topic if it is missing. Raises what creating a topic raises."""
        storage = self._worker.config_storage
        with self._clients.admin(admin_config(self._worker, None)) as admin:
            admin.ensure_compacted_topic(
                storage.name,
                partitions=1,
                replication_factor=storage.replication_factor,
                configs=storage.settings,
            )

    def advance(self, connector: ConnectorConfig, tasks: int) -> Generation:
        """Fence the connector's former tasks, and take note that `tasks` will run. These start with what is returned.

        Raises AuthorizationError or FencingError if the former tasks cannot be fenced, OvertakenError if others come
        in between again and again, and what reading and writing the config topic raises.
        """
        for _ in range(_ATTEMPTS):
            try:
                offset = self._advance_once(connector, tasks)
            except ProducerFencedError:
                _log.info("Another worker of group %s wrote to the config topic meanwhile", self._worker.group_id)
            else:
                if offset != UNKNOWN_OFFSET:
                    return Generation(self._clients, self._worker, connector.name, offset)
        raise OvertakenError(connector.name, self._worker.group_id)

    def _advance_once(self, connector: ConnectorConfig, tasks: int) -> int:
        properties = client_properties(self._worker, None, ClientKind.PRODUCER)
        config = ProducerConfig.from_properties(properties, where=self._worker.where)
        leader = self._clients.transactional_producer(config, leader_transactional_id(self._worker.group_id))
        with closing(leader), _task_counts(self._clients, self._worker) as counts:
            leader.init_transactions()
            count = 0 if connector.at_least_once else tasks
            former = fencing_plan(counts.read(connector.name), count)
            if former:
                self._fence(connector, former)
            return counts.write(leader, connector.name, count)

    def _fence(self, connector: ConnectorConfig, tasks: Sequence[int]) -> None:
        ids = [task_transactional_id(self._worker.group_id, connector.name, task) for task in tasks]
        _log.info("Fencing %d former tasks of connector %s", len(ids), connector.name)
        with self._clients.admin(admin_config(self._worker, connector)) as admin:
            admin.fence_producers(ids).all()


def _task_counts(clients: KafkaClients, worker: WorkerConfig) -> TaskCounts:
    properties = client_properties(worker, None, ClientKind.CONSUMER)
    config = ClientConfig.from_properties(properties, where=worker.where)
    return TaskCounts(clients.topic_reader(config, worker.config_storage.name))
