"""The metrics of a worker's membership in its group.

The metrics have the names that Strimzi's rules for the JMX exporter give to Connect's metrics.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from fencepost.herder.core.mixed_group import MixedGroup
from fencepost.kafka.group.membership import GroupRequest, Membership
from fencepost.runtime.metrics.definitions import MetricDefinition, MetricType, define, single_values, with_prefix
from fencepost.runtime.metrics.histogram import Histogram
from fencepost.runtime.metrics.windowed import Windowed

_MS: Final = 1000.0
_PER_HOUR: Final = 3600.0

_REBALANCE_PREFIX: Final = "kafka_connect_worker_rebalance_"
_COORDINATOR_PREFIX: Final = "kafka_connect_coordinator_"
_FENCING_PREFIX: Final = "fencepost_fencing_"
_MIXED_PREFIX: Final = "fencepost_group_"

_REBALANCE: Final = define(
    _REBALANCE_PREFIX,
    {
        "epoch": "The current generation of this worker's group, or the last one if it has left; 0 before the first",
        "completed_rebalances_total": "Rebalances that this worker completed",
        "rebalancing": "1 while this worker is joining its group, else 0",
        "rebalance_avg_time_ms": "Average time of the last minute's rebalances, in milliseconds",
        "rebalance_max_time_ms": "Longest time of the last minute's rebalances, in milliseconds",
        "time_since_last_rebalance_ms": "Time since this worker completed its last rebalance, in milliseconds; NaN before the first",
    },
)
_LEADER: Final = MetricDefinition(
    "kafka_connect_worker_rebalance_leader_name",
    MetricType.GAUGE,
    "1 with the address of the group's leader as the label leader_name",
    ("leader_name",),
)
_PROTOCOL: Final = MetricDefinition(
    "kafka_connect_worker_rebalance_connect_protocol",
    MetricType.GAUGE,
    "1 with the group's rebalance protocol as the label connect_protocol",
    ("connect_protocol",),
)
_COORDINATOR: Final = define(
    _COORDINATOR_PREFIX,
    {
        "assigned_connectors": "Connectors assigned to this worker",
        "assigned_tasks": "Tasks assigned to this worker",
        "heartbeat_rate": "Heartbeats per second that the coordinator answered in the last minute",
        "heartbeat_total": "Heartbeats that the coordinator answered",
        "heartbeat_response_time_max": "Longest time until the coordinator answered a heartbeat in the last minute, in milliseconds",
        "last_heartbeat_seconds_ago": "Time since the coordinator last answered a heartbeat, in seconds; NaN before the first answer",
        "join_rate": "How often per second this worker joined its group in the last minute",
        "join_total": "How often this worker joined its group (JoinGroup)",
        "join_time_avg": "Average time of the last minute's joins, in milliseconds",
        "join_time_max": "Longest time of the last minute's joins, in milliseconds",
        "sync_rate": "How often per second this worker got its assignment in the last minute",
        "sync_total": "How often this worker got its assignment (SyncGroup)",
        "sync_time_avg": "Average time of the last minute's syncs, in milliseconds",
        "sync_time_max": "Longest time of the last minute's syncs, in milliseconds",
        "rebalance_rate_per_hour": "Rebalances per hour, extrapolated from the last minute",
        "rebalance_total": "Rebalances that this worker completed",
        "rebalance_latency_avg": "Average time of the last minute's rebalances, in milliseconds",
        "rebalance_latency_max": "Longest time of the last minute's rebalances, in milliseconds",
        "rebalance_latency_total": "Total time of this worker's rebalances, in milliseconds",
        "failed_rebalance_rate_per_hour": "Failed JoinGroup and SyncGroup requests per hour, extrapolated from the last minute",
        "failed_rebalance_total": "Failed JoinGroup and SyncGroup requests",
        "last_rebalance_seconds_ago": "Time since this worker completed its last rebalance, in seconds; NaN before the first",
    },
)
_FENCING: Final = define(
    _FENCING_PREFIX,
    {
        "rounds_total": "Fencing rounds that this worker ran as the leader of its group",
        "failures_total": "Fencing rounds of this worker that failed",
    },
)
_MIXED: Final = define(
    _MIXED_PREFIX,
    {
        "workers_breaking_exactly_once": "Workers of the group whose exactly.once.source.support is disabled while it is enabled on others, or "
        "whose offsets or config topic differs from the leader's topic. Above 0, exactly-once delivery does not "
        "hold",
        "workers_of_unknown_support": "Workers that do not announce their exactly.once.source.support, such as Kafka Connect's own, in a group "
        "with exactly-once delivery",
    },
)
_FENCING_TIME: Final = MetricDefinition(
    "fencepost_fencing_duration_seconds", MetricType.HISTOGRAM, "Duration of fencing rounds"
)

DEFINITIONS: Final[tuple[MetricDefinition, ...]] = (
    _LEADER,
    _PROTOCOL,
    *_REBALANCE.values(),
    *_COORDINATOR.values(),
    *_FENCING.values(),
    _FENCING_TIME,
    *_MIXED.values(),
)
"""The definitions of all metrics of a group member."""


class _Timed:
    """A number of operations and their durations, in seconds."""

    def __init__(self) -> None:
        self._times, self._ones = Windowed(), Windowed()
        self.total, self.seconds = 0, 0.0
        self._last: float | None = None

    def record(self, seconds: float, now: float) -> None:
        self._times.record(seconds * _MS, now)
        self._ones.record(1, now)
        self.total += 1
        self.seconds += seconds
        self._last = now

    def rate(self, now: float) -> float:
        return self._ones.rate(now)

    def average(self, now: float) -> float:
        return self._times.average(now)

    def maximum(self, now: float) -> float:
        return self._times.maximum(now)

    def ago(self, now: float) -> float:
        return math.nan if self._last is None else now - self._last


class GroupMetrics(Collector):
    """The metrics of a group member, as its observer. Thread-safe. `clock` returns seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._requests = {request: _Timed() for request in GroupRequest}
        self._rebalances, self._failures = _Timed(), _Timed()
        self._began: float | None = None
        self._membership: Membership | None = None
        self._epoch = 0
        self._breaking = self._unknown = 0
        self._fencing_time, self._fencing_failures, self._fencing_rounds = Histogram(), 0, 0

    # -- calls of the member -----------------------------------------------------------------------------------

    def request_answered(self, request: GroupRequest, seconds: float) -> None:
        """Record the coordinator's response time."""
        with self._lock:
            self._requests[request].record(seconds, self._clock())

    def rebalance_began(self) -> None:
        """Record that the member is about to join."""
        with self._lock:
            self._began = self._clock() if self._began is None else self._began

    def rebalance_failed(self) -> None:
        """Record that an attempt to join or sync failed."""
        with self._lock:
            self._failures.record(0.0, self._clock())

    def rebalance_completed(self) -> None:
        """Record that the member has an assignment."""
        with self._lock:
            now = self._clock()
            began, self._began = self._began, None
            self._rebalances.record(now - (now if began is None else began), now)

    # -- calls of the herder -----------------------------------------------------------------------------------

    def assigned(self, membership: Membership | None) -> None:
        """Record this worker's assignment; None if it is not in the group."""
        with self._lock:
            self._membership = membership
            if membership is not None:
                self._epoch = membership.generation

    def judged(self, mixed: MixedGroup) -> None:
        """Record the findings about the settings of the group's members."""
        with self._lock:
            self._breaking, self._unknown = len(mixed.breaking), len(mixed.unknown)

    def fenced(self, seconds: float, *, success: bool) -> None:
        """Record a fencing round of this worker."""
        with self._lock:
            self._fencing_time.record(seconds)
            self._fencing_rounds += 1
            self._fencing_failures += not success

    # -- calls of Prometheus -----------------------------------------------------------------------------------

    def describe(self) -> Iterable[Metric]:
        """Return nothing, so that registering does not collect the metrics."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """Yield every metric with its values."""
        with self._lock:
            now, membership = self._clock(), self._membership
            values = (
                (_REBALANCE, self._rebalance_values(now)),
                (_COORDINATOR, self._coordinator_values(now)),
                (_FENCING, self._fencing_values()),
                (_MIXED, self._mixed_values()),
            )
            fencing_time = self._fencing_time.snapshot()
        leader = None if membership is None else membership.assignment.leader_url
        yield _LEADER.metric([((leader,), 1.0)] if leader else [])
        yield _PROTOCOL.metric([((str(membership.protocol),), 1.0)] if membership is not None else [])
        for definitions, numbers in values:
            yield from single_values(definitions, numbers)
        yield _FENCING_TIME.histogram([((), fencing_time)])

    def _rebalance_values(self, now: float) -> dict[str, float]:
        done = self._rebalances
        return with_prefix(
            _REBALANCE_PREFIX,
            epoch=self._epoch,
            completed_rebalances_total=done.total,
            rebalancing=self._began is not None,
            rebalance_avg_time_ms=done.average(now),
            rebalance_max_time_ms=done.maximum(now),
            time_since_last_rebalance_ms=done.ago(now) * _MS,
        )

    def _coordinator_values(self, now: float) -> dict[str, float]:
        assignment = None if self._membership is None else self._membership.assignment
        heartbeats, done = self._requests[GroupRequest.HEARTBEAT], self._rebalances
        return with_prefix(
            _COORDINATOR_PREFIX,
            assigned_connectors=0 if assignment is None else len(assignment.connectors),
            assigned_tasks=0 if assignment is None else len(assignment.tasks),
            heartbeat_rate=heartbeats.rate(now),
            heartbeat_total=heartbeats.total,
            heartbeat_response_time_max=heartbeats.maximum(now),
            last_heartbeat_seconds_ago=heartbeats.ago(now),
            **self._phase_values("join", GroupRequest.JOIN, now),
            **self._phase_values("sync", GroupRequest.SYNC, now),
            rebalance_rate_per_hour=done.rate(now) * _PER_HOUR,
            rebalance_total=done.total,
            rebalance_latency_avg=done.average(now),
            rebalance_latency_max=done.maximum(now),
            rebalance_latency_total=done.seconds * _MS,
            failed_rebalance_rate_per_hour=self._failures.rate(now) * _PER_HOUR,
            failed_rebalance_total=self._failures.total,
            last_rebalance_seconds_ago=done.ago(now),
        )

    def _phase_values(self, phase: str, request: GroupRequest, now: float) -> dict[str, float]:
        timed = self._requests[request]
        return with_prefix(
            f"{phase}_",
            rate=timed.rate(now),
            total=timed.total,
            time_avg=timed.average(now),
            time_max=timed.maximum(now),
        )

    def _fencing_values(self) -> dict[str, float]:
        return with_prefix(_FENCING_PREFIX, rounds_total=self._fencing_rounds, failures_total=self._fencing_failures)

    def _mixed_values(self) -> dict[str, float]:
        return with_prefix(
            _MIXED_PREFIX, workers_breaking_exactly_once=self._breaking, workers_of_unknown_support=self._unknown
        )
