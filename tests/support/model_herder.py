"""A herder that keeps everything in dicts: what the REST API should show, in its simplest form.

It has the whole interface, validates for real, and runs nothing: a connector that should run is RUNNING, with one task
that has read its whole file.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fencepost.api.errors import FencepostError
from fencepost.config.ids import ConnectorTaskId
from fencepost.config.worker_config import WorkerConfig, WorkerMode
from fencepost.herder.core.mixed_group import MixedGroup
from fencepost.herder.core.task_transactions import TaskCommit, TaskTransactionInfo
from fencepost.herder.errors import AlreadyExistsError, BadRequestError, NotFoundError, RequestTargetError
from fencepost.herder.interface import (
    ConfigInfos,
    ConfigKeyInfo,
    ConnectorInfo,
    ConnectorOffset,
    ConnectorStateInfo,
    ConnectorStatus,
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
from fencepost.herder.requests.config_infos import error_message
from fencepost.herder.requests.logger_registry import LoggerRegistry
from fencepost.herder.requests.plugin_catalogue import PluginCatalogue
from fencepost.herder.requests.validation import validate_connector_config
from fencepost.runtime.connector.validation import connector_class
from fencepost.runtime.worker import Worker
from fencepost.storage.configs.codec import TargetState

SESSION_KEY = b"0123456789abcdef0123456789abcdef"
CATALOGUE = PluginCatalogue()
_WORKER = "127.0.0.1:8083"
_SHOWN = {TargetState.STARTED: "RUNNING", TargetState.PAUSED: "PAUSED", TargetState.STOPPED: "STOPPED"}


def model_worker_config(**properties: str) -> WorkerConfig:
    """The configuration of a worker of a group, whose brokers nobody asks."""
    given = {
        "bootstrap.servers": "127.0.0.1:1",
        "group.id": "group",
        "exactly.once.source.support": "enabled",
        "offset.storage.topic": "offsets",
        "config.storage.topic": "configs",
        "status.storage.topic": "status",
        "fencepost.plugins.allowed.modules": "tests",
        "key.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        **{name.replace("_", "."): value for name, value in properties.items()},
    }
    return WorkerConfig.from_properties(given, where="worker.properties", mode=WorkerMode.DISTRIBUTED)


@dataclass
class _Connector:
    config: dict[str, str]
    target: TargetState
    tasks: int = 0
    topics: list[str] = field(default_factory=list)


class ModelHerder(Herder):
    """Everything happens at once, in this process."""

    def __init__(self, config: WorkerConfig | None = None) -> None:
        self.worker = Worker(config or model_worker_config())
        self.worker_health = WorkerHealth(HealthStatus.HEALTHY, "The worker is ready")
        self.group = MixedGroup("enabled")
        self.session_key: bytes | None = SESSION_KEY
        self.bound = True
        self.known: dict[str, _Connector] = {}
        self.offsets: dict[str, dict[str, ConnectorOffset]] = {}
        self.fenced: list[str] = []
        self.elsewhere: RequestTargetError | None = None
        """Set where another worker must carry out what changes something."""
        self.passed_on = 0
        self.refusal: FencepostError | None = None
        """What a round of fencing fails with."""
        self.loggers = LoggerRegistry()

    async def health(self) -> WorkerHealth:
        return self.worker_health

    def mixed_group(self) -> MixedGroup:
        return self.group

    async def kafka_cluster_id(self) -> str:
        return "cluster-1"

    async def connectors(self) -> Sequence[str]:
        return list(self.known)

    async def connector_info(self, name: str) -> ConnectorInfo:
        connector = self._known(name)
        return ConnectorInfo(name, connector.config, [ConnectorTaskId(name, n) for n in range(connector.tasks)])

    async def connector_status(self, name: str) -> ConnectorStateInfo:
        return self._status(name, "", "")

    async def put_connector_config(
        self, name: str, config: Mapping[str, str], target_state: TargetState | None = None, *, allow_replace: bool
    ) -> PutConnectorConfig:
        self._check_here()
        infos = await self.validate_connector_config(config)
        if infos.error_count:
            raise BadRequestError(error_message(infos))
        if name in self.known:
            if not allow_replace:
                raise AlreadyExistsError(f"Connector {name} already exists")
            self.known[name].config = dict(config)
            return PutConnectorConfig(created=False, info=await self.connector_info(name))
        self.known[name] = _Connector(dict(config), target_state or TargetState.STARTED)
        info = await self.connector_info(name)
        self._run(name)
        return PutConnectorConfig(created=True, info=info)

    async def patch_connector_config(self, name: str, patch: Mapping[str, str | None]) -> ConnectorInfo:
        merged = {**self._known(name).config, **patch}
        config = {key: value for key, value in merged.items() if value is not None}
        return (await self.put_connector_config(name, config, allow_replace=True)).info

    async def delete_connector_config(self, name: str) -> None:
        self._check_here()
        self._known(name)
        del self.known[name]

    async def pause_connector(self, name: str) -> None:
        self._known(name).target = TargetState.PAUSED

    async def resume_connector(self, name: str) -> None:
        self._known(name).target = TargetState.STARTED
        self._run(name)

    async def stop_connector(self, name: str) -> None:
        self._known(name).target = TargetState.STOPPED
        self.known[name].tasks = 0

    async def restart_connector(self, name: str) -> None:
        self._check_here()
        self._known(name)

    async def restart_connector_and_tasks(
        self, name: str, *, include_tasks: bool, only_failed: bool
    ) -> ConnectorStateInfo:
        self._check_here()
        self._known(name)
        restarts_task = include_tasks and (self._fails(name) or not only_failed)
        return self._status(name, "" if only_failed else "RESTARTING", "RESTARTING" if restarts_task else "")

    async def task_configs(self, name: str) -> Sequence[TaskInfo]:
        connector = self._known(name)
        config = {**connector.config, "task.class": "fencepost.FileStreamSourceTask"}
        return [TaskInfo(ConnectorTaskId(name, number), config) for number in range(connector.tasks)]

    async def task_status(self, task: ConnectorTaskId) -> TaskState:
        tasks = self._status(task.connector, "", "").tasks
        if task.task >= len(tasks):
            raise NotFoundError(f"There is no task {task}")
        return tasks[task.task]

    async def restart_task(self, task: ConnectorTaskId) -> None:
        await self.task_status(task)

    async def connector_active_topics(self, name: str) -> Sequence[str]:
        return self.known[name].topics if name in self.known else []

    async def reset_connector_active_topics(self, name: str) -> None:
        if name in self.known:
            self.known[name].topics = []

    async def connector_offsets(self, name: str) -> Sequence[ConnectorOffset]:
        self._known(name)
        return list(self.offsets.get(name, {}).values())

    async def alter_connector_offsets(self, name: str, offsets: Sequence[ConnectorOffset]) -> str:
        self._check_here()
        connector = self._stopped(name)
        plugin = connector_class(self.worker.config, connector.config)
        for given in offsets:
            # Partitions are no keys in Python; a real herder hands over all of them at once.
            self._alter(name, given, plugin(), connector.config)
        return f"The offsets of {name} were altered successfully"

    async def reset_connector_offsets(self, name: str) -> str:
        self._check_here()
        self._stopped(name)
        self.offsets.pop(name, None)
        return f"The offsets of {name} were reset successfully"

    async def connector_transactions(self, name: str, authorization: str | None) -> Sequence[TaskTransactionInfo]:  # noqa: ARG002 - the model has no other workers
        commit = TaskCommit(1_700_000_000_000, 3, [{"partition": {"p": "a"}, "offset": {"o": 3}}])
        return [
            TaskTransactionInfo(
                number, _WORKER, f"group-{name}-{number}", "IN_TRANSACTION", 1000, 7, 1_700_000_001_000, 2, 99, commit
            )
            for number in range(self._known(name).tasks)
        ]

    async def connector_plugins(self) -> Sequence[PluginInfo]:
        return CATALOGUE.infos()

    async def connector_plugin_config(self, plugin: str, version: str | None = None) -> Sequence[ConfigKeyInfo]:
        return CATALOGUE.config(plugin, version)

    async def validate_connector_config(self, config: Mapping[str, str]) -> ConfigInfos:
        return validate_connector_config(self.worker, config)

    async def all_logger_levels(self) -> Mapping[str, LoggerLevel]:
        return self.loggers.levels()

    async def logger_level(self, name: str) -> LoggerLevel:
        return self.loggers.level(name)

    async def set_worker_logger_level(self, namespace: str, level: str) -> Sequence[str]:
        return self.loggers.set_level(namespace, level)

    async def set_cluster_logger_level(self, namespace: str, level: str) -> None:
        self.loggers.set_level(namespace, level)

    async def fence_zombie_source_tasks(self, name: str, request: SignedRequest) -> None:
        self._check_here()
        request.verify(self.session_key, now_ms=time.time_ns() // 1_000_000, bound=self.bound)
        self._known(name)
        if self.refusal is not None:
            raise self.refusal
        self.fenced.append(name)

    async def worker_transactions(self, name: str, request: SignedRequest) -> Sequence[TaskTransactionInfo]:
        request.verify(self.session_key, now_ms=time.time_ns() // 1_000_000, bound=self.bound)
        return await self.connector_transactions(name, None)

    async def put_task_configs(self, name: str, configs: Sequence[Mapping[str, str]], request: SignedRequest) -> None:
        self._check_here()
        request.verify(self.session_key, now_ms=time.time_ns() // 1_000_000, bound=self.bound)
        self._known(name).tasks = len(configs)

    def _check_here(self) -> None:
        if self.elsewhere is not None:
            self.passed_on += 1
            raise self.elsewhere

    def _known(self, name: str) -> _Connector:
        if name not in self.known:
            raise NotFoundError(f"There is no connector {name}")
        return self.known[name]

    def _stopped(self, name: str) -> _Connector:
        connector = self._known(name)
        if connector.target is not TargetState.STOPPED:
            raise BadRequestError(f"The connector {name} must be STOPPED: PUT /connectors/{name}/stop")
        return connector

    def _run(self, name: str) -> None:
        connector = self.known[name]
        if connector.target is not TargetState.STARTED:
            return
        connector.tasks = 1
        path = connector.config.get("file", "")
        if Path(path).is_file() and not self._fails(name):
            size = Path(path).stat().st_size
            self._set(name, ConnectorOffset({"filename": path}, {"position": size}))
            connector.topics = [connector.config["topic"]]

    def _fails(self, name: str) -> bool:
        config = self.known[name].config
        return config["topic"] == config.get("offsets.storage.topic")

    def _status(self, name: str, connector_state: str, task_state: str) -> ConnectorStateInfo:
        connector = self._known(name)
        shown = _SHOWN[connector.target]
        failed = shown == "RUNNING" and self._fails(name)
        task = TaskState(0, task_state or ("FAILED" if failed else shown), _WORKER, "why" if failed else None, "1.0")
        state = ConnectorStatus(connector_state or shown, _WORKER, version="1.0")
        return ConnectorStateInfo(name, state, [task] * connector.tasks)

    def _alter(self, name: str, given: ConnectorOffset, plugin: Any, config: Mapping[str, str]) -> None:
        try:
            plugin.alter_offsets(config, [(given.partition, given.offset)])
        except FencepostError as error:
            raise BadRequestError(str(error)) from error
        self._set(name, given)

    def _set(self, name: str, given: ConnectorOffset) -> None:
        stored = self.offsets.setdefault(name, {})
        key = json.dumps(given.partition, sort_keys=True)
        stored.pop(key, None)
        if given.offset is not None:
            stored[key] = given
