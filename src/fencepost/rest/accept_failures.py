"""Lets the REST API go on where connectors have opened all files that the process may have.

asyncio logs an error, with its traceback, for each of a hundred attempts a second to accept a connection without a
descriptor for it.
"""

from __future__ import annotations

import asyncio
import logging
import os
from typing import Any, Final

from fencepost.config import file_descriptors

_log: Final = logging.getLogger(__name__)

_CANNOT_ACCEPT: Final = "socket.accept() out of system resource"
"""The message of asyncio's event loops."""

_KEPT: Final = 8
_LOG_SECONDS: Final = 30.0
_REFILL_SECONDS: Final = 5.0


class AcceptFailures:
    """Keeps some descriptors, which it releases for requests once there are no others. For one event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._former = loop.get_exception_handler()
        self._kept: list[int] = []
        self._logged_at = float("-inf")
        self._refilling: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Keep descriptors, and take the loop's reports of failed attempts."""
        self._refill()
        self._loop.set_exception_handler(self._handle)

    def stop(self) -> None:
        """Release the descriptors, and leave the loop as it was."""
        self._loop.set_exception_handler(self._former)
        if self._refilling is not None:
            self._refilling.cancel()
        self._release()

    def _handle(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        if context.get("message") == _CANNOT_ACCEPT:
            self._failed()
        elif self._former is not None:
            self._former(loop, context)
        else:
            loop.default_exception_handler(context)

    def _failed(self) -> None:
        self._release()
        if self._refilling is None:
            self._refilling = self._loop.call_later(_REFILL_SECONDS, self._refill)
        if self._loop.time() >= self._logged_at + _LOG_SECONDS:
            self._logged_at = self._loop.time()
            _log.warning("%s", file_descriptors.OutOfFileDescriptorsError("Requests to the REST API have to wait"))

    def _release(self) -> None:
        for descriptor in self._kept:
            os.close(descriptor)
        self._kept = []

    def _refill(self) -> None:
        """Keep descriptors again, once there are enough."""
        self._refilling = None
        if file_descriptors.free() > file_descriptors.reserved():
            self._kept = [os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC) for _ in range(_KEPT)]
        else:
            self._refilling = self._loop.call_later(_REFILL_SECONDS, self._refill)
