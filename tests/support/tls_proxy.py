"""TLS in front of a PostgreSQL server that has none: the program in tests is built without it.

The proxy speaks the beginning of PostgreSQL's protocol, up to the TLS handshake; what follows is passed on decrypted.
Clients that do not ask for TLS are sent away.

https://www.postgresql.org/docs/current/protocol-flow.html#PROTOCOL-FLOW-SSL
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import struct
import threading
from collections.abc import Coroutine
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from fencepost.embedded.ports import HOST, free_ports

_SSL_REQUEST: Final = 80_877_103
_GSS_REQUEST: Final = 80_877_104
_SECONDS: Final = 120.0

T = TypeVar("T")


class TlsProxy:
    """Listens with a context's certificate, and forwards the decrypted bytes to a port."""

    def __init__(self, target: int, context: ssl.SSLContext) -> None:
        self.port = free_ports(1)[0]
        self.handshakes = 0
        self._target = target
        self._context = context
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)

    def __enter__(self) -> Self:
        self._thread.start()
        self._server = self._run(asyncio.start_server(self._serve, HOST, self.port))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._server.close)
        self.reset()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def reset(self) -> None:
        """Cut all connections."""
        self._run(self._end())

    def _run(self, what: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(what, self._loop).result(_SECONDS)

    async def _end(self) -> None:
        tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        # Transports are closed in the loop's next iteration.
        await asyncio.sleep(0)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            if await self._secured(reader, writer):
                self.handshakes += 1
                await self._pass_on(reader, writer)
        writer.transport.abort()

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        server_reader, server_writer = await asyncio.open_connection(HOST, self._target)
        pumps = [asyncio.create_task(_pump(reader, server_writer)), asyncio.create_task(_pump(server_reader, writer))]
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for pump in pumps:
                pump.cancel()
            server_writer.transport.abort()

    async def _secured(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        while True:
            _, code = struct.unpack(">II", await reader.readexactly(8))
            if code == _SSL_REQUEST:
                writer.write(b"S")
                await writer.drain()
                await writer.start_tls(self._context)
                return True
            if code != _GSS_REQUEST:
                return False
            writer.write(b"N")
            await writer.drain()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
