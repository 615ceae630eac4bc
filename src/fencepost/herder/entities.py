"""A herder's answers to requests. Entities of Connect's REST API have the same names here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from fencepost.api.config_def import PropertyImportance, PropertyType, PropertyWidth
from fencepost.config.ids import ConnectorTaskId


class ConnectorType(StrEnum):
    """The type of a connector; `unknown` if its class cannot be loaded on the answering worker."""

    SOURCE = "source"
    UNKNOWN = "unknown"


class HealthStatus(StrEnum):
    """Whether a worker can process requests."""

    STARTING = "starting"
    HEALTHY = "healthy"
    UNHEALTHY = "unhealthy"


@dataclass(frozen=True, slots=True)
class WorkerHealth:
    """A worker's health, with the reason as text."""

    status: HealthStatus
    message: str


@dataclass(frozen=True, slots=True)
class ConnectorInfo:
    """A connector's configuration and tasks."""

    name: str
    config: Mapping[str, str] = field(repr=False)
    tasks: Sequence[ConnectorTaskId]
    type: ConnectorType = ConnectorType.SOURCE


@dataclass(frozen=True, slots=True)
class PutConnectorConfig:
    """The result of writing a configuration. `created` means that there was no connector with this name."""

    created: bool
    info: ConnectorInfo


@dataclass(frozen=True, slots=True)
class ConnectorStatus:
    """The state of a connector. If it is FAILED, `trace` is the failure."""

    state: str
    worker_id: str
    trace: str | None = None
    version: str | None = None


@dataclass(frozen=True, slots=True)
class TaskState:
    """The state of a task. If it is FAILED, `trace` is the failure."""

    id: int
    state: str
    worker_id: str
    trace: str | None = None
    version: str | None = None


@dataclass(frozen=True, slots=True)
class ConnectorStateInfo:
    """The states of a connector and its tasks."""

    name: str
    connector: ConnectorStatus
    tasks: Sequence[TaskState]
    type: ConnectorType = ConnectorType.SOURCE


@dataclass(frozen=True, slots=True)
class TaskInfo:
    """A task's configuration."""

    id: ConnectorTaskId
    config: Mapping[str, str] = field(repr=False)


@dataclass(frozen=True, slots=True)
class ConnectorOffset:
    """The committed offset of a source partition. In a request, None removes the offset."""

    partition: Mapping[str, Any] | None
    offset: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class ConnectorOffsetPage:
    """Some of a connector's offsets. `next` requests the next page; it is None on the last page."""

    offsets: Sequence[ConnectorOffset]
    next: str | None


@dataclass(frozen=True, slots=True)
class PluginInfo:
    """A plugin of the worker. `type` is Connect's name: source, converter, header_converter, transformation ..."""

    plugin_class: str
    type: str
    version: str


@dataclass(frozen=True, slots=True)
class ConfigKeyInfo:
    """The definition of a property. `default_value` is text, in the form of a configuration."""

    name: str
    type: PropertyType
    required: bool
    default_value: str | None
    importance: PropertyImportance
    documentation: str
    group: str | None
    width: PropertyWidth
    display_name: str
    dependents: Sequence[str]
    order: int


@dataclass(frozen=True, slots=True)
class ConfigValueInfo:
    """The result of checking a property. `value` is text; None if there is no value or its type is wrong."""

    name: str
    value: str | None
    recommended_values: Sequence[str]
    errors: Sequence[str]
    visible: bool


@dataclass(frozen=True, slots=True)
class ConfigInfo:
    """A property: its definition (None if it is not defined), and the result of checking it."""

    definition: ConfigKeyInfo | None
    value: ConfigValueInfo


@dataclass(frozen=True, slots=True)
class ConfigInfos:
    """The result of validating a connector's configuration. `error_count` is the number of messages, as in Connect.

    `unknown` are the undefined properties, each with the most similar defined property, if any. They are not errors.
    """

    name: str
    error_count: int
    groups: Sequence[str]
    configs: Sequence[ConfigInfo] = field(repr=False)
    unknown: Mapping[str, str | None]


@dataclass(frozen=True, slots=True)
class LoggerLevel:
    """A logger's effective level, and when a request last set it, in milliseconds since the epoch."""

    level: str
    last_modified: int | None
