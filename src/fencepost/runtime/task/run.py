"""One run of a source task, from a start (the first or a later one) to its stop.

The order of the steps of a start:

    wait while paused -> wait for its turn -> create the transforms and converters -> check before -> take over the transactional id -> check
    after -> read the offsets -> start() -> poll

In the two checks, a group of workers ensures that no older generation of the task can write, and that this task does
not itself belong to an older generation. Taking over the transactional id fences every former owner and aborts its open
transaction, so the offsets that are read afterwards are final. An at-least-once task has no transactional id, and
fences nothing.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Final, Protocol

from fencepost.api.allowed_paths import AllowedPaths
from fencepost.api.plugin_metrics import PluginMetrics
from fencepost.api.source import SourceTask
from fencepost.config.ids import ConnectorTaskId
from fencepost.config.log_context import log_context
from fencepost.config.restart_config import RestartConfig
from fencepost.engine.engine import SparkEngine
from fencepost.engine.plugin_builder import NewPluginMetrics
from fencepost.kafka.producer.transactional import TransactionalProducer
from fencepost.runtime.metrics.task_metrics import TaskMetrics
from fencepost.runtime.restart_policy import patience
from fencepost.runtime.state import OnState, State
from fencepost.runtime.task.admission import Admission
from fencepost.runtime.task.boundaries import TransactionBoundaryManager
from fencepost.runtime.task.context import TaskProperties, WorkerSourceTaskContext
from fencepost.runtime.task.control import TaskControl, WriteRequests
from fencepost.runtime.task.instance import TaskInstance
from fencepost.runtime.task.poll_loop import PollLoop
from fencepost.runtime.task.writes import Delivery, WritePath, WritesContext
from fencepost.storage.errors import SharedPartitionError
from fencepost.storage.offsets.codec import CommitAuthor
from fencepost.storage.offsets.connector_store import ConnectorOffsetReader, ConnectorOffsetStore
from fencepost.storage.offsets.partition_guard import PartitionGuard

_log: Final = logging.getLogger(__name__)

_ENDLESS: Final = (
    "Task %s cannot say where its source ends, so it reads on until the worker is stopped. A task in Python says it by "
    "at_end(), a task in Java cannot"
)


class StartChecks(Protocol):
    """The checks of a group of workers around a task's start. If one of them raises, the task fails."""

    def before_ownership(self, task: ConnectorTaskId) -> None:
        """Called before the task takes over its transactional id. Ensures that older generations are fenced."""

    def after_ownership(self, task: ConnectorTaskId) -> None:
        """Called after the task has taken over its transactional id.

        Raises if there are newer task configurations, or if the task was revoked.
        """


class NoChecks:
    """Makes no checks: taking over the transactional id is sufficient."""

    def before_ownership(self, task: ConnectorTaskId) -> None:
        """Do nothing."""

    def after_ownership(self, task: ConnectorTaskId) -> None:
        """Do nothing."""


@dataclass(frozen=True, slots=True)
class TaskParts:
    """The parts of a task. The factories are called at each start.

    `new_boundaries` is called with the time in seconds.
    """

    config: TaskProperties
    new_task: Callable[[], SourceTask]
    new_delivery: Callable[[], Delivery]
    open_offsets: Callable[[], ConnectorOffsetStore]
    new_boundaries: Callable[[float], TransactionBoundaryManager]
    engine: SparkEngine
    allowed_paths: AllowedPaths
    new_write_path: Callable[[NewPluginMetrics], WritePath]
    guard: PartitionGuard
    restarts: RestartConfig = field(default_factory=RestartConfig)
    checks: StartChecks = field(default_factory=NoChecks)
    admission: Admission = field(default_factory=Admission)


class TaskRun:
    """Runs a task once. `stop_task` and `abandon` may be called on other threads."""

    def __init__(
        self,
        task_id: ConnectorTaskId,
        parts: TaskParts,
        control: TaskControl,
        metrics: TaskMetrics,
        *,
        on_state: OnState,
        on_commit: Callable[[], None],
        stop_at_end: bool,
    ) -> None:
        self._id = task_id
        self._parts = parts
        self._control = control
        self._metrics = metrics
        self._on_state = on_state
        self._on_commit = on_commit
        self._stop_at_end = stop_at_end
        self._instance: TaskInstance | None = None
        self._started = False
        self._delivery: Delivery | None = None

    @property
    def producer(self) -> TransactionalProducer | None:
        """The owner of the transactional id; None before its creation, or if there is no such id. Thread-safe."""
        return None if self._delivery is None else self._delivery.producer

    def stop_task(self) -> None:
        """Call the task's stop(), so that a blocked poll returns.

        Does nothing before the task's start() has returned.
        """
        if self._instance is not None and self._started:
            self._instance.stop()

    def abandon(self) -> None:
        """Abort the task's open transaction, and make brokers refuse its later writes, as far as its delivery allows.

        If the task's start() does not return, its code is ended as far as possible.
        """
        if self._delivery is not None:
            self._delivery.abandon()
        if self._instance is not None:
            self._instance.abandon()

    def run(self) -> bool:
        """Start the task, and poll it until it should stop. Return True if it must run again. Raises any failure."""
        if self._control.paused:
            self._on_state(State.PAUSED)
            self._control.wait_until_resumed()
        if self._control.stopping:
            return False
        with self._parts.admission.admitted(self._id, self._control) as started:
            try:
                return not self._control.stopping and self._run(started)
            finally:
                self._metrics.end_plugin_metrics()

    def _run(self, started: Callable[[], None]) -> bool:
        # The pipeline is created before anything is fenced, because its plugins may be invalid, or unavailable at the
        # moment.
        path = self._parts.new_write_path(self._new_plugin_metrics)
        self._parts.engine.expect(path.pipeline)
        self._parts.checks.before_ownership(self._id)
        if self._control.stopping:
            return False
        self._delivery = delivery = self._parts.new_delivery()
        try:
            delivery.own()
            self._parts.checks.after_ownership(self._id)
            return not self._control.stopping and self._run_task(delivery, path, started)
        finally:
            delivery.close()

    def _run_task(self, delivery: Delivery, path: WritePath, started: Callable[[], None]) -> bool:
        offsets = self._parts.open_offsets()
        offsets.refresh()
        with self._watching(offsets):
            return self._poll(offsets, delivery, path, started)

    def _watching(self, offsets: ConnectorOffsetStore) -> AbstractContextManager[None]:
        """Let a task that owns a transactional id fail if it shares a source partition with another task.

        For a task without fencing, sharing cannot be detected.
        """
        return nullcontext() if self.producer is None else self._parts.guard.watching(offsets, self._fail)

    def _fail(self, error: SharedPartitionError) -> None:
        with log_context(self._id):
            self._control.fail(error)
            self.stop_task()

    def _poll(
        self, offsets: ConnectorOffsetStore, delivery: Delivery, path: WritePath, started: Callable[[], None]
    ) -> bool:
        reader = offsets.task_reader()
        boundaries = self._parts.new_boundaries(time.monotonic())
        context = WorkerSourceTaskContext(
            self._parts.config,
            reader,
            boundaries.context,
            self._parts.engine.session,
            self._parts.allowed_paths,
            plugin_metrics=self._new_plugin_metrics({}),
        )
        self._instance = instance = TaskInstance(self._id, self._parts.new_task)
        try:
            instance.start(dict(context.configs()), context)
            self._started = True
            self._metrics.lag(instance.first_lag())
            started()
            self._on_state(State.RUNNING)
            written = WritesContext(
                self._id,
                path,
                offsets.records(_author(delivery, reader)),
                self._metrics,
                WriteRequests(self._control),
                keeps_records=instance.keeps_records,
                keeps_batches=instance.keeps_batches,
                on_commit=self._on_commit,
            )
            writes = delivery.writes(written)
            loop = PollLoop(self._control, instance, writes, boundaries, self._metrics, on_state=self._on_state)
            if self._stop_at_end:
                loop.stop_at_end(patience(self._parts.restarts))
                if not instance.knows_end:
                    _log.warning(_ENDLESS, self._id)
            return loop.run()
        finally:
            offsets.flush()
            instance.stop()
            instance.close()

    def _new_plugin_metrics(self, labels: Mapping[str, str]) -> PluginMetrics:
        return self._metrics.new_plugin_metrics(str(self._id), self._parts.engine.plugin_counts, labels)


def _author(delivery: Delivery, reader: ConnectorOffsetReader) -> Callable[[], CommitAuthor | None]:
    """Return a function that returns the name of this run in its commits.

    The name is unique: no other run has this producer id together with the epoch of this ownership.
    """
    producer = delivery.producer
    if producer is None:
        return lambda: None
    task, owned = producer.transactional_id, producer.identity
    return lambda: CommitAuthor(task, f"{owned.producer_id}.{owned.epoch}.{reader.reads}")
