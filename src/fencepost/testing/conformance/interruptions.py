"""Delays Ctrl-C and SIGTERM where an interruption would leave something behind."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_NUMBERS: Final = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def interruptions_held() -> Iterator[None]:
    """Delay signals until the end of the block.

    Only the main thread gets signals, so other threads need not do this.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    handlers = {number: signal.signal(number, lambda number, _: came.append(number)) for number in _NUMBERS}
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        if came:
            signal.raise_signal(came[0])
