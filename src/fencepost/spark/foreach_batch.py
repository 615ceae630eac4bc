"""The function for `writeStream.foreachBatch`, which writes each micro-batch in one transaction.

Spark calls the function on the driver, on the query's thread. For each run of a query, the object keeps a sink, and
with it the transactional id. A micro-batch that is already in Kafka is executed but not written: a stateful query fails
if its batch is not executed, and watermarks result from the execution.
"""

from __future__ import annotations

import logging
import weakref
from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from pyspark.sql import DataFrame

from fencepost.api.errors import FencepostError
from fencepost.engine.errors import BatchCancelledError
from fencepost.engine.reports import new_mark
from fencepost.spark.config.progress import NextStep, Progress, SinkKey, next_step
from fencepost.spark.config.sink_config import SinkConfig, merged_options
from fencepost.spark.frame.jobs import jobs_of
from fencepost.spark.frame.rows import pipeline_for, record_columns
from fencepost.spark.query.same_rows import same_rows
from fencepost.spark.query.sink_metrics import SinkMetrics
from fencepost.spark.query.streaming_batch import StreamingBatch, is_running
from fencepost.spark.query.writers import ClusterSink, Writers
from fencepost.spark.sink.session_check import check_classic, check_session
from fencepost.spark.sink.sink import Sink
from fencepost.spark.written import SinkStatistics

_log: Final = logging.getLogger(__name__)

_WRITERS: Final = Writers(same_rows)
_METRICS: Final = SinkMetrics()


def exactly_once(
    *,
    topic: str | None = None,
    name: str | None = None,
    bootstrap_servers: str | None = None,
    options: Mapping[str, Any] | None = None,
    **more_options: Any,
) -> ExactlyOnce:
    """Return the function for `foreachBatch` that writes each micro-batch to Kafka exactly once.

    `topic` is for rows without a column `topic`. `name` names the sink; with a name, a deleted or replaced checkpoint
    is detected. `bootstrap_servers` are the brokers to connect to first, as host:port,host:port. `options` are the
    other options of a sink and of Kafka's clients, with or without the prefix `kafka.`: `{"compression.type": "zstd"}`.
    They may also be keyword arguments: `**{"compression.type": "zstd"}`. Raises ConfigError for an invalid option, and
    for an option that is given twice.
    """
    given = {"topic": topic, "name": name, "bootstrap.servers": bootstrap_servers}
    return ExactlyOnce(merged_options(given, options, more_options))


class ExactlyOnce:
    """A function that takes a DataFrame and a batch id.

    One object may serve several queries, each on its own thread.
    """

    def __init__(self, options: dict[str, Any]) -> None:
        self._options = options
        self._config = SinkConfig.from_options(options)
        self._sinks: dict[str, tuple[str, Sink]] = {}
        # Closes the sinks when this object is deleted, because Spark does not report the end of a query.
        weakref.finalize(self, _close, self._sinks)

    def __reduce__(self) -> tuple[type[ExactlyOnce], tuple[dict[str, Any]]]:
        return ExactlyOnce, (self._options,)

    def __repr__(self) -> str:
        return f"exactly_once(topic={self._config.topic!r}, name={self._config.name!r})"

    @property
    def statistics(self) -> tuple[SinkStatistics, ...]:
        """The counts of each sink in its last run. Thread-safe, for example for a StreamingQueryListener."""
        return tuple(sink.statistics for _, sink in list(self._sinks.values()))

    def __call__(self, frame: DataFrame, batch_id: int) -> None:
        """Write a micro-batch: all its rows in one call.

        Raises ConfigError for a second DataFrame, CheckpointMismatchError, SinkFencedError, BatchExpiredError, and the
        other errors of `Sink.write`.
        """
        check_classic(frame)
        with jobs_of(f"batch {batch_id}", new_mark()):
            batch = StreamingBatch.of(frame, batch_id)
            columns = record_columns(frame, self._config)
            pipeline = pipeline_for(columns.schema, self._config)
        sink = self._sink(frame, batch)

        def decide(last: Progress | None) -> NextStep:
            step = next_step(sink.key.sink, last, batch.progress, first_batch=self._config.first_batch)
            _WRITERS.check_frame(_of_cluster(sink), batch, frame, step)
            return step

        try:
            written = sink.write(columns, pipeline, batch.progress, decide)
        except BatchCancelledError as error:
            raise error from None
        if written.skipped:
            _log.warning(
                "Batch %d of sink %s is already in Kafka: it is executed, but not written again",
                batch_id,
                sink.key.sink,
            )
            with jobs_of(f"batch {batch_id} of sink {sink.key.sink}", new_mark()):
                frame.write.format("noop").mode("overwrite").save()
        _METRICS.report(frame, batch, sink.statistics)

    def _sink(self, frame: DataFrame, batch: StreamingBatch) -> Sink:
        """Return the sink of a query's run. A new run fences the sink of an earlier run."""
        name = self._config.sink_of_query(batch.query)
        run, former = self._sinks.get(name, (None, None))
        if run == batch.run and former is not None:
            return former
        check_session(frame.sparkSession)
        sink = Sink(self._config, SinkKey(name))
        try:
            _WRITERS.claim(_of_cluster(sink), self, batch, is_running=partial(is_running, frame))
        except FencepostError:
            sink.close()
            raise
        if former is not None:
            former.close()
        self._sinks[name] = batch.run, sink
        sink.own()
        return sink


def _of_cluster(sink: Sink) -> ClusterSink:
    """Return the sink and its cluster. Raises BrokerUnavailableError if no broker has answered yet."""
    return ClusterSink(sink.cluster_id, sink.key.sink)


def _close(sinks: dict[str, tuple[str, Sink]]) -> None:
    for _, sink in sinks.values():
        sink.close()
