"""Runs schedules: one with its trace, several up to a time, or several until one notices what was broken."""

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
    """Run one schedule; `trace` gets a line for each thing that happens.

    A `harsh` one is for what must go wrong: all the time tasks write while others start, and nobody waits for the end.
    """
    world = World(seed, trace, harsh=harsh)
    with in_world(world.kernel, world.here, mutations):
        outcome = world.run()
    return replace(outcome, seed=seed)


def run_schedules(seeds: Sequence[int], ends: float | None) -> list[Outcome]:
    """Run several; none starts after a time of the clock, in seconds."""
    outcomes = []
    with _collected_at_the_end():
        for seed in seeds:
            if ends is not None and time.time() >= ends:
                break
            outcomes.append(run_schedule(seed))
    return outcomes


def first_bad(seeds: Sequence[int], mutations: Mutation) -> Outcome | None:
    """Run harsh schedules with something broken until one of them notices."""
    with _collected_at_the_end():
        outcomes = (run_schedule(seed, mutations=mutations, harsh=True) for seed in seeds)
        return next((outcome for outcome in outcomes if outcome.faults), None)


@contextmanager
def _collected_at_the_end() -> Iterator[None]:
    """Keep the garbage: a schedule leaves little of it, and to look for it would be a fifth of the time."""
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.collect()
        gc.unfreeze()
