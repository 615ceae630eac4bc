"""Handles leftover threads of plugins. Python waits for them before a process ends, without a limit."""

from __future__ import annotations

import logging
import os
import threading
from typing import Final

_log: Final = logging.getLogger(__name__)

_PATIENCE_SECONDS: Final = 5.0


def end_without_threads(code: int, patience_s: float = _PATIENCE_SECONDS) -> None:
    """If threads are left over, end this process with an exit code after `patience_s` seconds at most.

    Returns at once.
    """
    left = [thread for thread in threading.enumerate() if not thread.daemon and thread is not threading.main_thread()]
    if left:
        names = ", ".join(thread.name for thread in left)
        threading.Thread(target=_end, args=(code, patience_s, names), name="end", daemon=True).start()


def _end(code: int, patience_s: float, names: str) -> None:
    threading.Event().wait(patience_s)
    _log.warning(
        "The process ends although threads of plugins still run: %s. A plugin that starts a thread should end it in "
        "stop(), or make it a daemon",
        names,
    )
    logging.shutdown()
    # A normal exit would wait for the threads.
    os._exit(code)
