"""The shared parts of a standalone herder."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any, Final, ParamSpec, TypeVar

from fencepost.api.traces import format_trace
from fencepost.config.ids import ConnectorTaskId
from fencepost.config.log_context import in_context
from fencepost.config.worker_config import WorkerConfig
from fencepost.herder.core.calls import Calls, in_turn
from fencepost.herder.standalone.config_store import MemoryConfigs
from fencepost.herder.standalone.status_store import MemoryStatuses
from fencepost.herder.work.fencing_round import TaskSet, task_set
from fencepost.runtime.turns import Turns
from fencepost.runtime.worker import Worker
from fencepost.storage.configs.state import ClusterConfigState
from fencepost.storage.configs.topic import ConfigBackingStore
from fencepost.storage.statuses.codec import Status

P = ParamSpec("P")
T = TypeVar("T")

_log: Final = logging.getLogger(__name__)

_CALLS_AT_ONCE: Final = 32
_GENERATION: Final = 0
"""The generation in statuses: there is no group with generations."""


@dataclass(frozen=True, slots=True)
class Fenced:
    """The tasks of a fencing round, and the offset of the task count that it wrote."""

    tasks: TaskSet
    offset: int


@dataclass(slots=True)
class StandaloneParts:
    """The worker, its stores and its loop.

    `requested` is the worker with the limits for requests, `worker_id` its name in statuses. `task_counts` is the
    config topic, of which only task counts are read and written.
    """

    worker: Worker
    worker_id: str
    configs: MemoryConfigs
    task_counts: ConfigBackingStore
    loop: asyncio.AbstractEventLoop
    requested: Worker = field(init=False)
    statuses: MemoryStatuses = field(default_factory=MemoryStatuses)
    errors: dict[str | ConnectorTaskId, Exception] = field(default_factory=dict)
    """Why connectors and tasks are FAILED."""
    fenced: dict[str, Fenced] = field(default_factory=dict)
    """The last fencing round of this process for each connector."""
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when a state or a configuration changed."""
    _calls: Calls = field(init=False)
    _turns: Turns = field(init=False)

    def __post_init__(self) -> None:
        self.requested = self.worker.limited()
        self._calls = Calls(self.loop, Turns(_CALLS_AT_ONCE))
        self._turns = Turns()

    @property
    def config(self) -> WorkerConfig:
        """The worker's configuration."""
        return self.worker.config

    @property
    def state(self) -> ClusterConfigState:
        """The current connectors and their tasks."""
        return self.configs.state

    def worker_for(self, connector: str) -> Worker:
        """Return the worker: with the limits for requests, unless the connector's configuration is its owner's file."""
        return self.worker if self.configs.is_of_file(connector) else self.requested

    def all_configs(self) -> list[Mapping[str, str | None]]:
        """Return the properties of the worker and of all connectors."""
        entries = self.state.entries.values()
        return [self.config.properties, *(entry.config for entry in entries if entry.config is not None)]

    async def started(self) -> None:
        """Do nothing: requests are accepted only after the worker has started."""

    async def joined(self) -> None:
        """Do nothing: there is no group to join."""

    async def run(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a blocking function on a thread, and wait for it."""
        return await self._calls.run(in_context(lambda: function(*args, **kwargs)))

    def turn(self) -> AbstractAsyncContextManager[None]:
        """Wait until a connector or a task may start or stop, and let others wait meanwhile."""
        return in_turn(self._turns)

    def on_loop(self, coroutine: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine on the event loop and wait for it on another thread. Raises what it raises."""
        asyncio.run_coroutine_threadsafe(coroutine, self.loop).result()

    async def read_config_topic(self) -> None:
        """Read the task counts that were committed before this call.

        Raises the errors of reading a topic, TopicReplacedError and TopicNotFoundError for one that was deleted.
        """
        self.check_config_topic()
        await asyncio.wrap_future(self.task_counts.read_to_end())
        self.check_config_topic()

    def check_config_topic(self) -> None:
        """Raise the fatal error because of which the config topic is not read any more."""
        if self.task_counts.fatal_failure is not None:
            raise self.task_counts.fatal_failure

    def report(
        self, subject: str | ConnectorTaskId, state: str, *, error: Exception | None = None, version: str | None = None
    ) -> None:
        """Set the state of a connector or a task."""
        trace = None if error is None else format_trace(error)
        self.statuses.put(subject, Status(state, self.worker_id, _GENERATION, trace, version))
        if error is None:
            self.errors.pop(subject, None)
        else:
            self.errors[subject] = error
        self.changed.set()

    def task_count(self, connector: str) -> int | None:
        """Return the number of tasks in a connector's last task count record, of any worker of the group id."""
        return self.task_counts.state.task_count_record(connector)

    def fencing_is_due(self, connector: str) -> bool:
        """Whether former tasks of the connector must be fenced before its tasks may start."""
        fenced = self.fenced.get(connector)
        return fenced is None or fenced.tasks != task_set(self.state, connector)

    def record_fencing(self, seconds: float, *, success: bool) -> None:
        """Log a fencing round."""
        _log.debug("A fencing round took %.3f s and %s", seconds, "succeeded" if success else "failed")
