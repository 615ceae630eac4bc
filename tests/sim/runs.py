"""Runs schedules: one with its trace, several up to a time, or several until one notices a mutation."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from tests.sim.schedule import Mutation, Outcome, World
from tests.sim.site import in_world


def run_schedule(
    seed: int, *, trace: Callable[[str], None] | None = None, mutations: Mutation = (), harsh: bool = False
) -> Outcome:
    """Run one schedule; `trace` gets a line for each event.

    A `harsh` schedule is for mutations, which must fail: tasks write all the time while others start, and it ends
    without a quiet phase.
    """
    world = World(seed, trace, harsh=harsh)
    with in_world(world.kernel, world.here, mutations):
        outcome = world.run()
    return replace(outcome, seed=seed)


def run_schedules(seeds: Sequence[int], ends: float | None) -> list[Outcome]:
    """Run several schedules; none starts after `until` on the clock, in seconds."""
    outcomes = []
    with _collected_at_the_end():
        for seed in seeds:
            if ends is not None and time.time() >= ends:
                break
            outcomes.append(run_schedule(seed))
    return outcomes


def first_bad(seeds: Sequence[int], mutations: Mutation) -> Outcome | None:
    """Run harsh schedules with a mutation until one of them notices it."""
    with _collected_at_the_end():
        outcomes = (run_schedule(seed, mutations=mutations, harsh=True) for seed in seeds)
        return next((outcome for outcome in outcomes if outcome.faults), None)


@contextmanager
def _collected_at_the_end() -> Iterator[None]:
    """Disable the garbage collector during a schedule, which would take a fifth of the time for little garbage."""
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.collect()
        gc.unfreeze()
