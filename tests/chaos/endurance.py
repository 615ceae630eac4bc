"""A worker whose tasks move data while nobody asks it anything must not grow.

`python -m tests.chaos.endurance --minutes 60` runs a worker, with a broker, for that long. It requests the creation of
the connector and later its stop, and nothing in between: no metrics, no status. The worker's memory is sampled from
outside. At the end a line through the last two thirds of the samples must rise by less than the bound, and each record
must be in the topic exactly once. A run below ten minutes only shows that the program works: a worker warms up for
minutes.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from fencepost.embedded.broker import EmbeddedBroker
from tests.chaos.bystander import running_bystander
from tests.chaos.growth import MIB, Growth

_HEAP_MB = 160
_SAMPLE_SECONDS = 30.0

Tell = Callable[[str], None]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.endurance", description=__doc__)
    parser.add_argument("--minutes", type=float, default=60, help="how long the worker is left alone (60)")
    parser.add_argument("--tasks", type=int, default=20, help="how many tasks move data (20)")
    parser.add_argument("--poll-ms", type=int, default=5000, help="the pause between the polls of a task (5000)")
    parser.add_argument("--bound", type=float, default=2.0, help="the growth that is too much, in MiB an hour (2)")
    options = parser.parse_args()
    start = time.monotonic()

    def tell(text: str) -> None:
        sys.stdout.write(f"{time.monotonic() - start:7.0f} s  {text}\n")
        sys.stdout.flush()

    with tempfile.TemporaryDirectory(prefix="fencepost-endurance-") as folder:
        growth = _endure(Path(folder), options.minutes * 60, options.tasks, options.poll_ms, tell)
    sound = growth.per_hour <= options.bound
    tell(f"{'Sound' if sound else 'NOT sound'}: the worker grew by {growth}, the bound is {options.bound:g}")
    return 0 if sound else 1


def _endure(folder: Path, seconds: float, tasks: int, poll_ms: int, tell: Tell) -> Growth:
    with contextlib.ExitStack() as stack:
        broker = EmbeddedBroker(folder / "broker", heap_mb=_HEAP_MB)
        broker.start()
        stack.callback(broker.kill)
        bystander = stack.enter_context(running_bystander(folder, broker.bootstrap_servers, tasks, poll_ms))
        worker = bystander.worker.process
        tell(f"Worker {worker.pid} runs {tasks} tasks, which poll every {poll_ms} ms; the program is {os.getpid()}")
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            time.sleep(min(_SAMPLE_SECONDS, left))
            bystander.sample()
            tell(f"{bystander.samples[-1].resident / MIB:.2f} MiB")
        tell(f"{bystander.stopped()} records, 0 lost, 0 doubled")
        logged = worker.output
        tell(f"The worker logged {len(logged)} characters, and {logged.count(' ERROR ')} errors")
    return Growth.of(bystander.samples)


if __name__ == "__main__":
    sys.exit(main())
