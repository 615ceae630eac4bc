"""Points at which a test can make the process die, to prove that nothing is lost or doubled there.

Inert unless one of two environment variables is set when the process starts. FENCEPOST_TEST_FAIL_POINT, as `<point>:<n>`:
the process is killed with SIGKILL when it reaches the point for the n-th time. FENCEPOST_TEST_FAIL_FOLDER, for a Spark
driver with several sinks and their Python processes: where there is a file `<point> <sink>` in the folder, a thread that
reaches the point with this sink removes it, and stays there until its process is killed.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from enum import StrEnum
from pathlib import Path
from typing import Final

VARIABLE: Final = "FENCEPOST_TEST_FAIL_POINT"
FOLDER: Final = "FENCEPOST_TEST_FAIL_FOLDER"


class FailPoint(StrEnum):
    """The steps of a transaction, in order."""

    BEFORE_BEGIN = "before-begin"
    AFTER_BEGIN = "after-begin"
    MID_SEND = "mid-send"
    BEFORE_OFFSETS = "before-offsets"
    BEFORE_END_TXN = "before-end-txn"
    AFTER_END_TXN_SENT = "after-end-txn-sent"
    BEFORE_CALLBACKS = "before-callbacks"


# A worker's own transaction, which records how many tasks may start, passes these before its tasks do.
_SHARED: Final = frozenset({FailPoint.MID_SEND, FailPoint.AFTER_END_TXN_SENT})


def of_task(point: FailPoint, number: int = 1) -> dict[str, str]:
    """The environment in which a standalone worker of one connector dies when a task is at a point for the n-th time.

    This is different from a worker that dies in the middle of its own transaction: the next one waits until that
    expires.
    """
    return {VARIABLE: f"{point.value}:{number + (point in _SHARED)}"}


class _Countdown:
    def __init__(self, setting: str | None) -> None:
        point, _, count = (setting or "").partition(":")
        self._point = point
        self._left = int(count or 1)

    def reach(self, point: FailPoint, sink: str | None) -> None:
        del sink
        if point.value != self._point:
            return
        self._left -= 1
        if self._left == 0:
            os.kill(os.getpid(), signal.SIGKILL)


class _Orders:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._last: Final = threading.local()

    def reach(self, point: FailPoint, sink: str | None) -> None:
        if sink is None:
            sink = getattr(self._last, "sink", None)
        self._last.sink = sink
        try:
            (self._folder / f"{point.value} {sink}").unlink()
        except FileNotFoundError:
            return
        while True:
            time.sleep(1)


def _points() -> _Countdown | _Orders:
    folder = os.environ.get(FOLDER)
    return _Countdown(os.environ.get(VARIABLE)) if folder is None else _Orders(Path(folder))


_POINTS: Final = _points()


def reach(point: FailPoint, sink: str | None = None) -> None:
    """Die or stay here if a test requested it. Without a `sink` it is the sink of the thread's last step."""
    _POINTS.reach(point, sink)
