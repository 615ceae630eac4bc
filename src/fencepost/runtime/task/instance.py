"""A connector's task object. It is called through `plugin_calls`, and its return values are checked."""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any, Final, NoReturn

import pyarrow as pa

from fencepost.api.abandonable import Abandonable
from fencepost.api.context import SourceTaskContext
from fencepost.api.plugin_calls import call_plugin, kind_of, refuse_answer
from fencepost.api.record import RecordMetadata, SourceBatch, SourceRecord
from fencepost.api.source import SourceTask
from fencepost.config.ids import ConnectorTaskId
from fencepost.runtime.task.boundaries import Batch

_log: Final = logging.getLogger(__name__)

_Settled = tuple[SourceRecord, RecordMetadata | None] | tuple[SourceBatch, pa.RecordBatch]
_POLLED: Final = "None, a SourceBatch, or an iterable of SourceRecord, such as a list"


class TaskInstance:
    """Calls one SourceTask. `stop` is thread-safe, and calls the task only once.

    All other methods are for the task's own thread. A task's error is always raised as an Exception, and an invalid
    return value as a PluginError (see `plugin_calls`).
    """

    def __init__(self, task_id: ConnectorTaskId, new_task: Callable[[], SourceTask]) -> None:
        """Create the task. Raises the errors of its constructor."""
        self.id = task_id
        self._task = call_plugin(f"The constructor of task {task_id}", new_task)
        self._stopping = threading.Lock()
        self._stopped = False
        self._lag_failed = False
        self.stop_error: Exception | None = None
        """The error of the task's stop(); None if there was none."""

    @property
    def keeps_records(self) -> bool:
        """Whether the task overrides `commit_record`, so that its records are kept until the commit."""
        return type(self._task).commit_record is not SourceTask.commit_record

    @property
    def keeps_batches(self) -> bool:
        """Whether the task overrides `commit_batch`, so that its batches of columns are kept until the commit."""
        return type(self._task).commit_batch is not SourceTask.commit_batch

    @property
    def knows_end(self) -> bool:
        """Whether the task overrides `at_end`. Otherwise the worker never sees the end of its source."""
        return type(self._task).at_end is not SourceTask.at_end

    def start(self, config: Mapping[str, str], context: SourceTaskContext) -> None:
        """Start the task. Raises the errors of the call."""
        call_plugin(f"The context of task {self.id}", setattr, self._task, "context", context)
        call_plugin(self._what("start"), self._task.start, config)

    def poll(self) -> Batch | None:
        """Return the result of poll: None, a SourceBatch or a list of records. Raises the errors of the task.

        If poll returns a generator, it is run to its end.
        """
        what = self._what("poll")
        answer: Any = call_plugin(what, self._task.poll)
        if answer is None or isinstance(answer, SourceBatch):
            return answer
        if isinstance(answer, str | bytes | Mapping) or not isinstance(answer, Iterable):
            found = f"a single {kind_of(answer)[2:]}" if isinstance(answer, SourceRecord) else kind_of(answer)
            refuse_answer(what, self._task.poll, found, _POLLED)
        records = call_plugin(what, list, answer)
        if not {SourceRecord}.issuperset(map(type, records)):
            self._check_types(answer, records)
        return records

    def _check_types(self, answer: object, records: list[Any]) -> None:
        for position, record in enumerate(records):
            if not isinstance(record, SourceRecord):
                found = f"{kind_of(answer)} whose item {position} is {kind_of(record)}"
                refuse_answer(self._what("poll"), self._task.poll, found, _POLLED)

    def refuse_offset(self, error: Exception) -> NoReturn:
        """Raise a PluginError for a source offset from poll that cannot be stored. `error` describes the offset."""
        expected = "offsets whose values are texts, numbers, booleans or None"
        found = f"an offset that cannot be stored ({error})"
        refuse_answer(self._what("poll"), self._task.poll, found, expected)

    def at_end(self) -> bool:
        """Return whether the source has ended. Raises the errors of the task."""
        what = self._what("at_end")
        answer = call_plugin(what, self._task.at_end)
        if not isinstance(answer, bool):
            refuse_answer(what, self._task.at_end, kind_of(answer), "True or False")
        return answer

    def first_lag(self) -> float | None:
        """Return the lag before the first poll; None if unknown. A task may need a poll before it knows its lag."""
        with suppress(Exception):
            return self._ask_lag()
        return None

    def lag(self) -> float | None:
        """Return the lag; None if unknown. The task's first error is logged."""
        if self._lag_failed:
            return None
        try:
            return self._ask_lag()
        except Exception:  # noqa: BLE001 - a connector may raise anything; a metric must not fail the task
            _log.exception("lag() of task %s failed, and is not called again", self.id)
            self._lag_failed = True
            return None

    def _ask_lag(self) -> float | None:
        what = self._what("lag")
        lag = call_plugin(what, self._task.lag)
        if lag is None:
            return None
        number: float = call_plugin(what, float, lag)
        # JSON has no infinite numbers and no NaN, and an estimate does not need them.
        return number if math.isfinite(number) else None

    def settled(self, records: Iterable[_Settled]) -> None:
        """Call the task's commit_record for each settled record, and commit_batch for each batch of columns, in order.

        Errors of these methods are logged.
        """
        place: Any
        for record, place in records:
            method = "commit_batch" if isinstance(record, SourceBatch) else "commit_record"
            try:
                call_plugin(self._what(method), getattr(self._task, method), record, place)
            except Exception:  # noqa: BLE001 - a connector may raise anything
                _log.exception("%s() of task %s failed; the record is committed nevertheless", method, self.id)

    def committed(self) -> None:
        """Call the task's commit, after its settled records. Its errors are logged."""
        try:
            call_plugin(self._what("commit"), self._task.commit)
        except Exception:  # noqa: BLE001 - likewise
            _log.exception("commit() of task %s failed; the transaction is committed nevertheless", self.id)

    def stop(self) -> None:
        """Stop the task once, and return when it has stopped.

        An error of the task is logged, and kept as `stop_error`.
        """
        with self._stopping:
            if self._stopped:
                return
            self._stopped = True
            try:
                call_plugin(self._what("stop"), self._task.stop)
            except Exception as error:  # noqa: BLE001 - a connector may raise anything
                _log.exception("stop() of task %s failed", self.id)
                self.stop_error = error

    def abandon(self) -> None:
        """If the task's start() does not return, end its code as far as possible. Thread-safe."""
        if isinstance(self._task, Abandonable):
            self._task.abandon()

    def close(self) -> None:
        """Let the task release its resources at the end of its run. An error of the task is logged."""
        try:
            call_plugin(self._what("close"), self._task.close)
        except Exception:  # noqa: BLE001 - a connector may raise anything
            _log.exception("close() of task %s failed", self.id)

    def _what(self, method: str) -> str:
        return f"{method}() of task {self.id}"
