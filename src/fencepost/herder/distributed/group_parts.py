"""What the parts of a herder share. Everything but the functions that are called on threads is for the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, ParamSpec, TypeVar
from urllib.parse import urlsplit

from fencepost.api.traces import format_trace
from fencepost.config.group_config import GroupConfig
from fencepost.config.ids import ConnectorTaskId
from fencepost.config.log_context import in_context
from fencepost.config.worker_config import WorkerConfig
from fencepost.herder.core.calls import Calls
from fencepost.herder.core.mixed_group import MixedGroup
from fencepost.herder.core.outliving import outcome_of
from fencepost.herder.distributed.group_metrics import GroupMetrics
from fencepost.herder.distributed.readiness import Readiness
from fencepost.herder.errors import RequestFailedError
from fencepost.herder.peers.rest_client import RestClient
from fencepost.herder.work.parts import delivers_at_least_once
from fencepost.kafka.errors import TopicNotFoundError
from fencepost.runtime.worker import Worker
from fencepost.storage.configs.state import ClusterConfigState
from fencepost.storage.configs.topic import ConfigBackingStore
from fencepost.storage.errors import TopicReplacedError
from fencepost.storage.statuses.codec import Status
from fencepost.storage.statuses.topic import StatusBackingStore

P = ParamSpec("P")
T = TypeVar("T")

# Connectors and tasks that start or stop at once. Their threads wait most of the time, for brokers or the connector.
_CALLS_AT_ONCE: Final = 32
_TURN_SECONDS: Final = 5.0


@dataclass(slots=True)
class GroupParts:
    """The worker, its stores and its loop; `url` is where other workers reach this one."""

    config: WorkerConfig
    group: GroupConfig
    url: str
    worker: Worker
    configs: ConfigBackingStore
    statuses: StatusBackingStore
    client: RestClient
    loop: asyncio.AbstractEventLoop
    metrics: GroupMetrics = field(default_factory=GroupMetrics)
    generation: int | None = None
    """The generation of the group that this worker is a member of, None out of the group."""
    readiness: Readiness = field(init=False)
    mixed: MixedGroup = field(init=False)
    """What the last generation of the group told of its members' settings."""
    _reading: asyncio.Future[None] | None = None
    _next_read: asyncio.Future[None] | None = None
    _calls: Calls = field(init=False)

    def __post_init__(self) -> None:
        self._calls = Calls(self.loop, at_once=_CALLS_AT_ONCE, turn_s=_TURN_SECONDS)
        self.readiness = Readiness(self.config.group_id)
        self.mixed = MixedGroup(str(self.config.exactly_once_source_support))

    @property
    def state(self) -> ClusterConfigState:
        """What is read of the config topic."""
        return self.configs.state

    def all_configs(self) -> list[Mapping[str, str | None]]:
        """Return the properties of the worker and of all connectors."""
        entries = self.state.entries.values()
        return [self.config.properties, *(entry.config for entry in entries if entry.config is not None)]

    @property
    def worker_id(self) -> str:
        """How statuses name this worker, as host:port."""
        return urlsplit(self.url).netloc

    async def run(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call what may block on a thread, and wait for it."""
        return await self._calls.run(in_context(lambda: function(*args, **kwargs)))

    def on_loop(self, coroutine: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine on the event loop and wait for it, on any other thread. Raises what it raises."""
        asyncio.run_coroutine_threadsafe(coroutine, self.loop).result()

    @property
    def topic_problem(self) -> str | None:
        """Why the config or status topic is not read any more and will not be by itself, and what to do. None if it is.

        The config topic comes first: no request can be carried out without it.
        """
        topic, failure = self.config.config_storage.name, self.configs.lasting_failure
        if isinstance(failure, TopicNotFoundError | TopicReplacedError):
            again = " and created again" if isinstance(failure, TopicReplacedError) else ""
            return (
                f"The config topic {topic} was deleted{again}, which holds what connectors there are. Stop the workers of the "
                "group, restore the topic if there is a copy of it, and start them: they create it empty if it is "
                "missing, and connectors have to be created anew then. They go on from their source offsets, which "
                "are kept elsewhere"
            )
        if failure is not None:
            return f"The config topic {topic} cannot be read: {failure}"
        topic, failure = self.config.status_storage.name, self.statuses.lasting_failure
        if failure is not None:
            return (
                f"The status topic {topic} cannot be read, and what is shown of connectors and tasks is not up to date: "
                f"{failure}"
            )
        return None

    def check_config_topic(self) -> None:
        """Raise RequestFailedError if the config topic is not read any more, for a reason that does not pass."""
        if self.configs.lasting_failure is not None:
            raise RequestFailedError(str(self.topic_problem))

    async def read_config_topic(self) -> None:
        """Read what was committed to the config topic before this call.

        Those that ask while a read is under way share the next one: hundreds of tasks ask when they start. Raises as
        `ConfigBackingStore.read_to_end`.
        """
        if self._next_read is None:
            self._next_read = asyncio.ensure_future(self._read_after(self._reading))
        await outcome_of(self._next_read)

    async def _read_after(self, former: asyncio.Future[None] | None) -> None:
        if former is not None:
            await asyncio.wait([former])
        self._reading, self._next_read = self._next_read, None
        await asyncio.wrap_future(self.configs.read_to_end())

    def report(
        self, subject: str | ConnectorTaskId, state: str, *, error: Exception | None = None, version: str | None = None
    ) -> None:
        """Publish how a connector or a task is.

        A worker that was lost to its group has no say: others may have what it ran, and have reported on it.
        """
        if self.generation is None:
            self.statuses.disown(subject)
            return
        trace = None if error is None else format_trace(error)
        self.statuses.put(subject, Status(state, self.worker_id, self.generation, trace, version))

    @property
    def requested(self) -> Worker:
        """All configurations come by requests: the worker's own limits are theirs."""
        return self.worker

    def worker_for(self, connector: str) -> Worker:
        """Return the worker: all connectors are under its limits."""
        del connector
        return self.worker

    async def started(self) -> None:
        """Wait until the worker has read its topics."""
        await self.readiness.started()

    async def joined(self) -> None:
        """Wait until this worker is in its group and knows what the config topic says."""
        await self.readiness.joined(self.check_config_topic)

    def task_count(self, connector: str) -> int | None:
        """Return with how many tasks a connector was last fenced for, as the config topic says."""
        return self.state.task_count_record(connector)

    def fencing_is_due(self, connector: str) -> bool:
        """Whether tasks of the connector may not start before former ones are fenced."""
        if delivers_at_least_once(self.state, connector) and not self.task_count(connector):
            return False
        return self.state.pending_fencing(connector)

    def fenced(self, seconds: float, *, success: bool) -> None:
        """Take note of a round of fencing, in the group's metrics."""
        self.metrics.fenced(seconds, success=success)
