"""The shared parts of a standalone herder."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import Final

from fencepost.api.traces import format_trace
from fencepost.config.ids import ConnectorTaskId
from fencepost.herder.standalone.config_store import MemoryConfigs
from fencepost.herder.standalone.status_store import MemoryStatuses
from fencepost.herder.work.fencing_round import TaskSet, task_set
from fencepost.herder.work.worker_parts import WorkerParts
from fencepost.runtime.worker import Worker
from fencepost.storage.configs.state import ClusterConfigState
from fencepost.storage.configs.topic import ConfigBackingStore
from fencepost.storage.statuses.codec import Status

_log: Final = logging.getLogger(__name__)

_GENERATION: Final = 0
"""The generation of all statuses: a standalone worker has no group, whose rebalances would start new generations."""


@dataclass(frozen=True, slots=True)
class Fenced:
    """The tasks for which former tasks were fenced, and the offset of the task count record that the round wrote."""

    tasks: TaskSet
    offset: int


class StandaloneParts(WorkerParts):
    """The parts of a standalone worker. `worker_id` is its name in statuses.

    `task_counts` is the config topic. Only task counts are read from it and written to it.
    """

    def __init__(
        self,
        worker: Worker,
        worker_id: str,
        configs: MemoryConfigs,
        task_counts: ConfigBackingStore,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        super().__init__(worker, loop)
        self.worker_id = worker_id
        self.configs = configs
        self.task_counts = task_counts
        self.requested = worker.limited()
        """The worker, with the limits that apply to requests."""
        self.statuses = MemoryStatuses()
        self.errors: dict[str | ConnectorTaskId, Exception] = {}
        """The reasons why connectors and tasks are FAILED."""
        self.fenced: dict[str, Fenced] = {}
        """The last fencing round of this process for each connector."""
        self.changed = asyncio.Event()
        """Set when a state or a configuration changed."""

    @property
    def state(self) -> ClusterConfigState:
        """The current connectors and their tasks."""
        return self.configs.state

    def worker_for(self, connector: str) -> Worker:
        """Return the worker.

        The worker has the limits for requests unless the connector's configuration comes from the owner's file.
        """
        return self.worker if self.configs.is_of_file(connector) else self.requested

    async def started(self) -> None:
        """Do nothing: requests are accepted only after the worker has started."""

    async def joined(self) -> None:
        """Do nothing: there is no group to join."""

    async def read_config_topic(self) -> None:
        """Read the task counts that were committed before this call.

        Raises the errors of reading a topic, TopicReplacedError and TopicNotFoundError for a topic that was deleted.
        """
        self.check_config_topic()
        await asyncio.wrap_future(self.task_counts.read_to_end())
        self.check_config_topic()

    def check_config_topic(self) -> None:
        """Raise the fatal error that ended the reading of the config topic, if there was one."""
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
        """Return the number of tasks in a connector's last task count record, from any worker with this group id."""
        return self.task_counts.state.task_count_record(connector)

    def fencing_is_due(self, connector: str) -> bool:
        """Whether former tasks of the connector must be fenced before its tasks may start."""
        fenced = self.fenced.get(connector)
        return fenced is None or fenced.tasks != task_set(self.state, connector)

    def record_fencing(self, seconds: float, *, success: bool) -> None:
        """Log a fencing round."""
        _log.debug("A fencing round took %.3f s and %s", seconds, "succeeded" if success else "failed")
