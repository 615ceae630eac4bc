"""What connectors, tasks and requests need of the herder that they belong to. Each herder has its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import Future
from typing import Any, ParamSpec, Protocol, TypeVar

from fencepost.config.connector_config import ExactlyOnceRequest
from fencepost.config.ids import ConnectorTaskId
from fencepost.config.worker_config import WorkerConfig
from fencepost.herder.core.active_topics import TopicStatuses
from fencepost.runtime.worker import Worker
from fencepost.storage.configs.codec import Config, RestartRequest, TargetState
from fencepost.storage.configs.state import ClusterConfigState

P = ParamSpec("P")
T = TypeVar("T")


class ConfigStore(Protocol):
    """Where the configurations of connectors are written. Its methods return at once; the futures hold what failed."""

    def put_connector(self, connector: str, config: Config, target_state: TargetState | None = None) -> Future[None]:
        """Write a connector's configuration; a new connector is STARTED if no target state is given."""

    def stop_connector(self, connector: str) -> Future[None]:
        """Write that a connector has no tasks and is STOPPED."""

    def remove_connector(self, connector: str) -> Future[None]:
        """Delete a connector."""

    def put_target_state(self, connector: str, state: TargetState) -> Future[None]:
        """Write what a connector is meant to do."""

    def put_restart_request(self, request: RestartRequest) -> Future[None]:
        """Ask for restarts of a connector and its tasks, wherever they run."""

    def put_logger_level(self, logger: str, level: str) -> Future[None]:
        """Give a logger of all workers a level."""

    def put_task_count(self, connector: str, tasks: int) -> Future[int | None]:
        """Write that a connector's former tasks are fenced, and so many may start.

        The future holds the record's offset, None where it is not known.
        """


class StatusStore(TopicStatuses, Protocol):
    """Where the states of connectors and tasks are kept."""

    def delete_connector(self, connector: str) -> None:
        """Forget a connector, and all that is known about its tasks and topics."""

    def delete_task(self, task: ConnectorTaskId) -> None:
        """Forget a task."""


class Leader(Protocol):
    """Who may write as the leader."""

    async def require(self) -> None:
        """Return if this worker leads. Raises NotLeaderError, and why it cannot be told."""

    async def write(self, write: Callable[[], Future[T]], *, check: Callable[[], None] = ...) -> T:
        """Write as the leader. `check` is called right before it and may raise."""


class HerderParts(Protocol):
    """The worker, its stores and its event loop. Only `run`'s functions are called on other threads."""

    @property
    def config(self) -> WorkerConfig:
        """The worker's configuration."""

    @property
    def worker(self) -> Worker:
        """What makes connectors and tasks."""

    @property
    def requested(self) -> Worker:
        """What checks the configurations of requests, by the limits that those are under."""

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The event loop that owns all state."""

    @property
    def configs(self) -> ConfigStore:
        """Where configurations are written."""

    @property
    def statuses(self) -> StatusStore:
        """What is known of connectors and tasks."""

    @property
    def state(self) -> ClusterConfigState:
        """What connectors there are, and with which tasks."""

    @property
    def worker_id(self) -> str:
        """How statuses name this worker, as host:port."""

    def worker_for(self, connector: str) -> Worker:
        """Return what makes a connector and its tasks, by the limits that its configuration is under."""

    def all_configs(self) -> list[Mapping[str, str | None]]:
        """Return the properties of the worker and of all connectors."""

    async def started(self) -> None:
        """Wait until the worker knows of connectors. Raises ServiceUnavailableError if that takes too long."""

    async def joined(self) -> None:
        """Wait until the worker can carry requests out. Raises ServiceUnavailableError if that takes too long."""

    async def run(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call what may block on a thread, and wait for it."""

    def on_loop(self, coroutine: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine on the event loop and wait for it, on any other thread. Raises what it raises."""

    async def read_config_topic(self) -> None:
        """Read what was committed to the config topic before this call. Raises what reading a topic raises."""

    def report(
        self, subject: str | ConnectorTaskId, state: str, *, error: Exception | None = None, version: str | None = None
    ) -> None:
        """Publish how a connector or a task is."""

    def task_count(self, connector: str) -> int | None:
        """Return with how many tasks a connector was last fenced for; None if it never was."""

    def fencing_is_due(self, connector: str) -> bool:
        """Whether tasks of the connector may not start before former ones are fenced."""

    def fenced(self, seconds: float, *, success: bool) -> None:
        """Take note of a round of fencing."""


def delivers_at_least_once(state: ClusterConfigState, connector: str) -> bool:
    """Whether the tasks of a connector are to deliver at least once, by its `exactly.once.support`."""
    support = (state.applied_config(connector) or {}).get("exactly.once.support") or ""
    return support.strip().lower() == ExactlyOnceRequest.DISABLED
