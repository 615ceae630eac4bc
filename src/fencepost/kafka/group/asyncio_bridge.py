"""Passes calls from a group member's thread, which runs kafka-python's event loop, to its listener's asyncio loop."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, Final

import kafka.errors as client_errors
from kafka.future import Future
from kafka.net.selector import NetworkSelector

from fencepost.kafka.group.connections import ConnectionManager

_log: Final = logging.getLogger(__name__)


class ListenerLoop:
    """The asyncio loop of a listener, as the member's thread uses it. Calls to a closed loop are dropped."""

    def __init__(self, loop: asyncio.AbstractEventLoop, net: NetworkSelector, manager: ConnectionManager) -> None:
        self._loop = loop
        self._net = net
        self._manager = manager

    def call(self, callback: Callable[..., None], *arguments: Any) -> None:
        """Schedule a function on the loop."""
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(callback, *arguments)

    async def run_stop(
        self, stopping: Coroutine[Any, Any, None], goes_on: Callable[[], bool], *, check_every_ms: int
    ) -> None:
        """On the loop, run a coroutine that stops work, and wait for it.

        The wait also ends when `goes_on` returns False, which is checked every `check_every_ms` milliseconds.
        """
        finished = Future()
        try:
            running = asyncio.run_coroutine_threadsafe(stopping, self._loop)
        except RuntimeError:
            stopping.close()
            return
        running.add_done_callback(lambda _: self._on_net(lambda: finished.success(None)))
        while not running.done() and goes_on():
            with suppress(client_errors.KafkaTimeoutError):
                await self._manager.wait_for(finished, check_every_ms)
        if not running.done():
            _log.warning("Work was not stopped in time; going on without waiting for it")
        elif not running.cancelled() and running.exception() is not None:
            _log.error("Work could not be stopped", exc_info=running.exception())

    def _on_net(self, step: Callable[[], object]) -> None:
        with suppress(RuntimeError):  # the member was closed meanwhile
            self._net.call_soon_threadsafe(step)
