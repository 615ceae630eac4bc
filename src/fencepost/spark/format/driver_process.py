"""Identifies the Spark application to which a Python process of the driver belongs."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Final

_PROCESSES: Final = Path("/proc")
_PARENT, _STARTED = 1, 19
"""The indexes of the parent and the start time among the fields after a process's name, proc_pid_stat(5)."""


def driver_process() -> str | None:
    """Return a text that identifies the JVM that started this Python process: its host, process id and start time.

    The result is None if the system does not show these, for example without /proc.
    """
    # Workers are forked by a daemon. It leads their process group, and is a child of the JVM.
    daemon = os.getppid()
    try:
        jvm = int(_fields(daemon)[_PARENT]) if os.getpgrp() == daemon else daemon
        return f"{socket.gethostname()}-{jvm}-{_fields(jvm)[_STARTED]}"
    except (OSError, ValueError, IndexError):
        return None


def _fields(process: int) -> list[str]:
    return (_PROCESSES / str(process) / "stat").read_text().rpartition(")")[2].split()
