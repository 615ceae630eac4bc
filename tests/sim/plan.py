"""What a seed decides on before a schedule begins."""

from __future__ import annotations

from dataclasses import dataclass, replace

from fencepost.kafka.producer.transaction import TransactionVersion
from tests.sim.kernel import Kernel
from tests.sim.site import OFFSETS, OWN_OFFSETS
from tests.sim.source import DATA

_GROWING_OFFSETS = (2, 6)
"""Of eight seeds in a row, those in whose schedules the offsets topics get more partitions."""
_GROWING_DATA = (4, 7)
"""Of eight seeds in a row, those in whose schedules the topic of the records does."""
_WITH_RERUNS = 5
"""Of eight seeds in a row, the one in whose schedule Spark runs stages again."""


@dataclass(frozen=True)
class Plan:
    """What a seed decides on at the start."""

    workers: int
    protocol: str
    version: TransactionVersion
    max_delay_ms: int
    connectors: tuple[str, ...]
    partitions: int
    records: int
    chaos_s: float
    troubles: float
    """How often something happens to a worker at a message."""
    slow: float
    """How often a message takes seconds."""
    pause_s: float
    """How long the user waits from one change to the next, on average."""
    steady: bool
    """Whether the connectors promise that partitions follow task configurations: in every other schedule."""
    older: bool = False
    """Whether one of the workers does not know that promise."""
    compacted: bool = False
    """Whether workers that start may find the config topic compacted."""
    own_offsets: bool = False
    """Whether connectors get an offsets topic besides the worker's, give it up and take it again, while they run."""
    growing: tuple[str, ...] = ()
    """The topics that get more partitions."""
    keyed: bool = False
    """Whether the records of each source partition have a key of their own."""
    data_partitions: int = 1
    """How many partitions the topic of the records has at the start."""
    reruns: float = 0.0
    """How often Spark runs the stage of a writer again."""


def plan(kernel: Kernel, seed: int, *, harsh: bool = False) -> Plan:
    """Draw a schedule's setting. For `harsh` see `run_schedule`."""
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
    # Where there are several connectors, compaction may leave one without what a dead leader began to replace.
    compacted = draw.random() < 0.5 and len(drawn.connectors) == 1
    return replace(
        drawn,
        partitions=draw.choice((4, 5, 6)),
        records=draw.randint(4, 15),
        pause_s=draw.choice((1.0, 2.0, 4.0)),
        older=draw.random() < 0.15,
        compacted=compacted,
    )
