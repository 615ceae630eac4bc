"""How long a thread may keep the global interpreter lock (GIL) while others wait for it.

Each thread that waits for the lock wakes up once per interval to request it. Python's default interval is meant for few
threads: if 1,500 tasks are due after a pause of the process, their threads wake up 300,000 times a second, and use the
whole machine. Then the thread that has the lock makes no progress, and the heartbeat of the group comes too late.
"""

from __future__ import annotations

import sys
import threading
from typing import Final

_SHORTEST_SECONDS: Final = sys.getswitchinterval()
"""Python's default interval, unless the program that fencepost runs in has set another one."""

_WAKE_UPS_PER_SECOND: Final = 50_000
"""The wake-ups of all threads together, which take a small part of a core."""


_lock: Final = threading.Lock()


def adapt_switch_interval() -> None:
    """Set the interval of the process according to its current number of threads."""
    # Count and set under a lock: a thread with an outdated count must not set the interval last.
    with _lock:
        sys.setswitchinterval(max(_SHORTEST_SECONDS, threading.active_count() / _WAKE_UPS_PER_SECOND))
