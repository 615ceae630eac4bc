"""The interface of a herder: the operations of Connect's REST API, and the types of their results.

The REST layer calls these methods on the worker's event loop and turns answers and errors into HTTP. It sets a time
limit on each call by cancelling it: a cancelled call may still take effect.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from fencepost.api.config_def import PropertyImportance, PropertyType, PropertyWidth
from fencepost.config.ids import ConnectorTaskId
from fencepost.herder.core.assignor import Unit
from fencepost.herder.core.mixed_group import MixedGroup
from fencepost.herder.core.observation import Observation
from fencepost.herder.core.transaction_info import TaskTransactionInfo
from fencepost.herder.peers.request_signing import SignedRequest
from fencepost.storage.configs.codec import TargetState


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
    """The result of writing a configuration: `created` if there was no connector of that name."""

    created: bool
    info: ConnectorInfo


@dataclass(frozen=True, slots=True)
class ConnectorStatus:
    """The state of a connector. `trace` is the failure of a FAILED one."""

    state: str
    worker_id: str
    trace: str | None = None
    version: str | None = None


@dataclass(frozen=True, slots=True)
class TaskState:
    """The state of a task. `trace` is the failure of a FAILED one."""

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
    """The committed offset of a source partition; in a request None removes it."""

    partition: Mapping[str, Any] | None
    offset: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class PluginInfo:
    """A plugin of the worker. `type` is Connect's name: source, converter, header_converter, transformation ..."""

    plugin_class: str
    type: str
    version: str


@dataclass(frozen=True, slots=True)
class ConfigKeyInfo:
    """The definition of a property. `default_value` is text, as a configuration would have it."""

    name: str
    type: PropertyType
    required: bool
    default_value: str | None
    importance: PropertyImportance
    documentation: str
    group: str | None
    width: PropertyWidth
    display_name: str
    dependents: Sequence[str] = ()
    order: int = -1


@dataclass(frozen=True, slots=True)
class ConfigValueInfo:
    """The result of checking a property. `value` is text, None if there is none or it has another type."""

    name: str
    value: str | None = None
    recommended_values: Sequence[str] = ()
    errors: Sequence[str] = ()
    visible: bool = True


@dataclass(frozen=True, slots=True)
class ConfigInfo:
    """A property: its definition, None if nothing defines it, and the result of checking it."""

    definition: ConfigKeyInfo | None
    value: ConfigValueInfo


@dataclass(frozen=True, slots=True)
class ConfigInfos:
    """The result of validating a connector's configuration. `error_count` counts properties that have errors.

    `unknown` are undefined properties, which are no errors, each with the most similar defined one, if any.
    """

    name: str
    error_count: int
    groups: Sequence[str]
    configs: Sequence[ConfigInfo] = field(repr=False)
    unknown: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LoggerLevel:
    """A logger's effective level, and when a request last set it, in milliseconds since the epoch."""

    level: str
    last_modified: int | None


class Connectors(ABC):
    """Creates, shows, changes and deletes connectors, and starts and stops them and their tasks."""

    @abstractmethod
    async def names(self) -> Sequence[str]:
        """Return the names of all connectors."""

    @abstractmethod
    async def info(self, name: str) -> ConnectorInfo:
        """Return a connector's configuration and tasks."""

    @abstractmethod
    async def status(self, name: str) -> ConnectorStateInfo:
        """Return the states of a connector and its tasks."""

    @abstractmethod
    async def put(
        self, name: str, config: Mapping[str, str], target_state: TargetState | None = None, *, allow_replace: bool
    ) -> PutConnectorConfig:
        """Validate and write a configuration, whose property `name` is `name`.

        `target_state` is for a connector that is created. Raises ConfigError with all that is wrong, and
        AlreadyExistsError unless `allow_replace`.
        """

    @abstractmethod
    async def patch(self, name: str, patch: Mapping[str, str | None]) -> ConnectorInfo:
        """Change some properties of a configuration; None removes one.

        Raises ConfigError with all that is wrong.
        """

    @abstractmethod
    async def delete(self, name: str) -> None:
        """Delete a connector."""

    @abstractmethod
    async def pause(self, name: str) -> None:
        """Pause a connector and its tasks, now or soon."""

    @abstractmethod
    async def resume(self, name: str) -> None:
        """Resume a paused or stopped connector, now or soon."""

    @abstractmethod
    async def stop(self, name: str) -> None:
        """Stop a connector and remove its tasks; its configuration and offsets stay."""

    @abstractmethod
    async def restart(self, unit: Unit) -> None:
        """Restart a connector alone, or a task, on the worker that runs it.

        Raises NotAssignedError if that is another one.
        """

    @abstractmethod
    async def restart_all(self, name: str, *, include_tasks: bool, only_failed: bool) -> ConnectorStateInfo:
        """Restart the requested part of a connector and its tasks; return the states, RESTARTING for that part."""

    @abstractmethod
    async def task_configs(self, name: str) -> Sequence[TaskInfo]:
        """Return the configurations of a connector's tasks, by their numbers."""

    @abstractmethod
    async def task_status(self, task: ConnectorTaskId) -> TaskState:
        """Return a task's state."""

    @abstractmethod
    async def active_topics(self, name: str) -> Sequence[str]:
        """Return the topics that a connector has written to, none if there is no such connector.

        Raises ForbiddenError if topics are not tracked.
        """

    @abstractmethod
    async def reset_active_topics(self, name: str) -> None:
        """Reset the topics that a connector has written to. An unknown connector has no topics.

        Raises ForbiddenError if topics are not tracked, or may not be forgotten.
        """


@dataclass(frozen=True, slots=True)
class ConnectorOffsetPage:
    """Some of a connector's offsets, and the place after them, None at the end."""

    offsets: Sequence[ConnectorOffset]
    next: str | None


class Offsets(ABC):
    """Shows and changes the source offsets of connectors (KIP-875)."""

    @abstractmethod
    async def show(self, name: str) -> Sequence[ConnectorOffset]:
        """Return a connector's committed offsets."""

    @abstractmethod
    async def page(self, name: str, after: str, limit: int) -> ConnectorOffsetPage:
        """Return at most `limit` of a connector's committed offsets, those after a place that a page named; "" is the first."""

    @abstractmethod
    async def alter(self, name: str, offsets: Sequence[ConnectorOffset]) -> str:
        """Set offsets of a stopped connector; of a partition that is given twice the last one counts.

        Returns a message that contains "altered successfully". Raises BadRequestError unless the connector is stopped,
        and for offsets that the connector refuses.
        """

    @abstractmethod
    async def reset(self, name: str) -> str:
        """Remove all offsets of a stopped connector. Returns a message that contains "reset successfully".

        Raises as `alter`.
        """


class Transactions(ABC):
    """Shows the transactions of tasks."""

    @abstractmethod
    async def everywhere(self, name: str, authorization: str | None) -> Sequence[TaskTransactionInfo]:
        """Return the open transaction and the last commit of each task of a connector, by number.

        `authorization` has the user's credentials (the HTTP header), for requests to other workers.
        """


class Plugins(ABC):
    """Lists and describes plugins, and validates configurations."""

    @abstractmethod
    async def infos(self) -> Sequence[PluginInfo]:
        """Return all plugins, of every type."""

    @abstractmethod
    async def config(self, plugin: str, version: str | None = None) -> Sequence[ConfigKeyInfo]:
        """Return the properties of a plugin, given by class or alias.

        Raises NotFoundError, and BadRequestError for a version that the worker does not have.
        """

    @abstractmethod
    async def validate(self, config: Mapping[str, str]) -> ConfigInfos:
        """Check a connector's configuration. Raises ConfigError if it names no connector that could check it."""


class Loggers(ABC):
    """Shows and sets the levels of loggers (KIP-495, KIP-976)."""

    @abstractmethod
    def levels(self) -> Mapping[str, LoggerLevel]:
        """Return the loggers whose levels are set, by name."""

    @abstractmethod
    def level(self, name: str) -> LoggerLevel:
        """Return a logger's level. Raises NotFoundError for an unused logger."""

    @abstractmethod
    def set_level(self, namespace: str, level: str) -> Sequence[str]:
        """Set the level of a logger and those below it on this worker; return the names of those that it changed.

        Raises BadRequestError for an unknown level.
        """

    @abstractmethod
    async def set_everywhere(self, namespace: str, level: str) -> None:
        """Set the level of a logger and those below it on all workers, now or soon."""


class PeerRequests(ABC):
    """Requests of other workers (KIP-507)."""

    @abstractmethod
    async def fence(self, name: str, request: SignedRequest) -> None:
        """Fence former generations of a connector's tasks (KIP-618).

        The signature is checked first, by `SignedRequest.verify`: BadRequestError, ServiceUnavailableError,
        ForbiddenError. Raises ConflictError for newer task configurations.
        """

    @abstractmethod
    async def transactions(self, name: str, request: SignedRequest) -> Sequence[TaskTransactionInfo]:
        """Return the transactions of the tasks that run on this worker, empty if it runs none.

        Checks the request as for fencing.
        """

    @abstractmethod
    async def put_task_configs(self, name: str, configs: Sequence[Mapping[str, str]], request: SignedRequest) -> None:
        """Store task configurations from the worker that runs the connector. Raises as for fencing."""


class Herder(ABC):
    """Processes requests with its parts.

    Any method may raise ServiceUnavailableError while the worker cannot answer, and RequestFailedError for failures
    that are not the request's. Methods that change something may raise RebalanceNeededError, and NotLeaderError where
    the leader alone may do it. Methods that take a connector's name raise NotFoundError if there is none, except where
    they say otherwise.
    """

    connectors: Connectors
    offsets: Offsets
    transactions: Transactions
    plugins: Plugins
    loggers: Loggers
    observation: Observation
    peers: PeerRequests | None
    """None for a worker without a group."""

    @abstractmethod
    async def health(self) -> WorkerHealth:
        """Return the worker's health. Never raises, and returns at once."""

    @abstractmethod
    def mixed_group(self) -> MixedGroup:
        """Return this worker's delivery setting, and the members of its group with a conflicting one."""

    @abstractmethod
    async def kafka_cluster_id(self) -> str:
        """Return the id of the Kafka cluster that holds the worker's topics. Never waits for the brokers."""
