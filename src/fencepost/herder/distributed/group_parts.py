"""Implements HerderParts, which connectors, tasks and requests use, for a worker of a group.

The modules of the distributed herder get everything else separately: the config topic, the view of the group, the
client for other workers. All state belongs to the event loop; `run` makes blocking calls on other threads.
"""

from __future__ import annotations

import asyncio

from fencepost.api.traces import format_trace
from fencepost.config.ids import ConnectorTaskId
from fencepost.herder.distributed.config_topic import ConfigTopic
from fencepost.herder.distributed.group_metrics import GroupMetrics
from fencepost.herder.distributed.group_view import GroupView
from fencepost.herder.distributed.readiness import Readiness
from fencepost.herder.work.parts import delivers_at_least_once
from fencepost.herder.work.worker_parts import WorkerParts
from fencepost.runtime.worker import Worker
from fencepost.storage.configs.state import ClusterConfigState
from fencepost.storage.configs.topic import ConfigBackingStore
from fencepost.storage.statuses.codec import Status
from fencepost.storage.statuses.topic import StatusBackingStore


class GroupParts(WorkerParts):
    """The parts of a worker of a group. Create this object on the worker's event loop."""

    def __init__(
        self,
        worker: Worker,
        view: GroupView,
        config_topic: ConfigTopic,
        statuses: StatusBackingStore,
        *,
        readiness: Readiness,
        metrics: GroupMetrics,
    ) -> None:
        super().__init__(worker, asyncio.get_running_loop())
        self.statuses = statuses
        self._view = view
        self._config_topic = config_topic
        self._readiness = readiness
        self._metrics = metrics

    @property
    def configs(self) -> ConfigBackingStore:
        """The store of configurations."""
        return self._config_topic.store

    @property
    def state(self) -> ClusterConfigState:
        """The state read from the config topic."""
        return self._config_topic.state

    @property
    def worker_id(self) -> str:
        """This worker's name in statuses, as host:port."""
        return self._view.worker_id

    async def read_config_topic(self) -> None:
        """Read everything that was committed to the config topic before this call.

        Raises the errors of `ConfigTopic.read`.
        """
        await self._config_topic.read()

    def report(
        self, subject: str | ConnectorTaskId, state: str, *, error: Exception | None = None, version: str | None = None
    ) -> None:
        """Publish the state of a connector or a task.

        A worker outside of its group publishes nothing: other workers may run its connectors and tasks, and have
        reported them.
        """
        if self._view.generation is None:
            self.statuses.disown(subject)
            return
        trace = None if error is None else format_trace(error)
        self.statuses.put(subject, Status(state, self.worker_id, self._view.generation, trace, version))

    @property
    def requested(self) -> Worker:
        """The worker that validates configurations. All configurations come from requests.

        If a configuration names files, the limits of the other members apply as well.
        """
        return self.worker.agreeing(self._view.other_files)

    def worker_for(self, connector: str) -> Worker:
        """Return the worker. Its limits apply to all connectors, because all configurations come from requests."""
        del connector
        return self.worker

    async def started(self) -> None:
        """Wait until the worker has read its topics."""
        await self._readiness.started()

    async def joined(self) -> None:
        """Wait until this worker is in its group and has read the config topic."""
        await self._readiness.joined(self._config_topic.check)

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
        self._metrics.fenced(seconds, success=success)
