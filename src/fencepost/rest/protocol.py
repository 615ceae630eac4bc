"""Answers malformed HTTP: in JSON like everything else, and without a traceback in the log.

aiohttp detects it before there is a request for an application.
"""

from __future__ import annotations

import logging
import sys
from typing import Any, Final

from aiohttp import web

from fencepost.api.secrets import SECRETS
from fencepost.rest.responses import error_response

_log: Final = logging.getLogger(__name__)

MAX_BODY_BYTES: Final = 16 * 1024 * 1024
"""The limit of a request's body: several times the record limit of a Kafka topic, for the configurations of hundreds of tasks."""

_SHOWN: Final = 200


class HttpProtocol(web.RequestHandler):
    """One connection of a client."""

    __slots__ = ()

    def log_exception(self, *args: Any, **kw: Any) -> None:
        """Log internal errors, but not bodies with a wrong encoding: their senders get an error answer."""
        if isinstance(sys.exc_info()[1], web.RequestPayloadError):
            # aiohttp passes the exception only in some of its calls.
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
        """Answer bytes that are not a request; the connection is closed."""
        if status >= 500 or request.writer.output_size > 0:
            return super().handle_error(request, status, exc, message)
        _log.debug("%s sent what is no HTTP request", request.remote, exc_info=exc)
        said = SECRETS.excerpt(" ".join((message or "").split()), _SHOWN)
        response = error_response(status, f"This cannot be read as an HTTP request: {said}")
        response.force_close()
        return response
