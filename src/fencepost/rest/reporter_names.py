"""Gives metrics a second name: the one that Strimzi's Metrics Reporter gives to Kafka Connect's own metrics.

Strimzi has two dashboards for Kafka Connect. The first one uses the names that Strimzi's rules for the JMX exporter
produce. A worker's metrics already have these names. The second dashboard uses the reporter's names. This module adds
the metrics that the second dashboard queries.

A reporter's name consists of `kafka_connect_` (`kafka_producer_` for a metric of the producer), the name of the
metric's group in Kafka, which ends in `_metrics`, and the metric's name in Kafka without `_total` at the end. A metric
whose value is a text has the type info.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

_STATES: Final = ("running", "paused", "failed", "unassigned", "destroyed")
_TEXTS: Final = ("status", "connector_type", "connector_class", "connector_version")

REPORTER_NAMES: Final[Mapping[str, str]] = {
    "kafka_connect_worker_connector_count": "kafka_connect_connect_worker_metrics_connector_count",
    "kafka_connect_worker_task_count": "kafka_connect_connect_worker_metrics_task_count",
    **{
        f"kafka_connect_worker_connector_{state}_task_count": (
            f"kafka_connect_connect_worker_metrics_connector_{state}_task_count"
        )
        for state in _STATES
    },
    "kafka_connect_worker_rebalance_rebalancing": "kafka_connect_connect_worker_rebalance_metrics_rebalancing",
    "kafka_connect_coordinator_assigned_connectors": "kafka_connect_connect_coordinator_metrics_assigned_connectors",
    "kafka_connect_coordinator_assigned_tasks": "kafka_connect_connect_coordinator_metrics_assigned_tasks",
    **{f"kafka_connect_connector_{text}": f"kafka_connect_connector_metrics_{text}_info" for text in _TEXTS},
    "kafka_connect_connector_task_status": "kafka_connect_connector_task_metrics_status_info",
    "kafka_connect_task_error_total_record_failures": "kafka_connect_task_error_metrics_total_record_failures",
    "kafka_producer_outgoing_byte_total": "kafka_producer_producer_metrics_outgoing_byte",
}
"""For each name of a worker's samples, the reporter's name."""

_INFO: Final = "_info"
_LABELS: Final = {"clientid": "client_id"}


class WithReporterNames(Collector):
    """The metrics of a registry. Some of them appear a second time under the reporter's name."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry

    def collect(self) -> Iterator[Metric]:
        """Yield every metric with its values."""
        again: list[Metric] = []
        for metric in self._registry.collect():
            yield metric
            # The name of a counter's metric family does not have the `_total` of its samples.
            name = REPORTER_NAMES.get(metric.name) or REPORTER_NAMES.get(f"{metric.name}_total")
            if name is not None:
                again.append(_renamed(metric, name))
        yield from again


def _renamed(metric: Metric, name: str) -> Metric:
    info = name.endswith(_INFO)
    family = Metric(name.removesuffix(_INFO), metric.documentation, "info" if info else "gauge")
    for sample in metric.samples:
        labels = {_LABELS.get(label, label): value for label, value in sample.labels.items()}
        family.add_sample(name, labels, sample.value)
    return family
