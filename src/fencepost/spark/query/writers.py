"""The writers of an application's sinks: a sink has one function in one query at a time, and one DataFrame per batch.

A second function for a sink in the same query would find each batch already written, and skip it. So would a second
call of the function for the same batch. A second query would fence the first one before its own checkpoint is refused,
and both would fail.

A cluster is identified by its id, because `bootstrap.servers` can be written in many ways.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from fencepost.api.errors import ConfigError
from fencepost.spark.config.progress import NextStep
from fencepost.spark.query.streaming_batch import StreamingBatch


class ClusterSink(NamedTuple):
    """The name of a sink, and the id of its cluster."""

    cluster: str
    name: str


class Writers:
    """Knows for each sink the function that writes it, the query's current batch, and that batch's DataFrame.

    Thread-safe.

    `same_rows` decides whether two DataFrames of a batch certainly have the same rows.
    """

    def __init__(self, same_rows: Callable[[Any, Any], bool]) -> None:
        self._same_rows = same_rows
        self._known: dict[ClusterSink, tuple[weakref.ref[Any], StreamingBatch]] = {}
        self._frames: dict[ClusterSink, tuple[StreamingBatch, Any]] = {}
        self._lock: Final = threading.Lock()

    def claim(
        self,
        sink: ClusterSink,
        function: object,
        batch: StreamingBatch,
        *,
        is_running: Callable[[StreamingBatch], bool],
    ) -> None:
        """Make `function` the writer of a sink in the query run of `batch`.

        Raises ConfigError if another function writes the sink in the same run, or in another run that `is_running`.
        """
        with self._lock:
            former, known = self._known.get(sink, (lambda: None, batch))
            if known.run == batch.run and former() not in (None, function):
                raise ConfigError(
                    f"Two functions of exactly_once(...) write to sink {sink.name} in one query, so the second would find "
                    "each batch written: give each a name of its own (name=...)",
                    name="name",
                )
            if known.run != batch.run and is_running(known):
                raise ConfigError(
                    f"Sink {sink.name} is written by query {known.query}, which runs in this application: stop that query, "
                    "or give this one's sink another name (name=...)",
                    name="name",
                )
            self._known[sink] = weakref.ref(function), batch
            # Remove old DataFrames: Spark does not report the end of a query, and a DataFrame keeps its batch's shuffle
            # files.
            self._frames = {key: used for key, used in self._frames.items() if is_running(used[0])}

    def check_frame(self, sink: ClusterSink, batch: StreamingBatch, frame: object, step: NextStep) -> None:
        """Check the DataFrame of a call for a batch, before the call takes its `step`.

        A batch that is already in Kafka may be skipped in two cases: in its first call of a run, when Spark runs the
        batch again, and in further calls with the same rows. Raises ConfigError if another call may have written the
        batch with other rows: then skipping would hide that the rows of this call are lost.
        """
        with self._lock:
            former, known = self._frames.get(sink, (None, None))
            is_first = former is None or (former.run, former.batch) != (batch.run, batch.batch)
            if is_first or step is NextStep.WRITE:
                self._frames[sink] = batch, frame
            elif not self._same_rows(known, frame):
                raise ConfigError(
                    f"The function of sink {sink.name} was called twice for batch {batch.batch}, with two DataFrames, or "
                    "with one that is read anew. A batch is one transaction, so only the rows of the first call are in "
                    "Kafka. For the others use a function of its own, with a name (name=...) and "
                    f"first.batch={batch.batch}. A union of all would be skipped for this batch, and is a way from batch "
                    f"{batch.batch + 1} on",
                    name="name",
                )
