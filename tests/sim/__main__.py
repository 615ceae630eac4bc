"""Runs schedules of the model, each made by a seed.

python -m tests.sim --schedules 100000 --jobs 2     all that is said about them must hold in each
python -m tests.sim --seed 7                        one of them, with all that happens in it
python -m tests.sim --mutations                     the worker with a step taken out: the model must notice
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import time
from collections import Counter, deque
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed

from tests.sim.mutations import MUTATIONS, keep, noticing_seeds
from tests.sim.runs import first_bad, run_schedule, run_schedules
from tests.sim.schedule import Outcome

_CHUNK = 100
_TELL_EVERY = 5000
_TRACE_LINES = 80
_MOST_BAD = 3
_MUTATED_SCHEDULES = 3000


def main() -> int:
    """Run the command line; the exit status is 1 if a check fails."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.sim", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seed", type=int, help="run this schedule alone, and show its trace")
    parser.add_argument("--mutation", choices=MUTATIONS, help="with --seed: take out this step")
    parser.add_argument("--mutations", action="store_true", help="look for a schedule that notices each mutation")
    parser.add_argument("--keep", action="store_true", help="with --mutations: begin there the next time")
    parser.add_argument("--schedules", type=int, default=1000, help="how many to run (1000)")
    parser.add_argument("--first", type=int, default=0, help="the seed of the first one (0)")
    parser.add_argument("--seconds", type=float, help="begin none after so many seconds")
    parser.add_argument("--jobs", type=int, default=1, help="how many processes share them (1)")
    options = parser.parse_args()
    if options.seed is not None:
        return _replay(options.seed, options.mutation)
    if options.mutations:
        return _mutate(keeps=options.keep)
    ends = None if options.seconds is None else time.time() + options.seconds
    return _run_all(range(options.first, options.first + options.schedules), options.jobs, ends)


def _replay(seed: int, mutation: str | None) -> int:
    if mutation is None:
        outcome = run_schedule(seed, trace=_say)
    else:
        outcome = run_schedule(seed, trace=_say, mutations=MUTATIONS[mutation], harsh=True)
    _say("\n".join(outcome.faults) or f"All holds: {outcome.records} records in {outcome.seconds:.0f} s")
    return bool(outcome.faults)


def _run_all(seeds: range, jobs: int, ends: float | None) -> int:
    done, records = 0, 0
    troubles: Counter[str] = Counter()
    bad: list[Outcome] = []
    for outcomes in _outcomes(_chunks(seeds), jobs, ends):
        records += sum(outcome.records for outcome in outcomes)
        troubles += sum((outcome.troubles for outcome in outcomes), Counter())
        bad += [outcome for outcome in outcomes if outcome.faults]
        if (done + len(outcomes)) // _TELL_EVERY > done // _TELL_EVERY:
            _say(f"{done + len(outcomes)} schedules, {len(bad)} of them bad")
        done += len(outcomes)
        if len(bad) >= _MOST_BAD:
            break
    for outcome in bad[:_MOST_BAD]:
        _show(outcome)
    _say(", ".join(f"{kind}: {count}" for kind, count in sorted(troubles.items())))
    _say(f"{done} schedules with {records} records: {len(bad)} in which something does not hold")
    return bool(bad)


def _chunks(seeds: range) -> list[range]:
    return [seeds[at : at + _CHUNK] for at in range(0, len(seeds), _CHUNK)]


def _outcomes(chunks: list[range], jobs: int, ends: float | None) -> Iterator[list[Outcome]]:
    if jobs == 1:
        yield from (run_schedules(chunk, ends) for chunk in chunks)
        return
    with ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        try:
            for chunk in as_completed([pool.submit(run_schedules, chunk, ends) for chunk in chunks]):
                yield chunk.result()
        finally:
            pool.shutdown(cancel_futures=True)


def _show(outcome: Outcome) -> None:
    """Run a failed schedule again to print its trace."""
    trace: deque[str] = deque(maxlen=_TRACE_LINES)
    run_schedule(outcome.seed, trace=trace.append)
    _say(f"\nSeed {outcome.seed}, the end of it (all of it: make sim SEED={outcome.seed})")
    _say("\n".join(trace))


def _mutate(*, keeps: bool) -> int:
    seeds = noticing_seeds()
    missed = 0
    for name, mutation in MUTATIONS.items():
        first = seeds.get(name, 0)
        found = next(filter(None, (first_bad(chunk, mutation) for chunk in _search(first))), None)
        if found is None:
            _say(f"Without {name}: nothing is noticed in {_MUTATED_SCHEDULES} schedules")
            missed += 1
        else:
            seeds[name] = found.seed
            _say(f"Without {name}, seed {found.seed}: {found.faults[0]}")
    if keeps:
        keep(seeds)
    return bool(missed)


def _search(first: int) -> list[range]:
    """Try the seed that noticed the mutation before, then all seeds from the first one on."""
    return [range(first, first + 1), *_chunks(range(_MUTATED_SCHEDULES))]


def _say(text: str) -> None:
    print(text, flush=True)  # noqa: T201 - a script that prints


if __name__ == "__main__":
    if os.environ.get("PYTHONHASHSEED") != "0":
        # A random hash seed would change the order of a set's elements, and with it the schedule, in each run.
        command = [sys.executable, "-m", "tests.sim", *sys.argv[1:]]
        os.execve(sys.executable, command, {**os.environ, "PYTHONHASHSEED": "0"})  # noqa: S606 - the same program
    sys.exit(main())
