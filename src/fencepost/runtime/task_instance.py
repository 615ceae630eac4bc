"""A connector's task object, with the guards around the calls into it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from typing import Final

from fencepost.api.context import SourceTaskContext
from fencepost.api.record import PollResult, RecordMetadata, SourceRecord
from fencepost.api.source import SourceTask
from fencepost.config.ids import ConnectorTaskId

_log: Final = logging.getLogger(__name__)


class TaskInstance:
    """Calls one SourceTask. `stop` is safe from any thread and calls the task once; the rest is for its own thread."""

    def __init__(self, task_id: ConnectorTaskId, task: SourceTask) -> None:
        self.id = task_id
        self._task = task
        self._stopping = threading.Lock()
        self._stopped = False
        self._lag_failed = False

    @property
    def keeps_records(self) -> bool:
        """Whether the task wants to hear of each record that is committed."""
        return type(self._task).commit_record is not SourceTask.commit_record

    def start(self, config: Mapping[str, str], context: SourceTaskContext) -> None:
        """Start the task. Raises what it raises."""
        self._task.context = context
        self._task.start(config)

    def poll(self) -> PollResult:
        """Return what is new. Raises what the task raises."""
        return self._task.poll()

    def at_end(self) -> bool:
        """Say whether the source has ended. Raises what the task raises."""
        return self._task.at_end()

    def lag(self) -> float | None:
        """Return how much is left to poll, None if the task cannot tell. Its errors are logged, the first time."""
        if self._lag_failed:
            return None
        try:
            lag = self._task.lag()
            return None if lag is None else float(lag)
        except Exception:  # noqa: BLE001 - a connector may raise anything; a metric is no reason to fail
            _log.exception("lag() of task %s failed, and is not called again", self.id)
            self._lag_failed = True
            return None

    def settled(self, records: list[tuple[SourceRecord, RecordMetadata | None]]) -> None:
        """Tell the task of each record that is in Kafka for good, in order. Its errors are logged."""
        for record, metadata in records:
            try:
                self._task.commit_record(record, metadata)
            except Exception:  # noqa: BLE001 - a connector may raise anything
                _log.exception("commit_record() of task %s failed; the record is committed all the same", self.id)

    def committed(self) -> None:
        """Tell the task of a commit, after the records that it settled. Its errors are logged."""
        try:
            self._task.commit()
        except Exception:  # noqa: BLE001 - likewise
            _log.exception("commit() of task %s failed; what it was told of is committed all the same", self.id)

    def stop(self) -> None:
        """Stop the task unless that was done; return when it is done. Its errors are logged."""
        with self._stopping:
            if self._stopped:
                return
            self._stopped = True
            try:
                self._task.stop()
            except Exception:  # noqa: BLE001 - a connector may raise anything
                _log.exception("stop() of task %s failed", self.id)
