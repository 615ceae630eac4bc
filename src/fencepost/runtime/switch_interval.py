"""How long a thread keeps the interpreter while others wait for it.

Each thread that waits for the interpreter wakes up once in an interval to ask for it. Python's interval is for few
threads: after a pause of the process 1,500 tasks that are due wake up 300,000 times a second. That takes all of the
machine, so that the thread that has the interpreter does not get on, and the heartbeat of the group comes too late.
"""

from __future__ import annotations

import sys
import threading
from typing import Final

_SHORTEST_SECONDS: Final = sys.getswitchinterval()
"""Python's own interval, unless the program that fencepost runs in has set another one."""

_WAKE_UPS_PER_SECOND: Final = 50_000
"""Of all threads together: a small part of a core."""


_lock: Final = threading.Lock()


def adapt_switch_interval() -> None:
    """Set the interval of the process for its present number of threads."""
    # A thread that counted long ago must not have the last word.
    with _lock:
        sys.setswitchinterval(max(_SHORTEST_SECONDS, threading.active_count() / _WAKE_UPS_PER_SECOND))
