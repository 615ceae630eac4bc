"""Runs one task of a connector in the test's own process, without Kafka.

The test decides when the task is polled and when its offsets are committed:

    with run_task(NumbersConnector, {"topic": "numbers"}) as task:
        polled = task.poll()
        task.commit()
    with run_task(NumbersConnector, {"topic": "numbers"}, offsets=task.offsets) as again:
        assert again.poll().values[0] == polled.values[-1] + 1

Leaving the first block without `commit` simulates a killed worker.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

from fencepost.api.allowed_paths import ANYWHERE
from fencepost.api.errors import ConfigError, DataError, RetriableError
from fencepost.api.record import (
    RecordMetadata,
    RefusedRow,
    SourceBatch,
    SourceOffset,
    SourcePartition,
    SourceRecord,
    without_topic,
)
from fencepost.api.source import SourceConnector
from fencepost.config.connector_config import TransactionBoundary
from fencepost.config.ids import ConnectorTaskId
from fencepost.runtime.plugin_metrics import WorkerPluginMetrics
from fencepost.runtime.task.boundaries import Batch
from fencepost.runtime.task.context import TaskProperties, WorkerSourceTaskContext
from fencepost.runtime.task.instance import TaskInstance
from fencepost.runtime.task.transaction_context import WorkerTransactionContext
from fencepost.testing.batch_rows import rows_of
from fencepost.testing.connector_start import StartedConnector
from fencepost.testing.source_offsets import SourceOffsets
from fencepost.testing.spark import spark_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

POLL_TIMEOUT_S = 60.0
"""How long `RunningTask.poll` waits for records."""

_RETRY_S = 0.05


@dataclass(frozen=True, slots=True)
class Polled:
    """The result of a poll.

    `records` are the records with their topics; for a SourceBatch, one record for each row. `offsets` are
    `(source_partition, source_offset)` pairs: the position after all records, one pair for each source partition; None
    means that an offset is removed. `is_batch` means that the records are the rows of a SourceBatch.
    """

    records: Sequence[SourceRecord]
    offsets: Sequence[tuple[SourcePartition | None, SourceOffset | None]]
    is_batch: bool = False

    @property
    def values(self) -> list[Any]:
        """The values of the records."""
        return [record.value for record in self.records]

    def __bool__(self) -> bool:
        return bool(self.records or self.offsets)


class RunningTask:
    """A started task. Only `stop` may be called on other threads. `offsets` are the committed offsets."""

    def __init__(
        self,
        started: StartedConnector,
        number: int,
        config: Mapping[str, str],
        *,
        on_exit: Callable[[], None] = lambda: None,
        session: Callable[[], SparkSession] = spark_session,
    ) -> None:
        """Create and start the task. Raises the errors of its constructor and its `start`.

        `on_exit` is called at the end of a `with` block.
        """
        self.offsets = started.offsets
        self.config = config
        self.id = ConnectorTaskId(started.checked.name, number)
        self._topic = started.config.get("topic")
        connector_bounds = started.checked.transaction_boundary is TransactionBoundary.CONNECTOR
        self.transaction_context = WorkerTransactionContext() if connector_bounds else None
        context = WorkerSourceTaskContext(
            TaskProperties(self.config),
            self.offsets,
            self.transaction_context,
            session,
            ANYWHERE,
            plugin_metrics=WorkerPluginMetrics(f"task {self.id}"),
        )
        self._instance = TaskInstance(self.id, started.task_class())
        self._uncommitted: list[tuple[Polled, Sequence[SourceRecord]]] = []
        self._on_exit = on_exit
        self._instance.start(self.config, context)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self._instance.close()
        self._on_exit()

    def poll(self, timeout_s: float = POLL_TIMEOUT_S) -> Polled:
        """Poll until there are records, and return them. Offsets are not committed.

        If the task raises RetriableError, it is polled again. Raises TimeoutError if there are no records for
        `timeout_s`, the errors of the task, PluginError for an invalid return value, and DataError for the first
        RefusedRow.
        """
        deadline = time.monotonic() + timeout_s
        while True:
            polled = self.poll_once()
            if polled:
                return polled
            if time.monotonic() > deadline:
                raise TimeoutError(f"poll() of task {self.id} returned nothing for {timeout_s:g} s")

    def poll_once(self) -> Polled:
        """Poll once; the result may be empty. Raises the errors of `poll`, except TimeoutError."""
        try:
            answer = self._instance.poll()
        except RetriableError:
            time.sleep(_RETRY_S)
            answer = None
        polled = self._polled(answer)
        if polled:
            # The task's own record objects are kept, because the task knows its records by identity.
            own = polled.records if answer is None or isinstance(answer, SourceBatch) else answer
            self._uncommitted.append((polled, own))
        return polled

    def commit(self) -> None:
        """Commit everything that was polled: store the offsets, then call `commit_record` and `commit`.

        Raises DataError for offsets that cannot be stored.
        """
        uncommitted, self._uncommitted = self._uncommitted, []
        for part, _ in uncommitted:
            self.offsets.commit(part.offsets)
        self._instance.settled(
            [
                (record, _metadata(shown))
                for part, own in uncommitted
                for record, shown in zip(own, part.records, strict=True)
            ]
        )
        self._instance.committed()

    def at_end(self) -> bool:
        """Return whether the source has ended."""
        return self._instance.at_end()

    def lag(self) -> float | None:
        """Return the task's lag."""
        return self._instance.lag()

    def stop(self) -> None:
        """Stop the task. Any thread may call it; only the first call has an effect."""
        self._instance.stop()

    @property
    def stop_error(self) -> Exception | None:
        """The error of the task's stop(); None if there was none. A worker would only log it."""
        return self._instance.stop_error

    def _polled(self, answer: Batch | None) -> Polled:
        if not answer:
            return Polled((), ())
        if isinstance(answer, SourceBatch):
            return Polled(rows_of(answer, self._topic), list(answer.offsets), is_batch=True)
        refused = next((record.value for record in answer if isinstance(record.value, RefusedRow)), None)
        if refused is not None:
            raise DataError(refused.reason)
        return Polled([self._with_topic(record) for record in answer], last_offsets(answer))

    def _with_topic(self, record: SourceRecord) -> SourceRecord:
        topic = self._topic if record.topic is None else record.topic
        if topic is None:
            raise without_topic(record)
        return record if record.topic == topic else replace(record, topic=topic)


def run_task(
    connector: type[SourceConnector],
    config: Mapping[str, str],
    *,
    offsets: SourceOffsets | None = None,
    tasks_max: int = 1,
    task: int = 0,
) -> RunningTask:
    """Start a connector and one of its tasks, without Kafka. Use it in a `with` statement, whose end stops the task.

    `config` is the connector's configuration; `name`, `connector.class` and `tasks.max` may be left out. `offsets` are
    the committed offsets to resume from, usually another task's. `task` is the task's number among the tasks that the
    connector makes for `tasks_max`. If a task needs Spark, it gets a local session, which starts at its first use.

    Raises ConfigError for an invalid configuration, and the errors of the connector and the task.
    """
    started = StartedConnector(connector, {**config, "tasks.max": str(tasks_max)}, offsets)
    try:
        return RunningTask(started, task, _task_config(started, tasks_max, task), on_exit=started.stop)
    except BaseException:
        started.stop()
        raise


def _task_config(started: StartedConnector, tasks_max: int, task: int) -> dict[str, str]:
    configs = started.task_configs(tasks_max)
    if task >= len(configs):
        made = f"The connector makes {len(configs)} task(s) of tasks.max={tasks_max}"
        raise ConfigError(f"{made}: there is no task {task}")
    return configs[task]


def last_offsets(records: Iterable[SourceRecord]) -> list[tuple[SourcePartition, SourceOffset]]:
    """Return the last offset of each source partition."""
    latest: dict[str, tuple[SourcePartition, SourceOffset]] = {}
    for record in records:
        latest[repr(sorted(record.source_partition.items(), key=repr))] = record.source_partition, record.source_offset
    return list(latest.values())


def _metadata(record: SourceRecord) -> RecordMetadata:
    return RecordMetadata(record.topic or "", record.partition or 0, -1, record.timestamp or 0)
