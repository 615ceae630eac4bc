"""Signals that ask a worker to stop."""

from __future__ import annotations

import asyncio
import signal


def stop_on_signals(stopping: asyncio.Event) -> None:
    """Set the event at the first SIGTERM or Ctrl-C; the second one ends the process at once."""
    loop = asyncio.get_running_loop()

    def on_signal() -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)
            signal.signal(number, signal.default_int_handler)
        stopping.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_signal)
