"""Adds the commits of sinks to the metrics of `query.lastProgress["sink"]`.

Spark requests metrics from the table of a query's sink if the table is a `ReportsSinkMetrics`. The table behind
`foreachBatch` is not of this type, and a query accepts no other table. But the context in which Spark runs a batch has
its own reference to the table. Spark uses this reference only for the progress, and passes it on to the context of the
next batch. So this reference is replaced by a stand-in. The stand-in answers with the metrics and the original table's
name. It consists of Java's own classes, because no call to Python may fail a query whose batch is committed.

All this uses internals of Spark. If they are not as expected, the progress has no such metrics; all else works.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, Final

from pyspark.sql import DataFrame

from fencepost.spark.query.streaming_batch import INTERNALS_ERRORS, StreamingBatch, execution_of, is_running
from fencepost.spark.written import SinkStatistics

_log: Final = logging.getLogger(__name__)

_REPORTS_METRICS: Final = "org.apache.spark.sql.connector.read.streaming.ReportsSinkMetrics"


def metrics_of(sinks: Iterable[SinkStatistics]) -> dict[str, str]:
    """Return the metrics of all sinks of a query, in Spark's form: totals of the query's run."""
    known = list(sinks)
    metrics = {
        "records": str(sum(sink.records for sink in known)),
        "bytes": str(sum(sink.bytes for sink in known)),
        "transactions": str(sum(sink.transactions for sink in known)),
        "retries": str(sum(sink.retries for sink in known)),
        "skipped": str(sum(sink.skipped for sink in known)),
        "transactionalId": ", ".join(sink.transactional_id for sink in known),
    }
    commits = [sink.last_commit_ms for sink in known if sink.last_commit_ms is not None]
    if commits:
        last = datetime.fromtimestamp(max(commits) / 1000, UTC)
        metrics["lastCommit"] = last.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return metrics


class SinkMetrics:
    """Reports the sinks of an application's queries to Spark. Thread-safe, because each query has its own thread."""

    def __init__(self) -> None:
        self._runs: dict[str, _Run] = {}
        self._lock: Final = threading.Lock()

    def report(self, frame: DataFrame, batch: StreamingBatch, sink: SinkStatistics) -> None:
        """Add a sink's metrics to the progress of this batch and of later ones.

        Never raises an error because of Spark.
        """
        try:
            with self._lock:
                run = self._runs.get(batch.run) or self._new_run(frame, batch)
                run.report(sink)
        except INTERNALS_ERRORS as error:
            _log.debug("The progress of query %s has no metrics of sink %s: %s", batch.query, sink.sink, error)

    def _new_run(self, frame: DataFrame, batch: StreamingBatch) -> _Run:
        # Old runs are removed here, because Spark does not report the end of a query.
        self._runs = {name: run for name, run in self._runs.items() if is_running(frame, run.batch)}
        run = self._runs[batch.run] = _Run(batch, frame.sparkSession)
        run.enter(execution_of(frame, batch.query).getLatestExecutionContext())
        return run


class _Run:
    """A query's run, and the table from which Spark gets the metrics for its progress."""

    def __init__(self, batch: StreamingBatch, session: Any) -> None:
        self.batch = batch
        self._jvm = session._jvm  # noqa: SLF001 - py4j's view of Java
        self._gateway = session.sparkContext._gateway  # noqa: SLF001
        self._map_of = self._jvm.java.util.Map.of
        self._answers = self._jvm.java.util.concurrent.ConcurrentHashMap()
        self._sinks: dict[str, SinkStatistics] = {}

    def report(self, sink: SinkStatistics) -> None:
        self._sinks[sink.sink] = sink
        flat = [text for metric in metrics_of(self._sinks.values()).items() for text in metric]
        # Each call makes a new map, because Spark keeps the maps of earlier batches.
        self._answers.put("metrics", self._map_of(*flat))

    def enter(self, context: Any) -> None:
        """Put the stand-in into a batch's context. From there it gets into the contexts of the next batches."""
        self._answers.put("metrics", self._map_of())
        kind, stand_in = context.getClass(), None
        while kind is not None:
            for field in kind.getDeclaredFields():
                if field.getName() != "sink":
                    continue
                field.setAccessible(True)
                if stand_in is None:
                    self._answers.put("toString", field.get(context).toString())
                    stand_in = self._stand_in(field.getType())
                field.set(context, stand_in)
            kind = kind.getSuperclass()

    def _stand_in(self, table: Any) -> Any:
        """Return an object of type `table`.

        The object answers each method with the value that `_answers` has for the method's name.
        """
        invoke, named = self._jvm.java.lang.invoke, self._jvm.java.lang.Class.forName
        anything, method = named("java.lang.Object"), named("java.lang.reflect.Method")
        lookup, type_of = invoke.MethodHandles.publicLookup(), invoke.MethodType.methodType
        get = lookup.bind(self._answers, "get", type_of(anything, anything))
        name = lookup.findVirtual(method, "getName", type_of(named("java.lang.String")))
        answer = invoke.MethodHandles.filterReturnValue(name.asType(type_of(anything, method)), get)
        # An InvocationHandler's first argument is the object, the second the method, and the third the arguments.
        answer = invoke.MethodHandles.dropArguments(answer, 0, [anything])
        answer = invoke.MethodHandles.dropArguments(answer, 2, [named("[Ljava.lang.Object;")])
        handler = invoke.MethodHandleProxies.asInterfaceInstance(named("java.lang.reflect.InvocationHandler"), answer)
        loader = table.getClassLoader()
        kinds = self._gateway.new_array(self._jvm.java.lang.Class, 2)
        kinds[0], kinds[1] = table, loader.loadClass(_REPORTS_METRICS)
        return self._jvm.java.lang.reflect.Proxy.newProxyInstance(loader, kinds, handler)
