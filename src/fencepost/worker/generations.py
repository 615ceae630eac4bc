"""Moves a connector from one generation of tasks to the next, with the old one fenced (KIP-618).

Between the reading of the former count and the writing of the new one nobody else may write a count: whoever moves
a connector on first owns the transactional id of the group's leader. One that is overtaken finds out when it writes,
and begins again.
"""

from __future__ import annotations

import logging
from contextlib import closing
from typing import Final

from fencepost.config.client_overrides import ClientKind
from fencepost.config.connector_config import ConnectorConfig
from fencepost.config.worker_config import WorkerConfig
from fencepost.kafka.admin import Admin
from fencepost.kafka.client_config import ClientConfig, ProducerConfig
from fencepost.kafka.errors import KafkaError, ProducerFencedError
from fencepost.kafka.producer import TransactionalProducer
from fencepost.runtime.client_properties import admin_config, client_properties
from fencepost.storage.task_count import TaskCounts, fencing_plan, leader_transactional_id, task_transactional_id

_log: Final = logging.getLogger(__name__)

_ATTEMPTS: Final = 5


class Generations:
    """Keeps account of task generations in the worker's config topic."""

    def __init__(self, worker: WorkerConfig) -> None:
        self._worker = worker

    def ensure_topic(self) -> None:
        """Create the config topic if it is missing. Raises what creating a topic raises."""
        storage = self._worker.config_storage
        with Admin(admin_config(self._worker, None)) as admin:
            admin.ensure_compacted_topic(
                storage.name,
                partitions=1,
                replication_factor=storage.replication_factor,
                configs=storage.settings,
            )

    def advance(self, connector: ConnectorConfig, tasks: int) -> None:
        """Fence the connector's former tasks, and take note that `tasks` will run. Then these may start.

        Raises AuthorizationError or FencingError if the former tasks cannot be fenced, and what reading and writing
        the config topic raises.
        """
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                self._advance_once(connector, tasks)
            except ProducerFencedError:
                if attempt == _ATTEMPTS:
                    raise
                _log.info("Another worker of group %s wrote to the config topic meanwhile", self._worker.group_id)
            else:
                return

    def _advance_once(self, connector: ConnectorConfig, tasks: int) -> None:
        where = self._worker.where
        reading = ClientConfig.from_properties(self._properties(ClientKind.CONSUMER), where=where)
        writing = ProducerConfig.from_properties(self._properties(ClientKind.PRODUCER), where=where)
        leader = TransactionalProducer(writing, leader_transactional_id(self._worker.group_id))
        with closing(leader), TaskCounts(reading, self._worker.config_storage.name) as counts:
            leader.init_transactions()
            former = fencing_plan(counts.read(connector.name), tasks)
            if former:
                self._fence(connector, former)
            try:
                counts.write(leader, connector.name, tasks)
            except KafkaError as error:
                raise leader.resolve(error) from error

    def _fence(self, connector: ConnectorConfig, tasks: range) -> None:
        ids = [task_transactional_id(self._worker.group_id, connector.name, task) for task in tasks]
        _log.info("Fencing %d former tasks of connector %s", len(ids), connector.name)
        with Admin(admin_config(self._worker, connector)) as admin:
            admin.fence_producers(ids).all()

    def _properties(self, kind: ClientKind) -> dict[str, str]:
        return client_properties(self._worker, None, kind)
