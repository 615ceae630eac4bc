"""The interface of a herder: the operations of Connect's REST API, whose results are in `entities`.

The REST layer calls these methods on the worker's event loop and turns answers and errors into HTTP. It sets a time
limit on each call by cancelling it: a cancelled call may still take effect.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

from fencepost.config.ids import ConnectorTaskId
from fencepost.herder.core.assignor import Unit
from fencepost.herder.core.mixed_group import MixedGroup
from fencepost.herder.core.observation import Observation
from fencepost.herder.core.transaction_info import TaskTransactionInfo
from fencepost.herder.entities import (
    ConfigInfos,
    ConfigKeyInfo,
    ConnectorInfo,
    ConnectorOffset,
    ConnectorOffsetPage,
    ConnectorStateInfo,
    LoggerLevel,
    PluginInfo,
    PutConnectorConfig,
    TaskInfo,
    TaskState,
    WorkerHealth,
)
from fencepost.herder.peers.request_signing import SignedRequest
from fencepost.storage.configs.codec import TargetState


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

        `target_state` applies only to a connector that does not exist yet. Raises ConfigError with all problems, and
        AlreadyExistsError unless `allow_replace`.
        """

    @abstractmethod
    async def patch(self, name: str, patch: Mapping[str, str | None]) -> ConnectorInfo:
        """Change some properties of a configuration; None removes one.

        Raises ConfigError with all problems.
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

        Raises NotAssignedError if another worker runs the connector or task.
        """

    @abstractmethod
    async def restart_all(self, name: str, *, include_tasks: bool, only_failed: bool) -> ConnectorStateInfo:
        """Restart the requested part of a connector and its tasks.

        Return the states of the connector and its tasks: RESTARTING for each one that restarts.
        """

    @abstractmethod
    async def task_configs(self, name: str) -> Sequence[TaskInfo]:
        """Return the configurations of a connector's tasks, by their numbers."""

    @abstractmethod
    async def task_status(self, task: ConnectorTaskId) -> TaskState:
        """Return a task's state."""

    @abstractmethod
    async def active_topics(self, name: str) -> Sequence[str]:
        """Return the topics that a connector has written to; none for an unknown connector.

        Raises ForbiddenError if topics are not tracked.
        """

    @abstractmethod
    async def reset_active_topics(self, name: str) -> None:
        """Reset the topics that a connector has written to. An unknown connector has no topics.

        Raises ForbiddenError if topics are not tracked, or may not be reset.
        """


class Offsets(ABC):
    """Shows and changes the source offsets of connectors (KIP-875)."""

    @abstractmethod
    async def show(self, name: str) -> Sequence[ConnectorOffset]:
        """Return a connector's committed offsets."""

    @abstractmethod
    async def page(self, name: str, after: str, limit: int) -> ConnectorOffsetPage:
        """Return at most `limit` of a connector's committed offsets.

        `after` is the `next` of the previous page, or the empty text for the first page.
        """

    @abstractmethod
    async def alter(self, name: str, offsets: Sequence[ConnectorOffset]) -> str:
        """Set offsets of a stopped connector. If a partition is given twice, its last offset counts.

        Returns a message that contains "altered successfully". Raises BadRequestError unless the connector is stopped,
        and for offsets that the connector refuses.
        """

    @abstractmethod
    async def reset(self, name: str) -> str:
        """Remove all offsets of a stopped connector. Returns a message that contains "reset successfully".

        Raises the errors of `alter`.
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
        """Check a connector's configuration. Raises ConfigError if the worker does not have its connector class."""


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
        """Set the level of a logger and those below it on this worker. Return the names of the loggers that changed.

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

        Checks the request as `fence` does.
        """

    @abstractmethod
    async def put_task_configs(self, name: str, configs: Sequence[Mapping[str, str]], request: SignedRequest) -> None:
        """Store task configurations from the worker that runs the connector. Checks the request as `fence` does."""


class Herder(ABC):
    """Processes requests. Each of its parts is responsible for some kinds of requests.

    Any method may raise ServiceUnavailableError while the worker cannot answer, and RequestFailedError for failures
    that the request did not cause. Methods that change something may raise RebalanceNeededError, and NotLeaderError if
    only the leader may process the request. Methods that take a connector's name raise NotFoundError for an unknown
    name, except where they say otherwise.
    """

    connectors: Connectors
    offsets: Offsets
    transactions: Transactions
    plugins: Plugins
    loggers: Loggers
    observation: Observation
    peers: PeerRequests | None
    """Requests from other workers; None if the worker has no group."""

    @abstractmethod
    async def health(self) -> WorkerHealth:
        """Return the worker's health. Never raises, and returns at once."""

    @abstractmethod
    def mixed_group(self) -> MixedGroup:
        """Return this worker's delivery setting, and the members of its group with a conflicting one."""

    @abstractmethod
    async def kafka_cluster_id(self) -> str:
        """Return the id of the Kafka cluster that holds the worker's topics. Never waits for the brokers."""
