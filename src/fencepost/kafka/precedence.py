"""Lets the heartbeat of a worker's group go first when it is due.

All threads of a process share one interpreter, which has no priorities. The thread that sends the heartbeat needs the
interpreter a dozen times for each heartbeat, and each time it may wait for every busy task. On a busy machine with many
tasks, these waits together would take longer than the session time-out. So threads of tasks, and threads that send
requests to brokers, wait while the heartbeat is due and not answered.
"""

from __future__ import annotations

import threading
import time
from typing import Final

LONGEST_SECONDS: Final = 2.0
"""The maximum time that threads wait for a heartbeat: a silent coordinator must not delay tasks for longer."""

_NEVER: Final = float("inf")


class Precedence:
    """One thread announces an urgent request. Other threads wait until the request is answered. Thread-safe."""

    def __init__(self, longest_s: float = LONGEST_SECONDS) -> None:
        self._longest_s = longest_s
        self._changed = threading.Condition()
        self._due_at = _NEVER

    def announce(self, due_at: float | None) -> None:
        """Announce when the next urgent request is due, on the monotonic clock; None if there is none.

        Each announcement replaces the previous one.
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
"""The object for the whole process, because a process has only one interpreter lock."""
