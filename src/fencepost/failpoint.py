"""Points at which a test can make the process die, to prove that nothing is lost or doubled there.

Inert unless the environment variable FENCEPOST_TEST_FAIL_POINT is set when the process starts, as
`<point>:<n>`: the process is killed with SIGKILL when it reaches the point for the n-th time. The process group of
FENCEPOST_TEST_FAIL_GROUP is killed with it: a Spark driver and its JVM, of which a Python worker is at the point.
"""

from __future__ import annotations

import os
import signal
from enum import StrEnum
from typing import Final

VARIABLE: Final = "FENCEPOST_TEST_FAIL_POINT"
GROUP: Final = "FENCEPOST_TEST_FAIL_GROUP"


class FailPoint(StrEnum):
    """The steps of a transaction, in order."""

    BEFORE_BEGIN = "before-begin"
    AFTER_BEGIN = "after-begin"
    MID_SEND = "mid-send"
    BEFORE_OFFSETS = "before-offsets"
    BEFORE_END_TXN = "before-end-txn"
    AFTER_END_TXN_SENT = "after-end-txn-sent"
    BEFORE_CALLBACKS = "before-callbacks"


# A worker's own transaction, which records how many tasks may start, goes through these before its tasks do.
_SHARED: Final = frozenset({FailPoint.MID_SEND, FailPoint.AFTER_END_TXN_SENT})


def of_task(point: FailPoint, number: int = 1) -> dict[str, str]:
    """The environment in which a standalone worker of one connector dies when a task is at a point for the n-th time.

    A worker that dies in the middle of its own transaction is another thing: the next one waits until that expires.
    """
    return {VARIABLE: f"{point.value}:{number + (point in _SHARED)}"}


class _Countdown:
    def __init__(self, setting: str | None) -> None:
        point, _, count = (setting or "").partition(":")
        self._point = point
        self._left = int(count or 1)

    def reach(self, point: FailPoint) -> None:
        if point.value != self._point:
            return
        self._left -= 1
        if self._left == 0:
            group = os.environ.get(GROUP)
            if group is not None:
                os.killpg(int(group), signal.SIGKILL)
            os.kill(os.getpid(), signal.SIGKILL)


_COUNTDOWN: Final = _Countdown(os.environ.get(VARIABLE))


def reach(point: FailPoint) -> None:
    """Die here if a test asked for it."""
    _COUNTDOWN.reach(point)
