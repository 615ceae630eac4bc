"""The standalone herder: connectors and tasks of one process, exactly once.

One event loop owns all state. Configurations and states are in memory; source offsets and task counts are in Kafka.

    files, REST ──> MemoryConfigs ──events──> LocalWork ──> ConnectorWork, TaskWork
                        ^                                          │          │
                        └── TaskConfigurations <──── asked anew ───┘          └──> StandaloneFencing ──> config topic

The failure of a connector or a task does not affect the others. The worker ends when it has nothing left to do: see
Outcome.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Final
from urllib.parse import urlsplit

from fencepost.api.errors import ConfigError
from fencepost.config.ids import ConnectorTaskId
from fencepost.herder.core.mixed_group import MixedGroup
from fencepost.herder.core.transaction_info import TaskTransactionInfo
from fencepost.herder.entities import HealthStatus, WorkerHealth
from fencepost.herder.interface import Herder, Transactions
from fencepost.herder.requests.connector_requests import ConnectorRequests
from fencepost.herder.requests.connector_states import ConnectorStates
from fencepost.herder.requests.local_transactions import local_transactions, merge
from fencepost.herder.requests.logger_requests import LoggerRequests
from fencepost.herder.requests.observing import LocalObservation
from fencepost.herder.requests.offset_requests import OffsetRequests
from fencepost.herder.requests.plugin_requests import PluginRequests
from fencepost.herder.standalone.config_store import MemoryConfigs
from fencepost.herder.standalone.outcome import Outcome
from fencepost.herder.standalone.sole_member import SoleLeader, SoleMember, SoleMemberRestarts
from fencepost.herder.standalone.standalone_fencing import StandaloneFencing
from fencepost.herder.standalone.standalone_parts import StandaloneParts
from fencepost.herder.standalone.task_configurations import TaskConfigurations
from fencepost.herder.work.connector_work import ConnectorWork
from fencepost.herder.work.local_work import LocalWork
from fencepost.herder.work.start_checks import FencingChecks
from fencepost.herder.work.task_work import TaskWork
from fencepost.herder.work.worker_clients import cluster_id, config_store, require_internal_topics
from fencepost.runtime.connector.client_properties import admin_config
from fencepost.runtime.task.run import StartChecks
from fencepost.runtime.worker import Worker
from fencepost.storage.configs.state import ConfigEvent, ConnectorConfigRemoval, TargetStateChange

_log: Final = logging.getLogger(__name__)


class StandaloneHerder(Herder):
    """A standalone worker. It is created, started, called and stopped on one event loop.

    herder = StandaloneHerder(worker, [properties], url)
    await herder.start()                                        # the connectors start
    await rest_server.start(herder, worker.metrics.registry)
    failures = await herder.ended                               # nothing is left to do
    await herder.stop()
    """

    def __init__(
        self, worker: Worker, connectors: Sequence[Mapping[str, str]], url: str, *, once: bool = False
    ) -> None:
        """`connectors` are the configurations from the owner's files; `url` is the address of the REST API.

        With `once`, tasks end when they reach the end of their sources. Raises ConfigError.
        """
        loop = asyncio.get_running_loop()
        self.ended: asyncio.Future[Sequence[str]] = loop.create_future()
        """Done when nothing is left to do.

        The result has one line for each failure; failures were logged when they happened.
        """
        self._connectors = connectors
        self._once = once
        self._parts = parts = StandaloneParts(
            worker,
            urlsplit(url).netloc,
            MemoryConfigs(self._on_config),
            config_store(worker.clients, worker.config, lambda *_: None, loop),
            loop,
        )
        self._fencing = StandaloneFencing(parts)
        self._task_configs = TaskConfigurations(parts, self._find)
        self._member = SoleMember()
        self._work = LocalWork(parts, self._member, new_task=self._new_task, configure_tasks=self._task_configs.request)
        self._outcome = Outcome(parts.configs, parts.statuses.table, parts.errors, self._is_moving, once=once)
        self._watching: asyncio.Task[None] | None = None
        self._cluster_id = ""
        states = ConnectorStates(parts)
        restarts = SoleMemberRestarts(states, self._work)
        self.connectors = ConnectorRequests(parts, SoleLeader(), restarts, states)
        self.offsets = OffsetRequests(parts, SoleLeader(), self._fencing)
        self.transactions = _LocalTransactions(parts, self._work, states)
        self.plugins = PluginRequests(parts)
        self.loggers = LoggerRequests(parts)
        self.observation = LocalObservation(parts, states)
        self.peers = None

    async def start(self) -> None:
        """Check the configurations, reach the brokers, and start the connectors.

        Raises ConfigError for an invalid configuration, before anything is started, and KafkaError if the brokers
        cannot be used.
        """
        parts = self._parts
        names = await parts.run(self._check_configurations)
        await parts.run(require_internal_topics, parts.worker.clients, parts.config)
        await parts.run(parts.worker.start)
        self._cluster_id = await parts.run(cluster_id, parts.worker.clients, parts.config)
        # The claim aborts a transaction that a killed process may have left open. So it comes before the topic is read,
        # because the read waits for open transactions.
        await self._fencing.require()
        await asyncio.wrap_future(parts.task_counts.start(admin_config(parts.config, None)))
        self._watching = asyncio.ensure_future(self._watch())
        for name, properties in zip(names, self._connectors, strict=True):
            parts.configs.load(name, {**properties, "name": name})

    @property
    def errors(self) -> Mapping[str | ConnectorTaskId, Exception]:
        """The reasons why connectors and tasks are FAILED."""
        return self._parts.errors

    async def stop_tasks(self) -> None:
        """Let tasks commit, and stop the tasks and their connectors for good. Offsets can still be shown."""
        if self._watching is not None:
            self._watching.cancel()
        self._task_configs.close()
        self._member.close()
        await self._work.revoke(self._work.units)

    async def stop(self) -> None:
        """Let tasks commit, stop everything, and close all resources."""
        parts = self._parts
        await self.stop_tasks()
        await parts.run(parts.task_counts.close)
        await parts.run(parts.worker.stop)

    async def health(self) -> WorkerHealth:
        """Return the worker's health."""
        if failure := self._parts.task_counts.fatal_failure:
            topic = self._parts.config.config_storage.name
            return WorkerHealth(
                HealthStatus.UNHEALTHY,
                f"The config topic {topic}, which holds the counts of tasks to fence, cannot be read: {failure}. No task "
                "starts before the worker is started again",
            )
        return WorkerHealth(HealthStatus.HEALTHY, "The worker runs and accepts requests")

    def mixed_group(self) -> MixedGroup:
        """Return this worker's delivery setting. There are no other workers."""
        return MixedGroup(str(self._parts.config.exactly_once_source_support))

    async def kafka_cluster_id(self) -> str:
        """Return the id of the Kafka cluster."""
        return self._cluster_id

    def _check_configurations(self) -> list[str]:
        """Check all configurations, and return the names of the connectors. Raises ConfigError."""
        checked = [self._parts.worker.checked(properties, warn=True) for properties in self._connectors]
        names = [config.name for config in checked]
        for name, count in Counter(names).items():
            if count > 1:
                raise ConfigError(f"{count} connectors are named {name}: give each its own name", name="name")
        return names

    def _find(self, connector: str) -> ConnectorWork | None:
        return self._work.find(connector)

    def _new_task(self, task: ConnectorTaskId) -> TaskWork:
        return TaskWork(task, self._parts, self._new_checks, stop_at_end=self._once)

    def _new_checks(self, is_current: Callable[[], bool]) -> StartChecks:
        return FencingChecks(self._parts, self._fencing, is_current)

    def _on_config(self, event: ConfigEvent) -> None:
        self._work.on_config(event)
        match event:
            case ConnectorConfigRemoval(name):
                self._parts.statuses.delete_connector(name)
                self._parts.worker.metrics.on_delete(name)
            case TargetStateChange(name) if self._parts.state.entry(name).half_stopped:
                # A connector that was resumed before its stop was finished keeps running, but its tasks were removed.
                self._task_configs.request(name)
        self._parts.changed.set()

    def _is_moving(self, connector: str) -> bool:
        return self._task_configs.is_asked(connector) or not self._work.settled(connector)

    async def _watch(self) -> None:
        """Wait until nothing is left to do."""
        while not self._outcome.complete:
            await self._parts.changed.wait()
            self._parts.changed.clear()
            await self._work.settle()
        self.ended.set_result(self._outcome.failures)


class _LocalTransactions(Transactions):
    """Shows the transactions of the tasks, which all run here."""

    def __init__(self, parts: StandaloneParts, work: LocalWork, states: ConnectorStates) -> None:
        self._parts = parts
        self._work = work
        self._states = states

    async def everywhere(self, name: str, authorization: str | None) -> list[TaskTransactionInfo]:
        """Return the open transaction of each task of a connector, by number. Raises NotFoundError."""
        del authorization
        self._states.config(name)
        here = self._parts.worker_id
        owners = dict.fromkeys(self._parts.state.tasks(name), here)
        return merge(owners, {here: local_transactions(self._parts, self._work, name)}, self._parts.config.group_id)
