"""One connection of a client: its time limits, and the answers to malformed HTTP.

Malformed HTTP gets an answer in JSON, like everything else, and no traceback in the log. aiohttp detects it before
there is a request that an application could handle.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from typing import Any, Final, Protocol

from aiohttp import web

from fencepost.api.secrets import SECRETS
from fencepost.rest.responses import error_response

_log: Final = logging.getLogger(__name__)

MAX_BODY_BYTES: Final = 16 * 1024 * 1024
"""The limit of a request's body: several times the record limit of a Kafka topic, for the configurations of hundreds of tasks."""

HEAD_TIMEOUT_SECONDS: Final = 30.0
"""How long a connection may wait for the complete head of the next request. Jetty, in Connect, also waits 30 s."""

ANSWER_TIMEOUT_SECONDS: Final = 30.0
"""How long a client may take to read an answer before its connection may be closed in favour of another one."""

_SHOWN: Final = 200


class OpenConnections(Protocol):
    """Counts open connections."""

    def opened(self, protocol: HttpProtocol) -> None:
        """Count a connection, or record that it has begun to wait for its client's next request."""

    def closed(self, connection: HttpProtocol) -> None:
        """Stop counting a connection."""


class HttpProtocol(web.RequestHandler):
    """One connection of a client."""

    __slots__ = ("_answering_since", "_connections")

    def __init__(self, server: web.Server, connections: OpenConnections, loop: asyncio.AbstractEventLoop) -> None:
        # Without an access_log, requests are not logged.
        super().__init__(server, loop=loop, access_log=None, keepalive_timeout=HEAD_TIMEOUT_SECONDS)  # type: ignore[arg-type]
        self._connections = connections
        self._answering_since = float("inf")

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin to wait for the first request."""
        super().connection_made(transport)
        self._connections.opened(self)

    def connection_lost(self, exc: BaseException | None) -> None:
        """Forget the connection."""
        super().connection_lost(exc)
        self._connections.closed(self)

    async def finish_response(
        self, request: web.BaseRequest, resp: web.StreamResponse, start_time: float | None
    ) -> tuple[web.StreamResponse, bool]:
        """Send the rest of an answer, and begin to wait for the next request."""
        self._answering_since = self._loop.time()
        try:
            return await super().finish_response(request, resp, start_time)
        finally:
            self._answering_since = float("inf")
            if self.transport is not None:
                self._connections.opened(self)

    def waits_for_client(self) -> bool:
        """Return whether the connection waits for its client.

        The client must send the rest of a request, or read an answer.
        """
        request = self._current_request
        if request is not None:
            return not request.content.is_eof()
        return not self._request_in_progress or self._loop.time() > self._answering_since + ANSWER_TIMEOUT_SECONDS

    def abort(self) -> None:
        """Close the connection, without sending the rest."""
        if isinstance(self.transport, asyncio.Transport):
            self.transport.abort()

    def log_exception(self, *args: Any, **kw: Any) -> None:
        """Log internal errors, but not bodies with a wrong encoding: their senders get an error answer."""
        if isinstance(sys.exc_info()[1], web.RequestPayloadError):
            # aiohttp passes the exception only in some of its calls, so it is added here.
            _log.debug(*args, **{"exc_info": True, **kw})
        else:
            super().log_exception(*args, **kw)

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Answer bytes that are not a valid request. The connection is closed."""
        if status >= 500 or request.writer.output_size > 0:
            return super().handle_error(request, status, exc, message)
        _log.debug("%s sent bytes that are not an HTTP request", request.remote, exc_info=exc)
        said = SECRETS.excerpt(" ".join((message or "").split()), _SHOWN)
        response = error_response(status, f"This cannot be read as an HTTP request: {said}")
        response.force_close()
        return response
