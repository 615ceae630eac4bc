"""Keeps the REST API working when connectors use up all file descriptors that the process may have."""

from __future__ import annotations

import asyncio
import logging
import os
from typing import Final

from fencepost.config import file_descriptors

_log: Final = logging.getLogger(__name__)

_KEPT: Final = 8
_LOG_SECONDS: Final = 30.0
_REFILL_SECONDS: Final = 5.0


class SpareDescriptors:
    """Reserves some descriptors for requests. Only for the running event loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._kept: list[int] = []
        self._logged_at = float("-inf")
        self._refilling: asyncio.TimerHandle | None = None
        self._refill()

    def use(self) -> None:
        """Release the reserved descriptors, because all others are used, until enough are free again."""
        self._close()
        if self._refilling is None:
            self._refilling = self._loop.call_later(_REFILL_SECONDS, self._refill)
        if self._loop.time() >= self._logged_at + _LOG_SECONDS:
            self._logged_at = self._loop.time()
            _log.warning("%s", file_descriptors.OutOfFileDescriptorsError("Requests to the REST API have to wait"))

    def release(self) -> None:
        """Release the reserved descriptors for good."""
        if self._refilling is not None:
            self._refilling.cancel()
        self._close()

    def _close(self) -> None:
        for descriptor in self._kept:
            os.close(descriptor)
        self._kept = []

    def _refill(self) -> None:
        """Reserve descriptors again when enough are free."""
        self._refilling = None
        if file_descriptors.free() > file_descriptors.reserved():
            self._kept = [os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC) for _ in range(_KEPT)]
        else:
            self._refilling = self._loop.call_later(_REFILL_SECONDS, self._refill)
