"""The parts of a herder that connectors, tasks and requests use. Each herder has its own implementation."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager
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
    """Stores the configurations of connectors. Its methods return at once; errors are in the returned futures."""

    def put_connector(self, connector: str, config: Config, target_state: TargetState | None = None) -> Future[None]:
        """Write a connector's configuration; a new connector is STARTED if no target state is given."""

    def stop_connector(self, connector: str) -> Future[None]:
        """Write that a connector has no tasks and is STOPPED."""

    def remove_connector(self, connector: str) -> Future[None]:
        """Delete a connector."""

    def put_target_state(self, connector: str, state: TargetState) -> Future[None]:
        """Write a connector's target state."""

    def put_restart_request(self, request: RestartRequest) -> Future[None]:
        """Request restarts of a connector and its tasks on all workers."""

    def put_logger_level(self, logger: str, level: str) -> Future[None]:
        """Set the level of a logger on all workers."""


class StatusStore(TopicStatuses, Protocol):
    """Stores the states of connectors and tasks."""

    def delete_connector(self, connector: str) -> None:
        """Remove a connector's status, and the statuses of its tasks and topics."""

    def delete_task(self, task: ConnectorTaskId) -> None:
        """Remove a task's status."""


class Leader(Protocol):
    """Controls writes as the leader."""

    async def require(self) -> None:
        """Return if this worker leads. Raises NotLeaderError, or the reason why the leader is unknown."""

    async def write(self, write: Callable[[], Future[T]], *, check: Callable[[], None] = ...) -> T:
        """Write as the leader. `check` is called right before the write, and may raise."""


class HerderParts(Protocol):
    """The worker, its stores and its event loop.

    Only functions that are passed to `run` are called on other threads.
    """

    @property
    def config(self) -> WorkerConfig:
        """The worker's configuration."""

    @property
    def worker(self) -> Worker:
        """The worker, which creates connectors and tasks."""

    @property
    def requested(self) -> Worker:
        """The worker that validates configurations from requests, with the limits that apply to them."""

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The event loop that owns all state."""

    @property
    def configs(self) -> ConfigStore:
        """The store of configurations."""

    @property
    def statuses(self) -> StatusStore:
        """The store of statuses."""

    @property
    def state(self) -> ClusterConfigState:
        """The current connectors and their tasks."""

    @property
    def worker_id(self) -> str:
        """This worker's name in statuses, as host:port."""

    def worker_for(self, connector: str) -> Worker:
        """Return the worker that creates a connector and its tasks, with the limits that apply to its configuration."""

    def all_configs(self) -> list[Mapping[str, str | None]]:
        """Return the properties of the worker and of all connectors."""

    async def started(self) -> None:
        """Wait until the worker knows the connectors. Raises ServiceUnavailableError if that takes too long."""

    async def joined(self) -> None:
        """Wait until the worker can process requests. Raises ServiceUnavailableError if that takes too long."""

    async def run(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a blocking function on a thread, and wait for its result."""

    def turn(self) -> AbstractAsyncContextManager[None]:
        """Wait for a turn to start or stop a connector or a task. The turn ends with the `async with` block."""

    def on_loop(self, coroutine: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine on the event loop, and wait for it. Only for other threads than the event loop's.

        Raises the coroutine's errors.
        """

    async def read_config_topic(self) -> None:
        """Read everything that was committed to the config topic before this call.

        Raises the errors of reading a topic.
        """

    def report(
        self, subject: str | ConnectorTaskId, state: str, *, error: Exception | None = None, version: str | None = None
    ) -> None:
        """Publish the state of a connector or a task."""

    def task_count(self, connector: str) -> int | None:
        """Return the number of tasks in a connector's last task count record; None if there is none."""

    def fencing_is_due(self, connector: str) -> bool:
        """Whether former tasks of the connector must be fenced before its tasks may start."""

    def record_fencing(self, seconds: float, *, success: bool) -> None:
        """Record a fencing round."""


def delivers_at_least_once(state: ClusterConfigState, connector: str) -> bool:
    """Whether the tasks of a connector deliver at least once, by its `exactly.once.support`."""
    support = (state.applied_config(connector) or {}).get("exactly.once.support") or ""
    return support.strip().lower() == ExactlyOnceRequest.DISABLED
