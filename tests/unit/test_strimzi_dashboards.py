"""What Strimzi's two dashboards for Kafka Connect ask for, against what a worker shows.

Names and labels are those of strimzi-kafka-operator, packaging/examples/metrics: one dashboard for the names of its rules
for the JMX exporter, one for those of its Metrics Reporter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest
from prometheus_client.metrics_core import Metric
from prometheus_client.openmetrics import parser as openmetrics
from prometheus_client.parser import text_string_to_metric_families

from fencepost.config.ids import ConnectorTaskId
from fencepost.herder.distributed import group_metrics
from fencepost.herder.distributed.group_metrics import GroupMetrics
from fencepost.rest.reporter_names import REPORTER_NAMES
from fencepost.runtime.metrics import definitions
from fencepost.runtime.metrics.worker_metrics import WorkerMetrics
from tests.support.model_herder import ModelHerder
from tests.support.rest import RestApis

_STATES = ("running", "paused", "failed", "unassigned", "destroyed")
_TEXTS = {
    "status": "status",
    "connector_class": "connector_class",
    "connector_version": "connector_version",
    "connector_type": "connector_type",
}

_JMX: dict[str, set[str]] = {
    "kafka_connect_worker_connector_count": set(),
    "kafka_connect_worker_task_count": set(),
    "kafka_producer_outgoing_byte_total": set(),
    "kafka_connect_coordinator_assigned_connectors": set(),
    "kafka_connect_coordinator_assigned_tasks": set(),
    "kafka_connect_worker_rebalance_rebalancing": set(),
    **{f"kafka_connect_worker_connector_{state}_task_count": {"connector"} for state in _STATES},
    **{f"kafka_connect_connector_{text}": {"connector", label} for text, label in _TEXTS.items()},
    "kafka_connect_task_error_total_record_failures": {"connector", "task"},
    "kafka_connect_connector_task_status": {"connector", "task", "status"},
}
"""The metrics that the first dashboard uses, with the labels that it joins or groups by."""

_REPORTER: dict[str, set[str]] = {
    "kafka_connect_connect_worker_metrics_connector_count": set(),
    "kafka_connect_connect_worker_metrics_task_count": set(),
    "kafka_producer_producer_metrics_outgoing_byte": set(),
    "kafka_connect_connect_coordinator_metrics_assigned_connectors": set(),
    "kafka_connect_connect_coordinator_metrics_assigned_tasks": set(),
    "kafka_connect_connect_worker_rebalance_metrics_rebalancing": set(),
    **{f"kafka_connect_connect_worker_metrics_connector_{state}_task_count": {"connector"} for state in _STATES},
    **{f"kafka_connect_connector_metrics_{text}_info": {"connector", label} for text, label in _TEXTS.items()},
    "kafka_connect_task_error_metrics_total_record_failures": {"connector", "task"},
    "kafka_connect_connector_task_metrics_status_info": {"connector", "task", "status"},
    "process_cpu_seconds_total": set(),
}
"""The same for the second dashboard."""

_NOT_THERE = {
    # A worker has no Kafka client metrics except the bytes that tasks send.
    "kafka_consumer_connection_count",
    "kafka_producer_connection_count",
    "kafka_admin_client_connection_count",
    "kafka_consumer_incoming_byte_total",
    "kafka_consumer_consumer_metrics_connection_count",
    "kafka_producer_producer_metrics_connection_count",
    "kafka_admin_client_admin_client_metrics_connection_count",
    "kafka_producer_producer_node_metrics_incoming_byte",
    # A worker is not a JVM.
    "jvm_memory_used_bytes",
    "jvm_gc_collection_seconds_sum",
    "jvm_threads_current",
}
"""Further metrics in the dashboards, which docs/metrics.md says do not exist."""


@pytest.fixture(scope="module")
def answers() -> dict[str, str]:
    """A worker's answers at /metrics with one task, in both formats of Prometheus."""
    metrics = WorkerMetrics()
    metrics.add(ConnectorTaskId("orders", 0))
    metrics.add_failed_connector("orders", {"connector.class": "Orders"})
    metrics.registry.register(GroupMetrics())
    with RestApis() as apis:
        api = apis.serve(ModelHerder(), registry=metrics.registry)
        return {
            "text": api.get("/metrics").text,
            "openmetrics": api.get("/metrics", headers={"Accept": "application/openmetrics-text"}).text,
        }


def _samples(text: str, families: Callable[[str], Iterable[Metric]]) -> dict[str, dict[str, str]]:
    """The labels of one sample of each metric name."""
    return {sample.name: sample.labels for family in families(text) for sample in family.samples}


@pytest.mark.parametrize("asked", [_JMX, _REPORTER], ids=["rules of the JMX exporter", "metrics reporter"])
def test_a_worker_has_the_metrics_of_the_dashboards(asked: dict[str, set[str]], answers: dict[str, str]):
    shown = _samples(answers["text"], text_string_to_metric_families)

    missing = {name: labels - shown.get(name, {}).keys() for name, labels in asked.items()}
    assert not any(missing.values()), missing
    assert asked.keys() <= shown.keys()
    assert not _NOT_THERE & shown.keys()


def test_both_formats_of_prometheus_have_the_second_names(answers: dict[str, str]):
    shown = _samples(answers["openmetrics"], openmetrics.text_string_to_metric_families)

    assert set(REPORTER_NAMES.values()) <= shown.keys()
    assert shown["kafka_connect_connector_metrics_status_info"] == {"connector": "orders", "status": "failed"}
    assert shown["kafka_producer_producer_metrics_outgoing_byte"] == {"client_id": "connector-producer-orders-0"}


def test_each_name_of_the_reporter_means_an_existing_metric():
    known = {metric.name for metric in (*definitions.DEFINITIONS, *group_metrics.DEFINITIONS)}

    assert REPORTER_NAMES.keys() <= known
    assert set(REPORTER_NAMES.values()) == _REPORTER.keys() - {"process_cpu_seconds_total"}
