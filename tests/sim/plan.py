"""The settings of a schedule, which its seed decides before it begins."""

from __future__ import annotations

from dataclasses import dataclass, replace

from fencepost.kafka.producer.transaction import TransactionVersion
from tests.sim.kernel import Kernel
from tests.sim.site import OFFSETS, OWN_OFFSETS
from tests.sim.source import DATA

_GROWING_OFFSETS = (2, 6)
"""Of eight consecutive seeds, the ones whose schedules add partitions to the offsets topics."""
_GROWING_DATA = (4, 7)
"""Of eight consecutive seeds, the ones whose schedules add partitions to the records' topic."""
_WITH_RERUNS = 5
"""Of eight consecutive seeds, the one in whose schedule Spark runs stages again."""


@dataclass(frozen=True)
class Plan:
    """The settings of a schedule."""

    workers: int
    protocol: str
    version: TransactionVersion
    max_delay_ms: int
    connectors: tuple[str, ...]
    partitions: int
    records: int
    chaos_s: float
    troubles: float
    """The probability of a fault of a worker at each message."""
    slow: float
    """The probability that a message takes seconds."""
    pause_s: float
    """The user's mean time between two changes."""
    steady: bool
    """Whether the connectors promise that partitions follow task configurations: in every second schedule."""
    older: bool = False
    """Whether one of the workers has a version that ignores that promise."""
    compacted: bool = False
    """Whether workers that start may find the config topic compacted."""
    own_offsets: bool = False
    """Whether connectors get their own offsets topic, lose it and get it back while they run."""
    growing: tuple[str, ...] = ()
    """The topics that get more partitions."""
    keyed: bool = False
    """Whether each source partition's records have their own key."""
    data_partitions: int = 1
    """The number of partitions of the records' topic at the start."""
    reruns: float = 0.0
    """How often Spark runs a writer's stage again."""


def plan(kernel: Kernel, seed: int, *, harsh: bool = False) -> Plan:
    """Choose a schedule's settings at random. For `harsh` see `run_schedule`."""
    drawn = _drawn(kernel, steady=bool(seed % 2), own_offsets=seed % 8 in (2, 3))
    if harsh:
        drawn = replace(drawn, partitions=5, records=60, chaos_s=50.0, slow=0.1, pause_s=4.0)
        drawn = replace(drawn, troubles=0.004, connectors=("a",))
    if seed % 8 in _GROWING_OFFSETS:
        drawn = replace(drawn, growing=(OFFSETS, OWN_OFFSETS))
    if seed % 8 in _GROWING_DATA:
        drawn = replace(drawn, growing=(DATA,), keyed=seed % 32 < 24, data_partitions=1 + seed % 3)
    if seed % 8 == _WITH_RERUNS:
        drawn = replace(drawn, reruns=0.1)
    return drawn


def _drawn(kernel: Kernel, *, steady: bool, own_offsets: bool) -> Plan:
    draw = kernel.random
    drawn = Plan(
        workers=draw.choice((2, 2, 3)),
        protocol=draw.choice(("sessioned", "sessioned", "compatible", "eager")),
        version=draw.choice((TransactionVersion.V2, TransactionVersion.V2, TransactionVersion.V1)),
        max_delay_ms=draw.choice((0, 3_000)),
        connectors=("a",) if draw.random() < 0.85 else ("a", "b"),
        partitions=draw.choice((2, 3, 5)),
        records=draw.randint(4, 10),
        chaos_s=draw.uniform(15.0, 60.0),
        troubles=draw.choice((0.0, 0.002, 0.006, 0.012)),
        slow=draw.choice((0.0, 0.01, 0.05, 0.15)),
        pause_s=draw.choice((1.0, 3.0, 6.0)),
        steady=steady,
        own_offsets=own_offsets,
    )
    if not steady:
        return drawn
    # With several connectors, compaction may remove records that a dead leader began to replace.
    compacted = draw.random() < 0.5 and len(drawn.connectors) == 1
    return replace(
        drawn,
        partitions=draw.choice((4, 5, 6)),
        records=draw.randint(4, 15),
        pause_s=draw.choice((1.0, 2.0, 4.0)),
        older=draw.random() < 0.15,
        compacted=compacted,
    )
