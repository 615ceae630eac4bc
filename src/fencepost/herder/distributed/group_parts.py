"""The shared parts of a distributed herder, and whether its worker can answer requests.

    STARTING ──topics read──> JOINING ──assigned, config topic read that far──> MEMBER
                                 ^                                                │
                                 └──── lost, behind the config topic, ────────────┘
                                       or a leader that lost the right to write
    any of them ──the worker stops──> CLOSED

Requests wait as in Kafka Connect, whose herder processes them once it is in its group. Only functions that are called on
threads may run outside of the event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any, Final, ParamSpec, TypeVar
from urllib.parse import urlsplit

from fencepost.api.allowed_paths import PathsOfWorker
from fencepost.api.errors import IllegalStateError
from fencepost.api.traces import format_trace
from fencepost.config.group_config import GroupConfig
from fencepost.config.ids import ConnectorTaskId
from fencepost.config.log_context import in_context
from fencepost.config.worker_config import WorkerConfig
from fencepost.herder.core.calls import Calls, in_turn, outcome_of
from fencepost.herder.core.group_decisions import HerderCommand
from fencepost.herder.core.group_topics import GroupTopics
from fencepost.herder.core.mixed_group import MixedGroup
from fencepost.herder.distributed.group_metrics import GroupMetrics
from fencepost.herder.errors import RequestFailedError, ServiceUnavailableError
from fencepost.herder.peers.rest_client import REQUEST_TIMEOUT_SECONDS, RestClient
from fencepost.herder.work.parts import delivers_at_least_once
from fencepost.kafka.errors import TopicNotFoundError
from fencepost.kafka.group.protocol import WorkerFiles, WorkerTopics
from fencepost.runtime.turns import Turns
from fencepost.runtime.worker import Worker
from fencepost.storage.configs.state import ClusterConfigState
from fencepost.storage.configs.topic import ConfigBackingStore
from fencepost.storage.errors import TopicReplacedError
from fencepost.storage.statuses.codec import Status
from fencepost.storage.statuses.topic import StatusBackingStore

P = ParamSpec("P")
T = TypeVar("T")

_CALLS_AT_ONCE: Final = 32

# The rest of a request's time is for processing it, or for answering why it was not processed.
_PATIENCE_SECONDS: Final = REQUEST_TIMEOUT_SECONDS - 5.0


class Standing(Enum):
    """See the module's diagram. The values describe the state in messages."""

    STARTING = "has yet to reach the brokers and to read its topics"
    JOINING = "is joining its group"
    MEMBER = "is in its group and takes requests"
    CLOSED = "stops"


TRANSITIONS: Final[Mapping[Standing, frozenset[Standing]]] = {
    Standing.STARTING: frozenset({Standing.JOINING, Standing.CLOSED}),
    Standing.JOINING: frozenset({Standing.JOINING, Standing.MEMBER, Standing.CLOSED}),
    Standing.MEMBER: frozenset({Standing.JOINING, Standing.MEMBER, Standing.CLOSED}),
    Standing.CLOSED: frozenset(Standing),
}
"""The states that may follow each state. Changes after CLOSED are ignored."""


class Readiness:
    """The state of a worker. Only for its event loop."""

    def __init__(self, group_id: str, *, patience_s: float = _PATIENCE_SECONDS) -> None:
        """`patience_s` is how many seconds a request may wait."""
        self._group_id = group_id
        self._patience_s = patience_s
        self._standing = Standing.STARTING
        self._waiting: set[asyncio.Future[None]] = set()

    @property
    def standing(self) -> Standing:
        """The worker's state."""
        return self._standing

    def become(self, standing: Standing) -> None:
        """Set the worker's state, and wake the waiters."""
        if standing not in TRANSITIONS[self._standing]:
            raise IllegalStateError(f"A worker is {self._standing.name} and cannot become {standing.name}")
        if self._standing is not Standing.CLOSED:
            self._standing = standing
        self.look_again()

    def look_again(self) -> None:
        """Let the waiters check whether to keep waiting."""
        for waiting in self._waiting:
            if not waiting.done():
                waiting.set_result(None)

    async def started(self) -> None:
        """Wait until the worker has read its topics. Raises ServiceUnavailableError if that takes too long."""
        await self._until(lambda: self._standing is not Standing.STARTING)

    async def joined(self, check: Callable[[], None]) -> None:
        """Wait until the worker is in its group and has read the config topic.

        `check` may raise an error that makes waiting pointless; it is called at every change. Raises
        ServiceUnavailableError if it takes too long, or the worker stops.
        """

        def is_member() -> bool:
            check()
            return self._standing is Standing.MEMBER

        await self._until(is_member)

    async def _until(self, reached: Callable[[], bool]) -> None:
        try:
            async with asyncio.timeout(self._patience_s):
                while self._standing is not Standing.CLOSED and not reached():
                    await self._change()
        except TimeoutError:
            raise ServiceUnavailableError(
                f"The worker {self._standing.value} ({self._group_id}) and could not answer within "
                f"{self._patience_s:.0f} s: check the brokers, and ask again"
            ) from None
        if self._standing is Standing.CLOSED:
            raise ServiceUnavailableError("The worker stops: ask another one of the group")

    async def _change(self) -> None:
        waiting = asyncio.get_running_loop().create_future()
        self._waiting.add(waiting)
        try:
            await waiting
        finally:
            self._waiting.discard(waiting)


@dataclass(slots=True)
class GroupParts:
    """The worker, its stores and its loop; `url` is the worker's advertised address."""

    config: WorkerConfig
    group: GroupConfig
    url: str
    worker: Worker
    configs: ConfigBackingStore
    statuses: StatusBackingStore
    client: RestClient
    loop: asyncio.AbstractEventLoop
    carry_out: Callable[[HerderCommand], None]
    """Gives the herder a command. Called on the loop."""
    metrics: GroupMetrics = field(default_factory=GroupMetrics)
    generation: int | None = None
    """The generation of the group that this worker is a member of, None outside of the group."""
    readiness: Readiness = field(init=False)
    mixed: MixedGroup = field(init=False)
    """The members' settings in the last generation of the group."""
    topics: GroupTopics = field(init=False)
    """The members' internal topics in the last generation of the group."""
    files: WorkerFiles = field(init=False)
    """What connectors may read on this worker, as it is announced to the group."""
    other_files: tuple[PathsOfWorker, ...] = ()
    """What connectors may read on the members of the last generation that differ from this one in that."""
    members: tuple[str, ...] = ()
    """The URLs of the members of the last generation, as far as its leader told."""
    key_problem: str | None = None
    """Why the broker refuses the session key of this worker, which leads the group, and the remedy."""
    _reading: asyncio.Future[None] | None = None
    _next_read: asyncio.Future[None] | None = None
    _calls: Calls = field(init=False)
    _turns: Turns = field(init=False)

    def __post_init__(self) -> None:
        self._calls = Calls(self.loop, Turns(_CALLS_AT_ONCE))
        self._turns = Turns()
        self.readiness = Readiness(self.config.group_id)
        self.mixed = MixedGroup(str(self.config.exactly_once_source_support))
        stores = (self.config.offset_storage, self.config.config_storage, self.config.status_storage)
        self.files = WorkerFiles(str(Path.cwd()), self.config.allowed_paths.paths)
        self.topics = GroupTopics(WorkerTopics(*(store.name for store in stores)), self.group_url)

    @property
    def state(self) -> ClusterConfigState:
        """The state read from the config topic."""
        return self.configs.state

    def all_configs(self) -> list[Mapping[str, str | None]]:
        """Return the properties of the worker and of all connectors."""
        entries = self.state.entries.values()
        return [self.config.properties, *(entry.config for entry in entries if entry.config is not None)]

    @property
    def group_url(self) -> str:
        """How this worker is named to the members of its group."""
        return f"{self.url.rstrip('/')}/"

    @property
    def worker_id(self) -> str:
        """This worker's name in statuses, as host:port."""
        return urlsplit(self.url).netloc

    async def run(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a blocking function on a thread, and wait for it."""
        return await self._calls.run(in_context(lambda: function(*args, **kwargs)))

    def turn(self) -> AbstractAsyncContextManager[None]:
        """Wait until a connector or a task may start or stop, and let others wait meanwhile."""
        return in_turn(self._turns)

    def on_loop(self, coroutine: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine on the event loop and wait for it on another thread. Raises what it raises."""
        asyncio.run_coroutine_threadsafe(coroutine, self.loop).result()

    @property
    def topic_problem(self) -> str | None:
        """The fatal error of the config or status topic, and the remedy; None if both are read.

        The config topic comes first: no request can be processed without it, or with another one than the
        leader's.
        """
        if not self.topics.knows_connectors:
            return self.topics.advice
        topic, failure = self.config.config_storage.name, self.configs.fatal_failure
        if isinstance(failure, TopicNotFoundError | TopicReplacedError):
            again = " and created again" if isinstance(failure, TopicReplacedError) else ""
            return (
                f"The config topic {topic} was deleted{again}, which holds the connectors' configurations. Stop the workers of the "
                "group, restore the topic if there is a copy of it, and start them: they create it empty if it is "
                "missing, and connectors have to be created again then. They continue from their source offsets, which "
                "are in another topic"
            )
        if failure is not None:
            return f"The config topic {topic} cannot be read: {failure}"
        topic, failure = self.config.status_storage.name, self.statuses.fatal_failure
        if failure is not None:
            return (
                f"The status topic {topic} cannot be read, and the states of connectors and tasks are outdated: "
                f"{failure}"
            )
        return None

    @property
    def write_problem(self) -> str | None:
        """Why a broker refuses what this worker writes, and the remedy; None if it does not."""
        refusal = self.statuses.refusal
        return self.key_problem or (None if refusal is None else f"Statuses cannot be written: {refusal}")

    def check_config_topic(self) -> None:
        """Raise RequestFailedError if the group's config topic is not read because of a fatal error or another setting."""
        if not self.topics.knows_connectors or self.configs.fatal_failure is not None:
            raise RequestFailedError(str(self.topic_problem))

    async def read_config_topic(self) -> None:
        """Read everything that was committed to the config topic before this call.

        Calls during a read share the next one: hundreds of tasks call this when they start. Raises as
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
        """Publish the state of a connector or a task.

        A worker outside of its group publishes nothing: others may run its work, and have reported on it.
        """
        if self.generation is None:
            self.statuses.disown(subject)
            return
        trace = None if error is None else format_trace(error)
        self.statuses.put(subject, Status(state, self.worker_id, self.generation, trace, version))

    @property
    def requested(self) -> Worker:
        """All configurations come from requests, so the worker's own limits apply, and the other members' ones for files."""
        return self.worker.agreeing(self.other_files)

    def worker_for(self, connector: str) -> Worker:
        """Return the worker: its limits apply to all connectors."""
        del connector
        return self.worker

    async def started(self) -> None:
        """Wait until the worker has read its topics."""
        await self.readiness.started()

    async def joined(self) -> None:
        """Wait until this worker is in its group and has read the config topic."""
        await self.readiness.joined(self.check_config_topic)

    def task_count(self, connector: str) -> int | None:
        """Return the number of tasks in a connector's last task count record."""
        return self.state.task_count_record(connector)

    def fencing_is_due(self, connector: str) -> bool:
        """Whether former tasks of the connector must be fenced before its tasks may start."""
        if delivers_at_least_once(self.state, connector) and not self.task_count(connector):
            return False
        return self.state.pending_fencing(connector)

    def record_fencing(self, seconds: float, *, success: bool) -> None:
        """Record a fencing round in the group's metrics."""
        self.metrics.fenced(seconds, success=success)
