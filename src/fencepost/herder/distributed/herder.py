"""The distributed herder: one worker of a group that shares connectors and tasks.

One event loop owns all state, and what happens comes to it as a message: requests, rebalances, records of the config
topic, timers, and what connectors and tasks tell. Nothing blocks it: Kafka, Spark and connectors' code run on threads.

    REST ──> ConnectorRequests, OffsetRequests ──> Leadership ──> config topic ──> GroupWork ──> connectors, tasks
    group ──────────────────────────────────────────^──────────────────────────────^ ^           │         │
    tasks that start ──> FencingRounds ─────────────┘    TaskConfigs <───────────────┘───────────┘         │
                              ^────────────────────────────────────────────────────────────────────────────┘
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Final

from fencepost.config.group_config import GroupConfig
from fencepost.config.ids import ConnectorTaskId
from fencepost.herder.core.active_topics import ActiveTopics
from fencepost.herder.core.mixed_group import MixedGroup
from fencepost.herder.core.task_transactions import TaskTransactionInfo
from fencepost.herder.distributed.assignor_leader import LeaderAssignor
from fencepost.herder.distributed.connector_requests import ConnectorRequests
from fencepost.herder.distributed.connector_work import ConnectorWork
from fencepost.herder.distributed.fencing_round import FencingRounds
from fencepost.herder.distributed.group_clients import cluster_id, config_store, group_member, status_store
from fencepost.herder.distributed.group_parts import GroupParts
from fencepost.herder.distributed.group_work import GroupWork
from fencepost.herder.distributed.leadership import Leadership
from fencepost.herder.distributed.offset_requests import OffsetRequests
from fencepost.herder.distributed.readiness import Standing
from fencepost.herder.distributed.snapshots import Snapshots
from fencepost.herder.distributed.task_configs import TaskConfigs
from fencepost.herder.distributed.transaction_requests import TransactionRequests
from fencepost.herder.errors import BadRequestError, ServiceUnavailableError
from fencepost.herder.interface import (
    ConfigInfos,
    ConfigKeyInfo,
    ConnectorInfo,
    ConnectorOffset,
    ConnectorStateInfo,
    HealthStatus,
    Herder,
    LoggerLevel,
    PluginInfo,
    PutConnectorConfig,
    TaskInfo,
    TaskState,
    WorkerHealth,
)
from fencepost.herder.peers.request_signing import SignedRequest
from fencepost.herder.peers.rest_client import RestClient
from fencepost.herder.requests.logger_registry import LoggerRegistry
from fencepost.herder.requests.plugin_catalogue import PluginCatalogue
from fencepost.herder.requests.shown_configs import shown_config, shown_task_config
from fencepost.herder.requests.validation import validate_connector_config
from fencepost.runtime.connector.client_properties import admin_config
from fencepost.runtime.connector.password_properties import password_properties
from fencepost.runtime.worker import Worker
from fencepost.storage.configs.codec import LoggerLevel as LoggerLevelRecord
from fencepost.storage.configs.codec import TargetState
from fencepost.storage.configs.state import ClusterConfigState, ConfigEvent

_log: Final = logging.getLogger(__name__)

# A JVM that starts takes most of a core for some seconds: what the group gives to this worker first comes before it.
_SPARK_AFTER_SECONDS: Final = 3.0


class DistributedHerder(Herder):
    """A worker of a group. It is made, started, asked and stopped on one event loop.

    herder = DistributedHerder(worker, group, url, client)
    await rest_server.start(herder, worker.metrics.registry)    # says that it is starting
    await herder.start()                                        # joins the group
    await herder.failed                                         # the error that ends the membership, if one does
    await herder.stop()
    """

    def __init__(self, worker: Worker, group: GroupConfig, url: str, client: RestClient) -> None:
        """`url` is where the other workers reach this one. Raises ConfigError."""
        loop = asyncio.get_running_loop()
        config = worker.config
        self.failed: asyncio.Future[Exception] = loop.create_future()
        self._parts = GroupParts(
            config,
            group,
            url,
            worker,
            config_store(worker.clients, config, self._on_config, loop),
            status_store(worker.clients, config),
            client,
            loop,
        )
        worker.metrics.registry.register(self._parts.metrics)
        self._leadership = Leadership(self._parts, self._rejoin)
        self._fencing = FencingRounds(self._parts, self._leadership)
        self._task_configs = TaskConfigs(self._parts, self._leadership, self._find)
        self._work = GroupWork(
            self._parts,
            self._leadership,
            self._fencing,
            configure_tasks=self._task_configs.request,
            rejoin=self._rejoin,
            failed=self._fail,
        )
        assignor = LeaderAssignor(self._work.configured, max_delay_ms=group.scheduled_rebalance_max_delay_ms)
        self._member = group_member(self._parts, assignor, self._work)
        self._snapshots = Snapshots(self._parts, self._is_cut_off)
        self._topics = ActiveTopics(config, self._parts.statuses)
        self._requests = ConnectorRequests(self._parts, self._leadership, self._work, assignor, self._snapshots)
        self._offsets = OffsetRequests(self._parts, self._leadership, self._fencing)
        self._transactions = TransactionRequests(self._parts, self._leadership, self._work, self._snapshots)
        self._plugins = PluginCatalogue(config.plugin_sources, self._parts.all_configs)
        self._loggers = LoggerRegistry()
        self._cluster_id = ""
        self._warming_up: asyncio.TimerHandle | None = None

    async def start(self) -> None:
        """Reach the brokers, read the internal topics, and join the group.

        Raises BrokerUnavailableError, AuthenticationError, AuthorizationError, TopicCreationError or ConfigError.
        """
        parts = self._parts
        administration = admin_config(parts.config, None)
        self._cluster_id = await parts.run(cluster_id, parts.worker.clients, parts.config)
        await asyncio.gather(
            parts.run(parts.worker.start),
            asyncio.wrap_future(parts.configs.start(administration)),
            asyncio.wrap_future(parts.statuses.start(administration)),
        )
        parts.readiness.become(Standing.JOINING)
        self._member.start()
        self._warming_up = parts.loop.call_later(_SPARK_AFTER_SECONDS, parts.worker.engine.warm_up)

    def refuse_requests(self) -> None:
        """Have requests that wait for the group, and those that follow, answered that the worker stops."""
        self._parts.readiness.become(Standing.CLOSED)

    async def stop(self) -> None:
        """Stop everything, leave the group, and let go of what is open."""
        parts = self._parts
        self.refuse_requests()
        if self._warming_up is not None:
            self._warming_up.cancel()
        self._task_configs.close()
        await self._work.close()
        self._leadership.lost()
        await self._member.close()
        await parts.run(parts.configs.close)
        await parts.run(parts.statuses.close)
        await parts.run(parts.worker.stop)

    # -- the worker ----------------------------------------------------------------------------------------------

    async def health(self) -> WorkerHealth:
        """Say how the worker is."""
        standing = self._parts.readiness.standing
        if self.failed.done():
            return WorkerHealth(HealthStatus.UNHEALTHY, f"This worker is out of its group: {self.failed.result()}")
        if standing is not Standing.STARTING and self._is_cut_off():
            return WorkerHealth(
                HealthStatus.UNHEALTHY,
                f"The coordinator of group {self._parts.config.group_id} has not been reached for "
                f"{self._member.coordinator_unknown_for:.0f} s: check the brokers",
            )
        if problem := self._parts.topic_problem:
            return WorkerHealth(HealthStatus.UNHEALTHY, problem)
        if self._leadership.membership is None:
            return WorkerHealth(HealthStatus.STARTING, f"The worker {standing.value}")
        return WorkerHealth(HealthStatus.HEALTHY, f"The worker {Standing.MEMBER.value}")

    def mixed_group(self) -> MixedGroup:
        """Return what is wrong with the settings of the group."""
        mixed = self._parts.mixed
        return MixedGroup(mixed.support, known=False) if self._leadership.membership is None else mixed

    async def kafka_cluster_id(self) -> str:
        """Return the id of the Kafka cluster. Tools ask for it first, and must not wait for brokers."""
        if self._parts.readiness.standing is Standing.STARTING:
            raise ServiceUnavailableError(f"The worker {Standing.STARTING.value}: ask again soon")
        return self._cluster_id

    # -- connectors and tasks ------------------------------------------------------------------------------------

    async def connectors(self) -> Sequence[str]:
        """Return the names of all connectors."""
        await self._joined()
        return self._parts.state.connectors()

    async def connector_info(self, name: str) -> ConnectorInfo:
        """Return a connector's configuration and tasks."""
        await self._joined()
        return await self._without_passwords(self._snapshots.info(name))

    async def connector_status(self, name: str) -> ConnectorStateInfo:
        """Return the states of a connector and its tasks."""
        await self._parts.readiness.started()
        return self._snapshots.status(name)

    async def put_connector_config(
        self, name: str, config: Mapping[str, str], target_state: TargetState | None = None, *, allow_replace: bool
    ) -> PutConnectorConfig:
        """Validate and write a configuration."""
        await self._joined()
        put = await self._requests.put(name, config, target_state, allow_replace=allow_replace)
        return replace(put, info=await self._without_passwords(put.info))

    async def patch_connector_config(self, name: str, patch: Mapping[str, str | None]) -> ConnectorInfo:
        """Change some properties of a configuration."""
        await self._joined()
        return await self._without_passwords(await self._requests.patch(name, patch))

    async def delete_connector_config(self, name: str) -> None:
        """Delete a connector."""
        await self._joined()
        await self._requests.delete(name)

    async def pause_connector(self, name: str) -> None:
        """Have a connector and its tasks pause."""
        await self._joined()
        await self._requests.set_target_state(name, TargetState.PAUSED)

    async def resume_connector(self, name: str) -> None:
        """Have a paused or stopped connector run."""
        await self._joined()
        await self._requests.set_target_state(name, TargetState.STARTED)

    async def stop_connector(self, name: str) -> None:
        """Stop a connector and remove its tasks."""
        await self._joined()
        await self._requests.stop(name)

    async def restart_connector(self, name: str) -> None:
        """Restart a connector alone, on the worker that runs it."""
        await self._joined()
        await self._requests.restart(name)

    async def restart_connector_and_tasks(
        self, name: str, *, include_tasks: bool, only_failed: bool
    ) -> ConnectorStateInfo:
        """Restart what is asked for of a connector and its tasks."""
        await self._joined()
        return await self._requests.restart_all(name, include_tasks=include_tasks, only_failed=only_failed)

    async def task_configs(self, name: str) -> Sequence[TaskInfo]:
        """Return the configurations of a connector's tasks."""
        await self._joined()
        config, tasks = self._snapshots.config(name), self._snapshots.tasks(name)
        passwords = await self._passwords(config)
        return [replace(task, config=shown_task_config(task.config, config, passwords)) for task in tasks]

    async def task_status(self, task: ConnectorTaskId) -> TaskState:
        """Return a task's state."""
        await self._parts.readiness.started()
        return self._snapshots.task_status(task)

    async def restart_task(self, task: ConnectorTaskId) -> None:
        """Restart a task, on the worker that runs it."""
        await self._joined()
        await self._requests.restart(task)

    # -- topics and offsets --------------------------------------------------------------------------------------

    async def connector_active_topics(self, name: str) -> Sequence[str]:
        """Return the topics that a connector has written to."""
        await self._parts.readiness.started()
        return self._topics.topics(name)

    async def reset_connector_active_topics(self, name: str) -> None:
        """Forget which topics a connector has written to."""
        await self._parts.readiness.started()
        self._topics.reset(name)

    async def connector_offsets(self, name: str) -> Sequence[ConnectorOffset]:
        """Return a connector's committed offsets."""
        await self._joined()
        return await self._offsets.show(name)

    async def alter_connector_offsets(self, name: str, offsets: Sequence[ConnectorOffset]) -> str:
        """Set offsets of a stopped connector."""
        await self._joined()
        return await self._offsets.alter(name, offsets)

    async def reset_connector_offsets(self, name: str) -> str:
        """Remove all offsets of a stopped connector."""
        await self._joined()
        return await self._offsets.reset(name)

    async def connector_transactions(self, name: str, authorization: str | None) -> Sequence[TaskTransactionInfo]:
        """Return what each task of a connector has open."""
        await self._parts.readiness.started()
        return await self._transactions.everywhere(name, authorization)

    # -- plugins and loggers -------------------------------------------------------------------------------------

    async def connector_plugins(self) -> Sequence[PluginInfo]:
        """Return all plugins."""
        return await self._parts.run(self._plugins.infos)

    async def connector_plugin_config(self, plugin: str, version: str | None = None) -> Sequence[ConfigKeyInfo]:
        """Return the properties of a plugin."""
        return await self._parts.run(self._plugins.config, plugin, version)

    async def validate_connector_config(self, config: Mapping[str, str]) -> ConfigInfos:
        """Check a connector's configuration."""
        return await self._parts.run(validate_connector_config, self._parts.worker, config)

    async def all_logger_levels(self) -> Mapping[str, LoggerLevel]:
        """Return the loggers whose levels are set."""
        return self._loggers.levels()

    async def logger_level(self, name: str) -> LoggerLevel:
        """Return a logger's level."""
        return self._loggers.level(name)

    async def set_worker_logger_level(self, namespace: str, level: str) -> Sequence[str]:
        """Set the level of a logger and those below it on this worker."""
        return self._loggers.set_level(namespace, level)

    async def set_cluster_logger_level(self, namespace: str, level: str) -> None:
        """Set the level of a logger and those below it on all workers."""
        await self._joined()
        # Here it is set at once, or refused.
        self._loggers.set_level(namespace, level)
        await asyncio.wrap_future(self._parts.configs.put_logger_level(namespace, level))

    # -- requests of other workers -------------------------------------------------------------------------------

    async def fence_zombie_source_tasks(self, name: str, request: SignedRequest) -> None:
        """Fence former generations of a connector's tasks."""
        self._leadership.verify(request)
        await self._fencing.lead(name)

    async def worker_transactions(self, name: str, request: SignedRequest) -> Sequence[TaskTransactionInfo]:
        """Return what the tasks of a connector have open that run here."""
        self._leadership.verify(request)
        return self._transactions.here(name)

    async def put_task_configs(self, name: str, configs: Sequence[Mapping[str, str]], request: SignedRequest) -> None:
        """Store task configurations that another worker's connector made."""
        self._leadership.verify(request)
        await self._task_configs.store(name, configs)

    # -- what is not shown ---------------------------------------------------------------------------------------

    async def _without_passwords(self, info: ConnectorInfo) -> ConnectorInfo:
        return replace(info, config=shown_config(info.config, await self._passwords(info.config)))

    async def _passwords(self, config: Mapping[str, str]) -> frozenset[str]:
        # On a thread: the first one to ask for a plugin has it imported.
        return await self._parts.run(password_properties, self._parts.config, config)

    # -- what comes from elsewhere -------------------------------------------------------------------------------

    def _on_config(self, event: ConfigEvent, state: ClusterConfigState) -> None:
        del state
        if isinstance(event, LoggerLevelRecord):
            # One that a newer worker understands, perhaps.
            with suppress(BadRequestError):
                self._loggers.set_level(event.logger, event.level)
        else:
            self._work.on_config(event)

    def _is_cut_off(self) -> bool:
        return self._member.coordinator_unknown_for > self._parts.group.session_timeout_ms / 1000

    def _find(self, name: str) -> ConnectorWork | None:
        return self._work.find(name)

    def _rejoin(self) -> None:
        self._member.rejoin()

    def _fail(self, error: Exception) -> None:
        if not self.failed.done():
            self.failed.set_result(error)

    async def _joined(self) -> None:
        """Wait until this worker is in its group and knows what the config topic says."""
        await self._parts.readiness.joined(self._parts.check_config_topic)
