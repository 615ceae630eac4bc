"""The soak's clocks apply to the processes that are started with them."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from tests.support.movable_clock import MovableClock

_TELLS_THE_TIME = "import sys, time\nfor line in sys.stdin: print(time.time(), time.monotonic(), flush=True)"
_HOUR = 3600


def test_a_clock_is_moved_under_a_process_and_kept_for_the_next(tmp_path: Path) -> None:
    clock = MovableClock(tmp_path / "clock")
    shown = []
    for moves in ([0, 2, -3, 0, 5], [5, 0]):
        clock.begin()
        with subprocess.Popen(
            [sys.executable, "-c", _TELLS_THE_TIME],
            env=os.environ | clock.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        ) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            for hours in moves:
                clock.move(hours * _HOUR)
                before = time.monotonic()
                process.stdin.write(b"\n")
                process.stdin.flush()
                told, monotonic = map(float, process.stdout.readline().split())
                assert before <= monotonic <= time.monotonic()
                shown.append(round((told - time.time()) / _HOUR))
            process.stdin.close()

    assert shown == [0, 2, -3, 0, 5, 5, 0]
