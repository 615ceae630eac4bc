"""Rebalances and fencing rounds for the page at /ui, from the metrics of this worker's membership in its group.

Each worker sees all rebalances of its group. Only the leader runs and sees fencing rounds.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import Metric

from fencepost.herder.core.observation import Json

_PREFIX: Final = "kafka_connect_worker_rebalance_"
_KEPT: Final = 50
# Collecting the metrics of hundreds of tasks takes a while. It may use at most a fiftieth of a worker's time.
_SHARE: Final = 50


@dataclass(frozen=True, slots=True)
class GroupCounters:
    """The counters of a worker since its start. Times are in seconds. `last` is the time since the last rebalance."""

    leader: str | None = None
    generation: int = 0
    rebalancing: bool = False
    rebalances: int = 0
    rebalance_seconds: float = 0.0
    last: float | None = None
    rounds: int = 0
    failed_rounds: int = 0
    round_seconds: float = 0.0


def counters(metrics: Iterable[Metric]) -> GroupCounters | None:
    """Return the counters among a worker's metrics; None if the worker is not in a group."""
    values: dict[str, float] = {}
    leader = None
    for metric in metrics:
        for sample in metric.samples:
            values[sample.name] = sample.value
            leader = sample.labels.get("leader_name", leader)
    if f"{_PREFIX}epoch" not in values:
        return None
    last = values[f"{_PREFIX}time_since_last_rebalance_ms"] / 1000
    return GroupCounters(
        leader,
        int(values[f"{_PREFIX}epoch"]),
        bool(values[f"{_PREFIX}rebalancing"]),
        int(values[f"{_PREFIX}completed_rebalances_total"]),
        values["kafka_connect_coordinator_rebalance_latency_total"] / 1000,
        None if math.isnan(last) else last,
        int(values["fencepost_fencing_rounds_total"]),
        int(values["fencepost_fencing_failures_total"]),
        values["fencepost_fencing_duration_seconds_sum"],
    )


def events(before: GroupCounters | None, now: GroupCounters, now_ms: int) -> Iterator[Json]:
    """Yield the events between two readings: at most one of each kind, with a count.

    `at` is a time in milliseconds; None for fencing rounds before the first reading. `seconds` is the total duration of
    the counted events.
    """
    known = before or GroupCounters()
    if (count := now.rounds - known.rounds) > 0:
        at = None if before is None else now_ms
        seconds = now.round_seconds - known.round_seconds
        failed = now.failed_rounds - known.failed_rounds
        yield {"kind": "fencing", "at": at, "count": count, "failed": failed, "seconds": round(seconds, 3)}
    if (count := now.rebalances - known.rebalances) > 0:
        at = now_ms - round((now.last or 0.0) * 1000)
        seconds = now.rebalance_seconds - known.rebalance_seconds
        generation = now.generation
        yield {"kind": "rebalance", "at": at, "count": count, "generation": generation, "seconds": round(seconds, 3)}


class GroupEvents:
    """Remembers the last events. It reads the counters on request, but not too often."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry
        self._events: deque[Json] = deque(maxlen=_KEPT)
        self._last: GroupCounters | None = None
        self._next_read: float | None = None

    async def shown(self) -> Json | None:
        """Return this worker's view of the group, and the last events, the newest first; None without a group."""
        if self._next_read is None or time.monotonic() >= self._next_read:
            began = time.monotonic()
            found = await asyncio.to_thread(lambda: counters(self._registry.collect()))
            if found is not None:
                self._events.extendleft(events(self._last, found, time.time_ns() // 1_000_000))
            self._last = found
            self._next_read = time.monotonic() + _SHARE * (time.monotonic() - began)
        if self._last is None:
            return None
        last = self._last
        return {
            "leader": last.leader,
            "generation": last.generation,
            "rebalancing": last.rebalancing,
            "events": list(self._events),
        }
