from __future__ import annotations

import math

import pytest

from fencepost.config.ids import ConnectorTaskId
from fencepost.herder.core.mixed_group import MixedGroup
from fencepost.herder.distributed.group_metrics import GroupMetrics
from fencepost.kafka.group.membership import GroupRequest, Membership
from fencepost.kafka.group.protocol import Assignment, ConnectProtocol
from tests.support.clock import Clock


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def metrics(clock: Clock) -> GroupMetrics:
    return GroupMetrics(clock)


def value(metrics: GroupMetrics, name: str, **labels: str) -> float | None:
    for family in metrics.collect():
        for sample in family.samples:
            if sample.name == name and sample.labels == labels:
                return float(sample.value)
    return None


def test_a_rebalance_lasts_from_the_first_attempt_to_the_assignment(metrics: GroupMetrics, clock: Clock):
    assert math.isnan(value(metrics, "kafka_connect_worker_rebalance_time_since_last_rebalance_ms") or 0)
    metrics.rebalance_began()
    assert value(metrics, "kafka_connect_worker_rebalance_rebalancing") == 1
    clock.now += 1
    metrics.rebalance_failed()
    metrics.rebalance_began()
    clock.now += 2
    metrics.rebalance_completed()
    clock.now += 5
    assert value(metrics, "kafka_connect_worker_rebalance_rebalancing") == 0
    assert value(metrics, "kafka_connect_worker_rebalance_completed_rebalances_total") == 1
    assert value(metrics, "kafka_connect_worker_rebalance_rebalance_max_time_ms") == 3000
    assert value(metrics, "kafka_connect_worker_rebalance_time_since_last_rebalance_ms") == 5000
    assert value(metrics, "kafka_connect_coordinator_failed_rebalance_total") == 1
    assert value(metrics, "kafka_connect_coordinator_rebalance_latency_total") == 3000


def test_an_assignment_shows_until_the_worker_is_out_of_its_group(metrics: GroupMetrics):
    tasks = (ConnectorTaskId("c", 0), ConnectorTaskId("c", 1))
    assignment = Assignment(leader="m", leader_url="http://a:1/", config_offset=1, connectors=("c",), tasks=tasks)
    metrics.assigned(Membership(generation=7, member_id="m", protocol=ConnectProtocol.SESSIONED, assignment=assignment))
    assert value(metrics, "kafka_connect_coordinator_assigned_tasks") == 2
    assert value(metrics, "kafka_connect_worker_rebalance_epoch") == 7
    assert value(metrics, "kafka_connect_worker_rebalance_leader_name", leader_name="http://a:1/") == 1
    assert value(metrics, "kafka_connect_worker_rebalance_connect_protocol", connect_protocol="sessioned") == 1
    metrics.assigned(None)
    assert value(metrics, "kafka_connect_coordinator_assigned_tasks") == 0
    assert value(metrics, "kafka_connect_worker_rebalance_leader_name", leader_name="http://a:1/") is None
    assert value(metrics, "kafka_connect_worker_rebalance_epoch") == 7


def test_members_that_break_exactly_once_delivery_are_counted(metrics: GroupMetrics):
    metrics.judged(MixedGroup("enabled", breaking=("http://a:1/", "http://b:1/"), unknown=("http://c:1/",)))
    assert value(metrics, "fencepost_group_workers_breaking_exactly_once") == 2
    assert value(metrics, "fencepost_group_workers_of_unknown_support") == 1


def test_requests_to_the_coordinator_are_counted_and_timed_by_their_kind(metrics: GroupMetrics, clock: Clock):
    for seconds in (0.25, 0.75):
        metrics.request_answered(GroupRequest.JOIN, seconds)
    metrics.request_answered(GroupRequest.HEARTBEAT, 0.1)
    clock.now += 4
    assert value(metrics, "kafka_connect_coordinator_join_total") == 2
    assert value(metrics, "kafka_connect_coordinator_join_time_avg") == 500
    assert value(metrics, "kafka_connect_coordinator_sync_total") == 0
    assert value(metrics, "kafka_connect_coordinator_last_heartbeat_seconds_ago") == 4


def test_rounds_of_fencing_are_counted_with_those_that_failed(metrics: GroupMetrics):
    metrics.fenced(0.2, success=True)
    metrics.fenced(2.0, success=False)
    assert value(metrics, "fencepost_fencing_rounds_total") == 2
    assert value(metrics, "fencepost_fencing_failures_total") == 1
    assert value(metrics, "fencepost_fencing_duration_seconds_bucket", le="0.25") == 1
    assert value(metrics, "fencepost_fencing_duration_seconds_sum") == pytest.approx(2.2)
