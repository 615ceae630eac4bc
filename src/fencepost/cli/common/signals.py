"""Signals that ask a command to stop."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable, Coroutine
from types import FrameType
from typing import Any, Final

_WATCH_SECONDS: Final = 1.0


def await_stop(watch: Callable[[], None]) -> None:
    """Wait for SIGTERM or Ctrl-C. Before this call, either of them ends the process immediately.

    Raises the errors of `watch`.

    `watch` is called every second.
    """
    asked_to_stop = threading.Event()

    def stop(_number: int, _frame: FrameType | None) -> None:
        asked_to_stop.set()

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    while not asked_to_stop.wait(_WATCH_SECONDS):
        watch()


async def until_signal(start: Coroutine[Any, Any, None], ended: asyncio.Future[Any]) -> None:
    """Run `start`, and return when `ended` is done, or at the first SIGTERM or Ctrl-C.

    A second signal ends the process immediately.

    Raises the errors of `start`. A signal cancels `start` if it still runs.
    """
    stopping = asyncio.Event()
    _stop_on_signals(stopping)
    signalled: asyncio.Future[Any] = asyncio.ensure_future(stopping.wait())
    starting: asyncio.Future[Any] = asyncio.ensure_future(start)
    await asyncio.wait([starting, signalled], return_when=asyncio.FIRST_COMPLETED)
    if starting.done():
        await starting
        await asyncio.wait([ended, signalled], return_when=asyncio.FIRST_COMPLETED)
    starting.cancel()
    signalled.cancel()


def _stop_on_signals(stopping: asyncio.Event) -> None:
    loop = asyncio.get_running_loop()

    def on_signal() -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)
            signal.signal(number, signal.default_int_handler)
        stopping.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_signal)
