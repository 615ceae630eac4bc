"""A Java task as a SourceTask. Its records arrive as the bytes that are written to Kafka."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fencepost.api.errors import IllegalStateError
from fencepost.api.own_pipeline import OwnPipeline, RefusedByPipeline
from fencepost.api.record import SourceBatch
from fencepost.api.source import Config, SourceTask
from fencepost.config.connector_config import TransactionBoundary
from fencepost.config.ids import ConnectorTaskId
from fencepost.config.java_plugins import JavaPlugin
from fencepost.java.columns import record_columns
from fencepost.java.errors import java_error
from fencepost.java.log_levels import java_levels
from fencepost.java.session import JavaObject, JavaSession

_WAIT_MS: Final = 1_000
"""How long to wait for a Java poll. A poll may take longer: meanwhile the worker checks for a pause, and asks again."""

_WAIT_FOR_INTERVAL_MS: Final = 100
"""How long to wait if transactions end after an interval: the worker checks the interval between polls."""


@dataclass(frozen=True, slots=True)
class JavaTaskSetting:
    """The settings of a Java task besides its configuration: its number, and its pipeline in the form for the host.

    `boundary` is the connector's `transaction.boundary`, or POLL if its tasks write without transactions.
    """

    task: ConnectorTaskId
    boundary: TransactionBoundary
    pipeline: Mapping[str, Any] = field(repr=False)

    @property
    def wait_ms(self) -> int:
        """How long a poll waits.

        Each end of a wait costs CPU in the worker and in the JVM, even if the task is idle.
        """
        return _WAIT_FOR_INTERVAL_MS if self.boundary is TransactionBoundary.INTERVAL else _WAIT_MS


_LEVELS_EVERY_S: Final = 1.0
"""How often a task checks the levels of Java's loggers for changes, in seconds."""


class JavaTask(JavaObject, SourceTask):
    """A Java task. Subclasses have the plugin and the settings of JVMs."""

    plugin: ClassVar[JavaPlugin]
    _places: list[pa.RecordBatch]

    def __init__(self, setting: JavaTaskSetting | None = None) -> None:
        """`setting` is None if the object is not created by a worker."""
        self._setting = setting
        self._session: JavaSession | None = None
        self._returned = self._committed = 0
        self._wants_commits = True
        self._asked = False
        self._wait_ms = _WAIT_MS if setting is None else setting.wait_ms
        self._levels: dict[str, str] = {}
        self._levels_due = 0.0
        self._places = []

    def start(self, config: Config) -> None:
        """Start the Java task. Raises JavaError, JvmEndedError, and the errors of a JVM's start."""
        if self._setting is None:
            raise IllegalStateError("Tasks of Java connectors run in workers only: run the connector in a worker")
        task = self._setting.task
        with self.starting(task.connector) as jvm:
            self._session = JavaSession(
                jvm, self.settings, f"task {task}", self.context, self.plugin,
                kind="task", name=str(task), owner=task.connector, task=str(task.task), config=dict(config),
                pipeline=dict(self._setting.pipeline), boundary=str(self._setting.boundary), **{"class": config["task.class"]},
            )  # fmt: skip
            self.context.plugin_metrics.add_collector(self._session.metrics)
            self._wants_commits = self._session.call("start")["commits"]

    def poll(self) -> SourceBatch | None:
        """Return the next records, or None after a short wait."""
        if not self._asked:
            self._pass_log_levels()
            self._ask()
        self._asked = False
        answer, body = self._opened.answer("poll")
        if "rows" not in answer:
            return None
        if not self._wants_commits and time.monotonic() < self._levels_due:
            # Ask for the next records now: the JVM prepares them while the worker writes these. A task that wants
            # commits is not asked yet, because its `commit` would have to wait for the answer.
            self._ask()
        self._returned = answer["batch"]
        self._end_transaction(answer["boundary"])
        offsets = [(_decoded(partition), _decoded(offset)) for partition, offset in answer["offsets"]]
        topics: list[str] = answer["topics"]
        pipeline = OwnPipeline(answer["polled"], answer["retries"], [_refused(one) for one in answer["refused"]])
        topic = topics[0] if len(topics) == 1 else None
        return SourceBatch.of_columns(record_columns(answer, body), offsets, topic=topic, pipeline=pipeline)

    def _ask(self) -> None:
        self._opened.ask("poll", ms=self._wait_ms)
        self._asked = True

    def commit(self) -> None:
        """Tell the Java task that all records returned so far are committed, if the task has code for that."""
        if self._wants_commits and self._returned > self._committed:
            self._committed = self._returned
            places, self._places = self._places, []
            self._opened.call("commit", batch=self._returned, **_written(places))

    def stop(self) -> None:
        """Call the Java task's stop. If that does not return in time, the JVM is killed."""
        if self._session is not None:
            self._session.stop()

    def close(self) -> None:
        """Wait until the Java task's thread has ended. If that takes too long, the JVM is killed."""
        if self._session is not None:
            self._session.close()

    def _pass_log_levels(self) -> None:
        """Pass changed log levels to the JVM. The task shares this JVM with its connector."""
        now = time.monotonic()
        if now < self._levels_due:
            return
        self._levels_due = now + _LEVELS_EVERY_S
        levels = java_levels()
        if levels != self._levels:
            self._opened.call("levels", levels=levels)
            self._levels = levels

    @property
    def _opened(self) -> JavaSession:
        if self._session is None:
            raise IllegalStateError("The task is not started")
        return self._session

    def _end_transaction(self, how: str | None) -> None:
        context = self.context.transaction_context
        if how is None or context is None:
            return
        if how == "abort":
            context.abort_transaction()
        else:
            context.commit_transaction()


class PlacedJavaTask(JavaTask):
    """A Java task that wants to know where each of its records was written."""

    def commit_batch(self, batch: SourceBatch, places: pa.RecordBatch) -> None:  # noqa: ARG002 - the JVM has the records
        """Keep the partitions and offsets of the written records for the next `commit`."""
        self._places.append(places)


def _written(places: Sequence[pa.RecordBatch]) -> dict[str, Any]:
    """Return the places of written records in order, for the `commit` request; nothing if they were not kept.

    The places are runs: `count` records of one topic partition and timestamp with consecutive offsets. For records that
    a transform dropped, the topic is -1.
    """
    table = pa.Table.from_batches(places).combine_chunks() if places else pa.table({})
    if not table.num_rows:
        return {}
    topics = table["topic"].chunk(0).dictionary_encode()
    numbers = {name: pc.fill_null(table[name].chunk(0), -1).to_numpy() for name in ("partition", "offset", "timestamp")}
    numbers["topic"] = pc.fill_null(topics.indices, -1).to_numpy()
    dropped = numbers["topic"] < 0
    follows = (np.diff(numbers["offset"]) == 1) | (dropped[1:] & dropped[:-1])
    for name in ("topic", "partition", "timestamp"):
        follows &= np.diff(numbers[name]) == 0
    starts = np.flatnonzero(np.concatenate(([True], ~follows)))
    counts = np.diff(np.append(starts, table.num_rows))
    runs = {name: column[starts].tolist() for name, column in numbers.items()}
    return {"written": {"topics": topics.dictionary.to_pylist(), "count": counts.tolist(), **runs}}


def _refused(one: Mapping[str, Any]) -> RefusedByPipeline:
    key, value = (None if one.get(name) is None else base64.b64decode(one[name]) for name in ("key", "value"))
    return RefusedByPipeline(
        one["stage"],
        one["plugin"],
        one["topic"],
        java_error(f"{one['stage']} failed", one),
        one["exception"],
        one["message"] or "",
        one["trace"],
        _decoded(one["partition"]) or {},
        _decoded(one["offset"]) or {},
        key,
        value,
        one.get("content"),
    )


def _decoded(text: str | None) -> dict[str, Any] | None:
    found: dict[str, Any] | None = None if text is None else json.loads(text)
    return found
