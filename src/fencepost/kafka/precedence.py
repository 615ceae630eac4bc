"""Lets the heartbeat of a worker's group go first, when it is due.

All threads of a process share one interpreter, which has no priorities. The thread with the heartbeat needs it a dozen
times for one, and each time waits behind every task that has something to do. On a busy machine with many tasks that
would take longer than the session time-out. So threads of tasks, and threads that send requests to brokers, wait while
the heartbeat is due and not answered.
"""

from __future__ import annotations

import threading
import time
from typing import Final

LONGEST_SECONDS: Final = 2.0
"""How long threads wait for one heartbeat: a coordinator that does not answer must not delay tasks."""

_NEVER: Final = float("inf")


class Precedence:
    """One thread announces when it has something urgent to do; others wait until it has. Thread-safe."""

    def __init__(self, longest_s: float = LONGEST_SECONDS) -> None:
        self._longest_s = longest_s
        self._changed = threading.Condition()
        self._due_at = _NEVER

    def announce(self, due_at: float | None) -> None:
        """Announce when the next urgent request is due, on the monotonic clock; None if none is.

        It takes the place of the one that was announced before.
        """
        with self._changed:
            self._due_at = _NEVER if due_at is None else due_at
            self._changed.notify_all()

    def give_way(self) -> None:
        """Wait while something urgent is due, for `longest_s` seconds at most."""
        due_at = self._due_at
        late_s = time.monotonic() - due_at
        if 0.0 <= late_s < self._longest_s:
            with self._changed:
                self._changed.wait_for(lambda: self._due_at != due_at, self._longest_s - late_s)


HEARTBEAT: Final = Precedence()
"""The process's own: the interpreter's lock is one per process, too."""
