"""What the parts of a standalone herder share."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, ParamSpec, TypeVar

from fencepost.api.traces import format_trace
from fencepost.config.ids import ConnectorTaskId
from fencepost.config.log_context import in_context
from fencepost.config.worker_config import WorkerConfig
from fencepost.herder.core.calls import Calls
from fencepost.herder.standalone.config_store import MemoryConfigs
from fencepost.herder.standalone.status_store import MemoryStatuses
from fencepost.herder.work.fencing_round import TaskSet, task_set
from fencepost.runtime.worker import Worker
from fencepost.storage.configs.state import ClusterConfigState
from fencepost.storage.configs.topic import ConfigBackingStore
from fencepost.storage.statuses.codec import Status

P = ParamSpec("P")
T = TypeVar("T")

_log: Final = logging.getLogger(__name__)

_CALLS_AT_ONCE: Final = 32
_TURN_SECONDS: Final = 5.0
_GENERATION: Final = 0
"""Of the statuses: there is no group whose generations could be counted."""


@dataclass(frozen=True, slots=True)
class Fenced:
    """The tasks that a round of fencing was for, and the offset of the task count that it wrote."""

    tasks: TaskSet
    offset: int


@dataclass(slots=True)
class StandaloneParts:
    """The worker, its stores and its loop.

    `requested` is the worker under the limits that requests are under, `worker_id` what statuses name. `task_counts`
    is the config topic, of which nothing but task counts is read and written.
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
    """The last round of fencing of this process for each connector."""
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when a state or a configuration changed."""
    _calls: Calls = field(init=False)

    def __post_init__(self) -> None:
        self.requested = self.worker.limited()
        self._calls = Calls(self.loop, at_once=_CALLS_AT_ONCE, turn_s=_TURN_SECONDS)

    @property
    def config(self) -> WorkerConfig:
        """The worker's configuration."""
        return self.worker.config

    @property
    def state(self) -> ClusterConfigState:
        """What connectors there are, and with which tasks."""
        return self.configs.state

    def worker_for(self, connector: str) -> Worker:
        """Return the worker: under the limits of requests, unless its owner's file has the connector's configuration."""
        return self.worker if self.configs.is_of_file(connector) else self.requested

    def all_configs(self) -> list[Mapping[str, str | None]]:
        """Return the properties of the worker and of all connectors."""
        entries = self.state.entries.values()
        return [self.config.properties, *(entry.config for entry in entries if entry.config is not None)]

    async def started(self) -> None:
        """Do nothing: nobody is let in before the worker has started."""

    async def joined(self) -> None:
        """Do nothing: there is no group to join."""

    async def run(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call what may block on a thread, and wait for it."""
        return await self._calls.run(in_context(lambda: function(*args, **kwargs)))

    def on_loop(self, coroutine: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine on the event loop and wait for it, on any other thread. Raises what it raises."""
        asyncio.run_coroutine_threadsafe(coroutine, self.loop).result()

    async def read_config_topic(self) -> None:
        """Read the task counts that were committed before this call.

        Raises what reading a topic raises, TopicReplacedError and TopicNotFoundError for one that was deleted.
        """
        self.check_config_topic()
        await asyncio.wrap_future(self.task_counts.read_to_end())
        self.check_config_topic()

    def check_config_topic(self) -> None:
        """Raise why the config topic is not read any more, where that does not pass by itself."""
        if self.task_counts.lasting_failure is not None:
            raise self.task_counts.lasting_failure

    def report(
        self, subject: str | ConnectorTaskId, state: str, *, error: Exception | None = None, version: str | None = None
    ) -> None:
        """Take note of how a connector or a task is."""
        trace = None if error is None else format_trace(error)
        self.statuses.put(subject, Status(state, self.worker_id, _GENERATION, trace, version))
        if error is None:
            self.errors.pop(subject, None)
        else:
            self.errors[subject] = error
        self.changed.set()

    def task_count(self, connector: str) -> int | None:
        """Return with how many tasks a connector was last fenced for, by any worker of the group id."""
        return self.task_counts.state.task_count_record(connector)

    def fencing_is_due(self, connector: str) -> bool:
        """Whether tasks of the connector may not start before former ones are fenced."""
        fenced = self.fenced.get(connector)
        return fenced is None or fenced.tasks != task_set(self.state, connector)

    def record_fencing(self, seconds: float, *, success: bool) -> None:
        """Take note of a round of fencing, in the log."""
        _log.debug("A round of fencing took %.3f s and %s", seconds, "succeeded" if success else "failed")
