"""The JSON bodies of answers, under Connect's names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fencepost.config.ids import ConnectorTaskId
from fencepost.herder.interface import (
    ConfigInfo,
    ConfigInfos,
    ConfigKeyInfo,
    ConnectorInfo,
    ConnectorOffset,
    ConnectorStateInfo,
    ConnectorStatus,
    LoggerLevel,
    PluginInfo,
    TaskInfo,
    TaskState,
    WorkerHealth,
)

Json = dict[str, Any]


def connector(info: ConnectorInfo) -> Json:
    """A connector's configuration and tasks."""
    return {
        "name": info.name,
        "config": dict(info.config),
        "tasks": [task_id(task) for task in info.tasks],
        "type": info.type,
    }


def connector_status(info: ConnectorStateInfo) -> Json:
    """The states of a connector and its tasks."""
    return {
        "name": info.name,
        "connector": _state(info.connector),
        "tasks": [task_status(task) for task in info.tasks],
        "type": info.type,
    }


def task_id(task: ConnectorTaskId) -> Json:
    """The id of a task."""
    return {"connector": task.connector, "task": task.task}


def task(info: TaskInfo) -> Json:
    """A task's configuration."""
    return {"id": task_id(info.id), "config": dict(info.config)}


def task_status(info: TaskState) -> Json:
    """A task's state."""
    return {"id": info.id, **_state(info)}


def _state(info: ConnectorStatus | TaskState) -> Json:
    body: Json = {"state": info.state, "worker_id": info.worker_id}
    if info.trace:
        body["trace"] = info.trace
    if info.version is not None:
        body["version"] = info.version
    return body


def offset(info: ConnectorOffset) -> Json:
    """The offset of a source partition."""
    return {"partition": _fields(info.partition), "offset": _fields(info.offset)}


def _fields(fields: Mapping[str, Any] | None) -> Json | None:
    return None if fields is None else dict(fields)


def plugin(info: PluginInfo) -> Json:
    """A plugin of the worker."""
    return {"class": info.plugin_class, "type": info.type, "version": info.version}


def config_key(info: ConfigKeyInfo) -> Json:
    """The definition of a property."""
    return {
        "name": info.name,
        "type": info.type,
        "required": info.required,
        "default_value": info.default_value,
        "importance": info.importance,
        "documentation": info.documentation,
        "group": info.group,
        "width": info.width,
        "display_name": info.display_name,
        "dependents": list(info.dependents),
        "order": info.order,
    }


def config_infos(infos: ConfigInfos) -> Json:
    """The result of validating a configuration. Connect's has no `unknown`: it is there if it says something."""
    body = {
        "name": infos.name,
        "error_count": infos.error_count,
        "groups": list(infos.groups),
        "configs": [_config_info(info) for info in infos.configs],
    }
    return {**body, "unknown": dict(infos.unknown)} if infos.unknown else body


def _config_info(info: ConfigInfo) -> Json:
    value = info.value
    return {
        "definition": None if info.definition is None else config_key(info.definition),
        "value": {
            "name": value.name,
            "value": value.value,
            "recommended_values": list(value.recommended_values),
            "errors": list(value.errors),
            "visible": value.visible,
        },
    }


def logger_level(info: LoggerLevel) -> Json:
    """A logger's level."""
    return {"level": info.level, "last_modified": info.last_modified}


def logger_levels(levels: Mapping[str, LoggerLevel]) -> Json:
    """The levels of loggers by name."""
    return {name: logger_level(level) for name, level in sorted(levels.items())}


def health(info: WorkerHealth) -> Json:
    """A worker's health."""
    return {"status": info.status, "message": info.message}


def error(status: int, message: str) -> Json:
    """The body of every answer with a status of at least 400."""
    return {"error_code": status, "message": message}
