"""Points at which a test can end or stop the process, to prove that nothing is lost or duplicated there.

Nothing happens unless one of two environment variables is set when the process starts. FENCEPOST_TEST_FAIL_POINT has
the form `<point>:<n>`: the process is killed with SIGKILL when it reaches the point for the n-th time.
FENCEPOST_TEST_FAIL_FOLDER is for processes that stop at a point: if the folder contains a file `<point> <sink>`, a thread
that reaches the point with this sink renames the file to `held <point> <sink>`, and stays there until that file is removed
or its process is killed. A Spark driver has several sinks; the sink of a worker is None.
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
_STEP_S: Final = 0.05


class FailPoint(StrEnum):
    """The steps of a transaction, in order."""

    BEFORE_BEGIN = "before-begin"
    AFTER_BEGIN = "after-begin"
    MID_SEND = "mid-send"
    BEFORE_OFFSETS = "before-offsets"
    BEFORE_END_TXN = "before-end-txn"
    AFTER_END_TXN_SENT = "after-end-txn-sent"
    BEFORE_CALLBACKS = "before-callbacks"


# The worker's own transaction, which records how many tasks may start, passes these points before the tasks do.
_SHARED: Final = frozenset({FailPoint.MID_SEND, FailPoint.AFTER_END_TXN_SENT})


def of_task(point: FailPoint, number: int = 1) -> dict[str, str]:
    """Return variables that make a standalone worker of one connector die when a task reaches a point the n-th time.

    If a worker died in the middle of its own transaction instead, the next worker would have to wait until that
    transaction expires.
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
        held = self._folder / f"held {point.value} {sink}"
        try:
            (self._folder / f"{point.value} {sink}").rename(held)
        except FileNotFoundError:
            return
        while held.exists():
            time.sleep(_STEP_S)


def _points() -> _Countdown | _Orders:
    folder = os.environ.get(FOLDER)
    return _Countdown(os.environ.get(VARIABLE)) if folder is None else _Orders(Path(folder))


_POINTS: Final = _points()


def reach(point: FailPoint, sink: str | None = None) -> None:
    """Die or stop here if a test requested it. Without `sink`, the sink of the thread's last call counts."""
    _POINTS.reach(point, sink)
