"""The definitions of the metrics of a worker, its tasks and its connectors.

The names are the ones that Strimzi's rules give to Connect's MBeans, so that existing dashboards show the metrics. The
names of metrics that Connect does not have begin with `fencepost_`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

from fencepost.runtime.metrics.histogram import Buckets

Samples = Iterable[tuple[Sequence[str], float]]
"""Values, each with the values of its labels."""


class MetricType(StrEnum):
    """The types of metrics in Prometheus.

    Only names that end in `_total` can be counters in Prometheus, so some of Connect's totals are gauges.
    """

    GAUGE = "gauge"
    COUNTER = "counter"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class MetricDefinition:
    """A metric. `name` is the name of its samples; for a histogram, the name without `_bucket`, `_sum` and `_count`."""

    name: str
    type: MetricType
    documentation: str
    labels: tuple[str, ...] = ()

    def metric(self, samples: Samples) -> Metric:
        """Return a gauge or counter of Prometheus with these values."""
        kind = CounterMetricFamily if self.type is MetricType.COUNTER else GaugeMetricFamily
        family = kind(self.name, self.documentation, labels=self.labels)
        for labels, value in samples:
            family.add_metric(labels, value)
        return family

    def histogram(self, samples: Iterable[tuple[Sequence[str], tuple[Buckets, float]]]) -> Metric:
        """Return a histogram of Prometheus with these buckets and sums."""
        family = HistogramMetricFamily(self.name, self.documentation, labels=self.labels)
        for labels, (buckets, total) in samples:
            family.add_metric(labels, buckets, total)
        return family


def define(
    prefix: str,
    documentation: Mapping[str, str],
    labels: Iterable[str] = (),
    metric_type: MetricType | None = None,
) -> dict[str, MetricDefinition]:
    """Return definitions by name. Without a type, names that end in `_total` are counters, others gauges."""
    names = {f"{prefix}{name}": text for name, text in documentation.items()}
    counter, gauge = MetricType.COUNTER, MetricType.GAUGE
    return {
        name: MetricDefinition(
            name, metric_type or (counter if name.endswith("_total") else gauge), text, tuple(labels)
        )
        for name, text in names.items()
    }


def with_prefix(prefix: str, **values: float) -> dict[str, float]:
    """Return values by metric name. A metric's name is the prefix followed by the keyword."""
    return {f"{prefix}{name}": value for name, value in values.items()}


def single_values(definitions: Mapping[str, MetricDefinition], values: Mapping[str, float]) -> Iterator[Metric]:
    """Yield the metrics without labels that have these definitions and values. Both are given by name.

    Raises KeyError unless there is a value for each definition and a definition for each value.
    """
    if left := values.keys() ^ definitions.keys():
        raise KeyError(*sorted(left))
    for name, definition in definitions.items():
        yield definition.metric([((), values[name])])


_TASK_LABELS: Final = ("connector", "task")
_CONNECTOR_LABELS: Final = ("connector",)

TASK_PREFIX: Final = "kafka_connect_connector_task_"
SOURCE_PREFIX: Final = "kafka_connect_source_task_"
ERROR_PREFIX: Final = "kafka_connect_task_error_"
OWN_PREFIX: Final = "fencepost_task_"
CONNECTOR_PREFIX: Final = "kafka_connect_connector_"
WORKER_PREFIX: Final = "kafka_connect_worker_"

TASK_VALUES: Final[Mapping[str, MetricDefinition]] = {
    **define(
        TASK_PREFIX,
        {
            "running_ratio": "The fraction of time that the task was RUNNING",
            "pause_ratio": "The fraction of time that the task was PAUSED",
            "batch_size_avg": "Average number of records in the batches of the last minute",
            "batch_size_max": "Maximum number of records in a batch of the last minute",
            "offset_commit_avg_time_ms": "Average time of the last minute's commits, in milliseconds",
            "offset_commit_max_time_ms": "Longest time of the last minute's commits, in milliseconds",
            "offset_commit_success_percentage": "The fraction of the last minute's commits that succeeded, 0 to 1",
            "offset_commit_failure_percentage": "The fraction of the last minute's commits that failed, 0 to 1",
        },
        _TASK_LABELS,
    ),
    **define(
        SOURCE_PREFIX,
        {
            "source_record_poll_rate": "Records per second that the source returned in the last minute; 0 unless the task is RUNNING",
            "source_record_poll_total": "Records that the source returned, before transforms",
            "source_record_write_rate": "Records per second that were written to Kafka in the last minute; 0 unless the task is RUNNING",
            "source_record_write_total": "Records that were written to Kafka, after transforms",
            "poll_batch_avg_time_ms": "Average time of the last minute's polls, in milliseconds",
            "poll_batch_max_time_ms": "Longest time of the last minute's polls, in milliseconds",
            "source_record_active_count": "Records that were polled and are not yet committed",
            "source_record_active_count_avg": "Average of source_record_active_count in the last minute",
            "source_record_active_count_max": "Maximum of source_record_active_count in the last minute",
            "transaction_size_min": "Minimum number of records in a transaction committed in the last minute",
            "transaction_size_max": "Maximum number of records in a transaction committed in the last minute",
            "transaction_size_avg": "Average number of records in the transactions committed in the last minute",
        },
        _TASK_LABELS,
    ),
    **define(
        ERROR_PREFIX,
        {
            "total_record_failures": "Failed conversions and transforms of records; each retry counts",
            "total_record_errors": "Records that could not be converted or transformed and failed the task",
            "total_records_skipped": "Records that were skipped because of errors.tolerance",
            "total_retries": "Retries of conversions and transforms",
            "total_errors_logged": "Errors of records that were logged because of errors.log.enable",
            "last_error_timestamp": "Time of the last error of a record, in milliseconds since the epoch; 0 if there was none",
        },
        _TASK_LABELS,
    ),
    **define(
        OWN_PREFIX,
        {
            "open_transaction_age_seconds": "How long the task's transaction has been open, 0 if none is",
            "open_transaction_records": "Records in the task's open transaction, 0 if none is",
            "restarts_total": "Automatic restarts of the task, by task.restart.policy",
            "source_lag": "The part of the source that poll has not returned yet, in the source's unit, such as bytes; NaN if "
            "unknown",
        },
        _TASK_LABELS,
    ),
}
"""The metrics of a task whose value is one number."""

TASK_HISTOGRAMS: Final = define(
    OWN_PREFIX,
    {
        "commit_latency_seconds": "How long the task's commits took",
        "batch_latency_seconds": "Time from the return of poll to the commit of its batch; measured for the first 1,000 batches of a "
        "transaction",
    },
    _TASK_LABELS,
    MetricType.HISTOGRAM,
)

TASK_STATUS: Final = MetricDefinition(
    f"{TASK_PREFIX}status", MetricType.GAUGE, "1 with the task's state as the label status", (*_TASK_LABELS, "status")
)

TASK_BYTES: Final = MetricDefinition(
    "kafka_producer_outgoing_byte_total",
    MetricType.COUNTER,
    "Bytes of the record batches that the task sent, not counting its source offsets; clientid is "
    "connector-producer-<task>",
    ("clientid",),
)
"""The metric for the dashboard panel of outgoing bytes, named by Strimzi's rules for Kafka's own producer metrics."""

CONNECTOR_TEXTS: Final[Mapping[str, MetricDefinition]] = {
    label: MetricDefinition(
        f"{CONNECTOR_PREFIX}{label}",
        MetricType.GAUGE,
        f"1 with {text} as the label {label}",
        (*_CONNECTOR_LABELS, label),
    )
    for label, text in {
        "status": "the connector's state",
        "connector_type": "the connector's type",
        "connector_class": "the connector's configured class",
        "connector_version": "the version of the connector",
    }.items()
}
"""The metrics of a connector whose value is a text, by the label that holds the text."""

_STARTUPS: Final = {
    f"{what}_startup_{which}": text
    for what in ("connector", "task")
    for which, text in {
        "attempts_total": f"Attempts of this worker to start a {what}",
        "success_total": f"Successful starts of a {what} by this worker",
        "failure_total": f"Failed starts of a {what} by this worker",
        "success_percentage": f"The fraction of this worker's {what} starts that succeeded, 0 to 1",
        "failure_percentage": f"The fraction of this worker's {what} starts that failed, 0 to 1",
    }.items()
}

WORKER_VALUES: Final = define(
    WORKER_PREFIX,
    {
        "connector_count": "Connectors that this worker runs",
        "task_count": "Tasks that this worker runs",
        **_STARTUPS,
    },
)
"""The metrics of the worker itself."""

PENDING_COPIES: Final = MetricDefinition(
    "fencepost_offset_copies_pending",
    MetricType.GAUGE,
    "Source partitions whose offset was committed to a connector's own offsets topic, but not yet copied to the "
    "worker's offsets topic",
)

TASK_COUNTS: Final = define(
    WORKER_PREFIX,
    {
        "connector_total_task_count": "Tasks of the connector on this worker",
        **{
            f"connector_{state}_task_count": f"Tasks of the connector on this worker that are {state}"
            for state in ("running", "paused", "failed", "unassigned", "destroyed", "restarting")
        },
    },
    _CONNECTOR_LABELS,
)
"""The numbers of a connector's tasks on the worker, by state. Tasks that have ended count as destroyed."""

PROCESS: Final = define(
    "process_",
    {
        "cpu_seconds_total": "CPU time of the worker's own process, in user and system mode",
        "resident_memory_bytes": "Memory of the worker's own process that is in RAM",
        "virtual_memory_bytes": "Virtual memory of the worker's own process",
        "open_fds": "File descriptors that the worker's own process has open",
        "max_fds": "File descriptors that the worker's own process may have open at most",
        "start_time_seconds": "When the worker's process started, in seconds since the epoch",
    },
)
"""The metrics of the process. prometheus_client has them only on Linux. Spark's JVM is a separate process."""

DEFINITIONS: Final[tuple[MetricDefinition, ...]] = (
    *CONNECTOR_TEXTS.values(),
    TASK_STATUS,
    *TASK_VALUES.values(),
    *TASK_HISTOGRAMS.values(),
    TASK_BYTES,
    *WORKER_VALUES.values(),
    PENDING_COPIES,
    *TASK_COUNTS.values(),
    *PROCESS.values(),
)
"""All definitions of this module."""
