"""The distributed herder: one worker of a group that shares connectors and tasks.

One event loop owns all state, and every event comes to it as a message: requests, rebalances, records of the config
topic, timers, and reports of connectors and tasks. Nothing blocks it: Kafka, Spark and connectors' code run on threads.

    REST ──> ConnectorRequests, OffsetRequests ──> Leadership ──> config topic ──> GroupWork ──> LocalWork: connectors,
    group ──────────────────────────────────────────^──────────────────────────────^              ^             tasks
    tasks that start ──> GroupFencing, FencingRounds┘                TaskConfigs ─────────────────┘

If a part cannot do something itself, it gives the herder a command (`HerderCommand`): rejoin the group, write a
connector's task configurations, end the worker.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

from fencepost.config.group_config import GroupConfig
from fencepost.herder.core.group_decisions import ConfigureTasks, EndWorker, HerderCommand, Rejoin
from fencepost.herder.core.mixed_group import MixedGroup
from fencepost.herder.distributed.assignor_leader import LeaderAssignor
from fencepost.herder.distributed.config_topic import ConfigTopic
from fencepost.herder.distributed.group_clients import group_member, status_store
from fencepost.herder.distributed.group_fencing import GroupFencing
from fencepost.herder.distributed.group_metrics import GroupMetrics
from fencepost.herder.distributed.group_observation import GroupObservation
from fencepost.herder.distributed.group_parts import GroupParts
from fencepost.herder.distributed.group_requests import GroupRequests
from fencepost.herder.distributed.group_restarts import GroupRestarts
from fencepost.herder.distributed.group_view import GroupView
from fencepost.herder.distributed.group_work import GroupWork
from fencepost.herder.distributed.leadership import Leadership
from fencepost.herder.distributed.readiness import Readiness, Standing
from fencepost.herder.distributed.shown_statuses import ShownStatuses
from fencepost.herder.distributed.task_configs import TaskConfigs
from fencepost.herder.distributed.transaction_requests import GroupTransactions
from fencepost.herder.entities import HealthStatus, WorkerHealth
from fencepost.herder.errors import BadRequestError, ServiceUnavailableError
from fencepost.herder.interface import Herder
from fencepost.herder.peers.rest_client import RestClient
from fencepost.herder.requests.connector_requests import ConnectorRequests
from fencepost.herder.requests.connector_states import ConnectorStates
from fencepost.herder.requests.logger_requests import LoggerRequests
from fencepost.herder.requests.offset_requests import OffsetRequests
from fencepost.herder.requests.plugin_requests import PluginRequests
from fencepost.herder.work.fencing_round import FencingRounds
from fencepost.herder.work.worker_clients import cluster_id, config_store, require_internal_topics
from fencepost.runtime.connector.client_properties import admin_config
from fencepost.runtime.worker import Worker
from fencepost.storage.configs.codec import LoggerLevelRecord
from fencepost.storage.configs.state import ClusterConfigState, ConfigEvent


class DistributedHerder(Herder):
    """A worker of a group. It is created, started, called and stopped on one event loop.

    herder = DistributedHerder(worker, group, url, client)
    await rest_server.start(herder, worker.metrics.registry)    # answers that it is starting
    await herder.start()                                        # joins the group
    await herder.failed                                         # the error that ends the membership, if one does
    await herder.stop()
    """

    def __init__(self, worker: Worker, group: GroupConfig, url: str, client: RestClient) -> None:
        """`url` is this worker's advertised address. Raises ConfigError."""
        loop = asyncio.get_running_loop()
        config = worker.config
        self.failed: asyncio.Future[Exception] = loop.create_future()
        view = GroupView.of(config, url)
        store = config_store(worker.clients, config, self._on_config, loop)
        topic = ConfigTopic(store, config.config_storage.name, view)
        statuses, readiness, metrics = status_store(worker.clients, config), Readiness(config.group_id), GroupMetrics()
        worker.metrics.registry.register(metrics)
        self._group, self._view, self._topic, self._statuses, self._readiness = group, view, topic, statuses, readiness
        self._parts = parts = GroupParts(worker, view, topic, statuses, readiness=readiness, metrics=metrics)
        self._leadership = Leadership(group, topic, readiness, self._carry_out)
        rounds = FencingRounds(parts, self._leadership)
        fencing = GroupFencing(parts, self._leadership, rounds, client)
        self._work = GroupWork(
            parts,
            view,
            readiness=readiness,
            metrics=metrics,
            leadership=self._leadership,
            fencing=fencing,
            carry_out=self._carry_out,
        )
        self._task_configs = TaskConfigs(worker, topic, self._leadership, self._work.local, client)
        assignor = LeaderAssignor(self._work.configured, max_delay_ms=group.scheduled_rebalance_max_delay_ms)
        self._member = group_member(
            worker, group, view, topic=topic, assign=assignor, listener=self._work, metrics=metrics
        )
        self._answer_requests(client, rounds, assignor)
        self._cluster_id = ""

    def _answer_requests(self, client: RestClient, rounds: FencingRounds, assignor: LeaderAssignor) -> None:
        parts, view, leadership, group = self._parts, self._view, self._leadership, self._group
        states = ConnectorStates(parts, ShownStatuses(view, self._statuses, self._is_cut_off))
        restarts = GroupRestarts(view.url, group.sync_timeout_ms, self._topic, leadership, self._work, assignor, states)
        self.connectors = ConnectorRequests(parts, leadership, restarts, states)
        self.offsets = OffsetRequests(parts, leadership, rounds)
        self.transactions = transactions = GroupTransactions(
            parts, view, leadership, work=self._work.local, states=states, client=client
        )
        self.plugins = PluginRequests(parts)
        self.loggers = LoggerRequests(parts)
        self.observation = GroupObservation(parts, view, states, client)
        self.peers = GroupRequests(leadership, rounds, transactions, self._task_configs)

    async def start(self) -> None:
        """Reach the brokers, read the internal topics, and join the group.

        Raises BrokerUnavailableError, AuthenticationError, AuthorizationError, TopicCreationError or ConfigError.
        """
        parts = self._parts
        administration = admin_config(parts.config, None)
        self._cluster_id = await parts.run(cluster_id, parts.worker.clients, parts.config)
        if not all(topic.created for topic in parts.config.internal_topics):
            await parts.run(require_internal_topics, parts.worker.clients, parts.config)
        starting: list[asyncio.Future[Any]] = [
            asyncio.ensure_future(parts.run(parts.worker.start)),
            asyncio.wrap_future(self._topic.store.start(administration)),
            asyncio.wrap_future(self._statuses.start(administration)),
        ]
        try:
            await asyncio.gather(*starting)
        finally:
            # If one start fails, the others fail, too, once the stores are closed. Their errors say nothing more.
            for start in starting:
                start.cancel()
        self._readiness.become(Standing.JOINING)
        self._member.start()

    def refuse_requests(self) -> None:
        """Answer waiting and later requests with the message that the worker stops."""
        self._readiness.become(Standing.CLOSED)

    async def stop(self) -> None:
        """Stop everything, leave the group, and close all resources."""
        parts = self._parts
        self.refuse_requests()
        self._task_configs.close()
        await self._work.close()
        self._leadership.lost()
        await self._member.close()
        await parts.run(self._topic.store.close)
        await parts.run(self._statuses.close)
        await parts.run(parts.worker.stop)

    # -- the worker ----------------------------------------------------------------------------------------------

    async def health(self) -> WorkerHealth:
        """Return the worker's health."""
        standing = self._readiness.standing
        if self.failed.done():
            return WorkerHealth(HealthStatus.UNHEALTHY, f"This worker is out of its group: {self.failed.result()}")
        if standing is not Standing.STARTING and self._is_cut_off():
            return WorkerHealth(
                HealthStatus.UNHEALTHY,
                f"The coordinator of group {self._parts.config.group_id} has not been reached for "
                f"{self._member.coordinator_unknown_for:.0f} s: check the brokers",
            )
        if problem := self._problem:
            return WorkerHealth(HealthStatus.UNHEALTHY, problem)
        if self._leadership.membership is None:
            return WorkerHealth(HealthStatus.STARTING, f"The worker {standing.value}")
        return WorkerHealth(HealthStatus.HEALTHY, f"The worker {Standing.MEMBER.value}")

    @property
    def _problem(self) -> str | None:
        """Why a topic cannot be read or written, and the remedy. No request can be processed without the config topic."""
        if problem := self._topic.problem:
            return problem
        if (failure := self._statuses.fatal_failure) is not None:
            return (
                f"The status topic {self._parts.config.status_storage.name} cannot be read, and the states of connectors and tasks "
                f"are outdated: {failure}"
            )
        if problem := self._leadership.key_problem:
            return problem
        refusal = self._statuses.refusal
        return None if refusal is None else f"Statuses cannot be written: {refusal}"

    def mixed_group(self) -> MixedGroup:
        """Return the findings for the settings of the group."""
        mixed = self._view.mixed
        return MixedGroup(mixed.support, known=False) if self._leadership.membership is None else mixed

    async def kafka_cluster_id(self) -> str:
        """Return the id of the Kafka cluster. Tools request it first, and must not wait for brokers."""
        if self._readiness.standing is Standing.STARTING:
            raise ServiceUnavailableError(f"The worker {Standing.STARTING.value}: ask again soon")
        return self._cluster_id

    # -- notifications -------------------------------------------------------------------------------

    def _on_config(self, event: ConfigEvent, state: ClusterConfigState) -> None:
        del state
        if isinstance(event, LoggerLevelRecord):
            # A newer version of a worker may have written a level that is unknown here.
            with suppress(BadRequestError):
                self.loggers.set_level(event.logger, event.level)
        else:
            self._work.on_config(event)

    def _is_cut_off(self) -> bool:
        return self._member.coordinator_unknown_for > self._group.session_timeout_ms / 1000

    def _carry_out(self, command: HerderCommand) -> None:
        match command:
            case Rejoin():
                self._member.rejoin()
            case ConfigureTasks(connector):
                self._task_configs.request(connector)
            case EndWorker(error):
                if not self.failed.done():
                    self.failed.set_result(error)
