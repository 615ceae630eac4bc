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

from fencepost.api.errors import ConfigError, FencepostError
from fencepost.config.ids import ConnectorTaskId
from fencepost.config.worker_config import WorkerConfig, WorkerMode
from fencepost.herder.core.assignor import Unit
from fencepost.herder.core.mixed_group import MixedGroup
from fencepost.herder.core.transaction_info import TaskCommit, TaskTransactionInfo
from fencepost.herder.entities import (
    ConfigInfos,
    ConfigKeyInfo,
    ConnectorInfo,
    ConnectorOffset,
    ConnectorOffsetPage,
    ConnectorStateInfo,
    ConnectorStatus,
    HealthStatus,
    PluginInfo,
    PutConnectorConfig,
    TaskInfo,
    TaskState,
    WorkerHealth,
)
from fencepost.herder.errors import AlreadyExistsError, BadRequestError, NotFoundError, RequestTargetError
from fencepost.herder.interface import Connectors, Herder, Loggers, Offsets, PeerRequests, Plugins, Transactions
from fencepost.herder.peers.request_signing import SignedRequest
from fencepost.herder.requests.config_infos import validate_connector_config
from fencepost.herder.requests.logger_registry import LoggerRegistry
from fencepost.herder.requests.plugin_catalogue import PluginCatalogue
from fencepost.runtime.connector.validation import connector_class
from fencepost.runtime.worker import Worker
from fencepost.storage.configs.codec import TargetState
from fencepost.storage.offsets.codec import identity_of
from tests.support.model_observation import MODEL_WORKER, ModelObservation

SESSION_KEY = b"0123456789abcdef0123456789abcdef"
CATALOGUE = PluginCatalogue()
_SHOWN = {TargetState.STARTED: "RUNNING", TargetState.PAUSED: "PAUSED", TargetState.STOPPED: "STOPPED"}


def model_worker_config(**properties: str) -> WorkerConfig:
    """The configuration of a worker of a group; no broker is asked."""
    given = {
        "bootstrap.servers": "127.0.0.1:1",
        "group.id": "group",
        "exactly.once.source.support": "enabled",
        "offset.storage.topic": "offsets",
        "config.storage.topic": "configs",
        "status.storage.topic": "status",
        "fencepost.plugins.allowed.modules": "tests",
        "fencepost.files.allowed.paths": "/",
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
    """Does every request at once, in this process."""

    def __init__(self, config: WorkerConfig | None = None) -> None:
        self.worker = Worker(config or model_worker_config())
        self.worker_health = WorkerHealth(HealthStatus.HEALTHY, "The worker is ready")
        self.group = MixedGroup("enabled")
        self.session_key: bytes | None = SESSION_KEY
        self.bound = True
        self.known: dict[str, _Connector] = {}
        self.committed: dict[str, dict[str, ConnectorOffset]] = {}
        self.fenced: list[str] = []
        self.elsewhere: RequestTargetError | None = None
        """If set, the error for requests that another worker must carry out."""
        self.passed_on = 0
        self.refusal: FencepostError | None = None
        """If set, the error of a fencing round."""
        self.connectors: Connectors = ModelConnectors(self)
        self.offsets = _Offsets(self)
        self.transactions = _Transactions(self)
        self.plugins = _Plugins(self)
        self.loggers = _Loggers()
        self.observation = ModelObservation(self)
        self.peers = _Peers(self)

    async def health(self) -> WorkerHealth:
        return self.worker_health

    def mixed_group(self) -> MixedGroup:
        return self.group

    async def kafka_cluster_id(self) -> str:
        return "cluster-1"

    def check_here(self) -> None:
        if self.elsewhere is not None:
            self.passed_on += 1
            raise self.elsewhere

    def find(self, name: str) -> _Connector:
        if name not in self.known:
            raise NotFoundError(f"There is no connector {name}")
        return self.known[name]

    def stopped(self, name: str) -> _Connector:
        connector = self.find(name)
        if connector.target is not TargetState.STOPPED:
            raise BadRequestError(f"The connector {name} must be STOPPED: PUT /connectors/{name}/stop")
        return connector

    def run(self, name: str) -> None:
        connector = self.known[name]
        if connector.target is not TargetState.STARTED:
            return
        connector.tasks = 1
        path = connector.config.get("file", "")
        if Path(path).is_file() and not self.fails(name):
            size = Path(path).stat().st_size
            self.set_offset(name, ConnectorOffset({"filename": path}, {"position": size}))
            connector.topics = [connector.config["topic"]]

    def fails(self, name: str) -> bool:
        config = self.known[name].config
        return config["topic"] == config.get("offsets.storage.topic")

    def state_info(self, name: str, connector_state: str, task_state: str) -> ConnectorStateInfo:
        connector = self.find(name)
        shown = _SHOWN[connector.target]
        failed = shown == "RUNNING" and self.fails(name)
        task = TaskState(
            0, task_state or ("FAILED" if failed else shown), MODEL_WORKER, "why" if failed else None, "1.0"
        )
        state = ConnectorStatus(connector_state or shown, MODEL_WORKER, version="1.0")
        return ConnectorStateInfo(name, state, [task] * connector.tasks)

    def alter(self, name: str, given: ConnectorOffset, plugin: Any, config: Mapping[str, str]) -> None:
        try:
            plugin.alter_offsets(config, [(given.partition, given.offset)])
        except FencepostError as error:
            raise BadRequestError(str(error)) from error
        self.set_offset(name, given)

    def set_offset(self, name: str, given: ConnectorOffset) -> None:
        stored = self.committed.setdefault(name, {})
        key = json.dumps(given.partition, sort_keys=True)
        stored.pop(key, None)
        if given.offset is not None:
            stored[key] = given


class ModelConnectors(Connectors):
    def __init__(self, model: ModelHerder) -> None:
        self._model = model

    async def names(self) -> Sequence[str]:
        return list(self._model.known)

    async def info(self, name: str) -> ConnectorInfo:
        connector = self._model.find(name)
        return ConnectorInfo(name, connector.config, [ConnectorTaskId(name, n) for n in range(connector.tasks)])

    async def status(self, name: str) -> ConnectorStateInfo:
        return self._model.state_info(name, "", "")

    async def put(
        self, name: str, config: Mapping[str, str], target_state: TargetState | None = None, *, allow_replace: bool
    ) -> PutConnectorConfig:
        self._model.check_here()
        validation = self._model.worker.validate(config)
        validation.warn_of_unknown()
        if validation.errors:
            raise ConfigError(validation.error_message)
        if name in self._model.known:
            if not allow_replace:
                raise AlreadyExistsError(f"Connector {name} already exists")
            self._model.known[name].config = dict(config)
            return PutConnectorConfig(created=False, info=await self.info(name))
        self._model.known[name] = _Connector(dict(config), target_state or TargetState.STARTED)
        info = await self.info(name)
        self._model.run(name)
        return PutConnectorConfig(created=True, info=info)

    async def patch(self, name: str, patch: Mapping[str, str | None]) -> ConnectorInfo:
        merged = {**self._model.find(name).config, **patch}
        config = {key: value for key, value in merged.items() if value is not None}
        return (await self.put(name, config, allow_replace=True)).info

    async def delete(self, name: str) -> None:
        self._model.check_here()
        self._model.find(name)
        del self._model.known[name]

    async def pause(self, name: str) -> None:
        self._model.find(name).target = TargetState.PAUSED

    async def resume(self, name: str) -> None:
        self._model.find(name).target = TargetState.STARTED
        self._model.run(name)

    async def stop(self, name: str) -> None:
        self._model.find(name).target = TargetState.STOPPED
        self._model.known[name].tasks = 0

    async def restart(self, unit: Unit) -> None:
        if isinstance(unit, ConnectorTaskId):
            await self.task_status(unit)
        else:
            self._model.check_here()
            self._model.find(unit)

    async def restart_all(self, name: str, *, include_tasks: bool, only_failed: bool) -> ConnectorStateInfo:
        self._model.check_here()
        self._model.find(name)
        restarts_task = include_tasks and (self._model.fails(name) or not only_failed)
        return self._model.state_info(name, "" if only_failed else "RESTARTING", "RESTARTING" if restarts_task else "")

    async def task_configs(self, name: str) -> Sequence[TaskInfo]:
        connector = self._model.find(name)
        config = {**connector.config, "task.class": "fencepost.FileStreamSourceTask"}
        return [TaskInfo(ConnectorTaskId(name, number), config) for number in range(connector.tasks)]

    async def task_status(self, task: ConnectorTaskId) -> TaskState:
        tasks = self._model.state_info(task.connector, "", "").tasks
        if task.task >= len(tasks):
            raise NotFoundError(f"There is no task {task}")
        return tasks[task.task]

    async def active_topics(self, name: str) -> Sequence[str]:
        return self._model.known[name].topics if name in self._model.known else []

    async def reset_active_topics(self, name: str) -> None:
        if name in self._model.known:
            self._model.known[name].topics = []


class _Offsets(Offsets):
    def __init__(self, model: ModelHerder) -> None:
        self._model = model

    async def show(self, name: str) -> Sequence[ConnectorOffset]:
        self._model.find(name)
        return list(self._model.committed.get(name, {}).values())

    async def page(self, name: str, after: str, limit: int) -> ConnectorOffsetPage:
        self._model.find(name)
        found = {identity_of(offset.partition): offset for offset in self._model.committed.get(name, {}).values()}
        names = [identity for identity in sorted(found) if identity > after]
        following = names[limit - 1] if len(names) > limit else None
        return ConnectorOffsetPage([found[identity] for identity in names[:limit]], following)

    async def alter(self, name: str, offsets: Sequence[ConnectorOffset]) -> str:
        self._model.check_here()
        connector = self._model.stopped(name)
        plugin = connector_class(self._model.worker.config, connector.config)
        for given in offsets:
            # Partitions are dicts, which cannot be keys; a real herder passes all of them at once.
            self._model.alter(name, given, plugin(), connector.config)
        return f"The offsets of {name} were altered successfully"

    async def reset(self, name: str) -> str:
        self._model.check_here()
        self._model.stopped(name)
        self._model.committed.pop(name, None)
        return f"The offsets of {name} were reset successfully"


class _Transactions(Transactions):
    def __init__(self, model: ModelHerder) -> None:
        self._model = model

    async def everywhere(self, name: str, authorization: str | None) -> Sequence[TaskTransactionInfo]:  # noqa: ARG002 - the model has no other workers
        commit = TaskCommit(1_700_000_000_000, 3, [{"partition": {"p": "a"}, "offset": {"o": 3}}])
        return [
            TaskTransactionInfo(
                number,
                MODEL_WORKER,
                f"group-{name}-{number}",
                "IN_TRANSACTION",
                1000,
                7,
                1_700_000_001_000,
                2,
                99,
                commit,
            )
            for number in range(self._model.find(name).tasks)
        ]


class _Plugins(Plugins):
    def __init__(self, model: ModelHerder) -> None:
        self._model = model

    async def infos(self) -> Sequence[PluginInfo]:
        return CATALOGUE.infos()

    async def config(self, plugin: str, version: str | None = None) -> Sequence[ConfigKeyInfo]:
        return CATALOGUE.config(plugin, version)

    async def validate(self, config: Mapping[str, str]) -> ConfigInfos:
        return validate_connector_config(self._model.worker, config)


class _Loggers(LoggerRegistry, Loggers):  # the registry defines the other methods
    async def set_everywhere(self, namespace: str, level: str) -> None:
        self.set_level(namespace, level)


class _Peers(PeerRequests):
    def __init__(self, model: ModelHerder) -> None:
        self._model = model

    async def fence(self, name: str, request: SignedRequest) -> None:
        self._model.check_here()
        request.verify(self._model.session_key, now_ms=time.time_ns() // 1_000_000, bound=self._model.bound)
        self._model.find(name)
        if self._model.refusal is not None:
            raise self._model.refusal
        self._model.fenced.append(name)

    async def transactions(self, name: str, request: SignedRequest) -> Sequence[TaskTransactionInfo]:
        request.verify(self._model.session_key, now_ms=time.time_ns() // 1_000_000, bound=self._model.bound)
        return await self._model.transactions.everywhere(name, None)

    async def put_task_configs(self, name: str, configs: Sequence[Mapping[str, str]], request: SignedRequest) -> None:
        self._model.check_here()
        request.verify(self._model.session_key, now_ms=time.time_ns() // 1_000_000, bound=self._model.bound)
        self._model.find(name).tasks = len(configs)
