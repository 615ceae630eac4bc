"""Accepts the connections of clients, and limits their number.

A connection occupies a file descriptor for as long as its client likes. If there are too many connections, the one that
has waited longest for its client is closed:

    accept -> TLS handshake (waits) -> request (waits until it is there as a whole) -> handler -> answer (waits for a
    client that does not read it) -> the next request (waits) ...

If no open connection waits for its client, new connections stay in the system's queue until an open one waits or ends.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from fencepost.config import file_descriptors
from fencepost.rest.protocol import HttpProtocol
from fencepost.rest.spare_descriptors import SpareDescriptors

_log: Final = logging.getLogger(__name__)

_HANDSHAKE_SECONDS: Final = 10.0
_AGAIN_SECONDS: Final = 0.1
_GRACE_SECONDS: Final = 0.5

Opening = asyncio.Task[None]
"""The TLS handshake of an accepted connection. It has no protocol object until the handshake is done."""


MakeProtocol = Callable[["Connections"], HttpProtocol]


class Connections:
    """The connections of a worker's listeners."""

    def __init__(self) -> None:
        self._spare = SpareDescriptors()
        # For each connection, when it was opened, or when it began to wait for its next request; ordered by this time.
        self._open: dict[Opening | HttpProtocol, float] = {}
        self._changed = asyncio.Event()
        self._accepting: list[asyncio.Task[None]] = []

    def accept(self, listening: socket.socket, tls: ssl.SSLContext | None, make: MakeProtocol) -> None:
        """From now on, accept connections at a listening socket. Each one has its own protocol object."""
        listening.setblocking(False)
        self._accepting.append(asyncio.create_task(self._accept(listening, tls, make)))

    async def stop(self) -> None:
        """Stop accepting connections, and end connections without a protocol object. aiohttp ends all others."""
        ending = [*self._accepting, *(each for each in self._open if isinstance(each, asyncio.Task))]
        for task in ending:
            task.cancel()
        await asyncio.gather(*ending, return_exceptions=True)
        self._spare.release()

    def opened(self, protocol: HttpProtocol) -> None:
        """Count a connection, or record that it has begun to wait for its client's next request."""
        self.closed(protocol)
        self._open[protocol] = asyncio.get_running_loop().time()

    def closed(self, connection: HttpProtocol | Opening) -> None:
        """Stop counting a connection, so that another one may be accepted."""
        self._open.pop(connection, None)
        self._changed.set()

    async def _accept(self, listening: socket.socket, tls: ssl.SSLContext | None, make: MakeProtocol) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                client, _ = await loop.sock_accept(listening)
            except OSError as error:
                if file_descriptors.is_exhaustion(error):
                    self._spare.use()
                _log.debug("A connection could not be accepted", exc_info=True)
                await asyncio.sleep(_AGAIN_SECONDS)
                continue
            self._take(client, tls, make)
            await self._make_room()

    def _take(self, client: socket.socket, tls: ssl.SSLContext | None, make: MakeProtocol) -> None:
        def opened(opening: Opening) -> None:
            self.closed(opening)
            if opening.cancelled():
                client.close()

        opening = asyncio.create_task(_open(client, tls, lambda: make(self)))
        self._open[opening] = asyncio.get_running_loop().time()
        opening.add_done_callback(opened)

    async def _make_room(self) -> None:
        while len(self._open) > file_descriptors.for_requests():
            if not self._close_one():
                self._changed.clear()
                with suppress(TimeoutError):
                    async with asyncio.timeout(_GRACE_SECONDS):
                        await self._changed.wait()

    def _close_one(self) -> bool:
        """Close the connection that has waited longest for its client. Return whether there is one.

        A connection that has waited only for a short time stays open: its client may be about to send a request.
        """
        latest = asyncio.get_running_loop().time() - _GRACE_SECONDS
        for connection, since in self._open.items():
            if since <= latest and (isinstance(connection, asyncio.Task) or connection.waits_for_client()):
                connection.cancel() if isinstance(connection, asyncio.Task) else connection.abort()
                self.closed(connection)
                return True
        return False


async def _open(client: socket.socket, tls: ssl.SSLContext | None, protocol: Callable[[], HttpProtocol]) -> None:
    """Give an accepted connection its protocol object, after the TLS handshake if there is one."""
    limits = {} if tls is None else {"ssl_handshake_timeout": _HANDSHAKE_SECONDS}
    try:
        await asyncio.get_running_loop().connect_accepted_socket(protocol, client, ssl=tls, **limits)
    except OSError:
        _log.debug("A connection ended before its first request", exc_info=True)
        client.close()
