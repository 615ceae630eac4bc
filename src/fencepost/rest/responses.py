"""Creates responses: JSON as Connect writes it, and the status of each error."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote

from aiohttp import hdrs, web

from fencepost.api.errors import FencepostError
from fencepost.api.secrets import SECRETS
from fencepost.herder.errors import (
    BadRequestError,
    ConflictError,
    ForbiddenError,
    NotFoundError,
    RequestTargetError,
    ServiceUnavailableError,
)
from fencepost.rest import bodies

JSON: Final = "application/json"

_STATUSES: Final[tuple[tuple[type[FencepostError], int], ...]] = (
    (BadRequestError, 400),
    (ForbiddenError, 403),
    (NotFoundError, 404),
    (ConflictError, 409),
    (RequestTargetError, 409),
    (ServiceUnavailableError, 503),
)


def status_of(error: FencepostError) -> int:
    """Return the status of an error: 500 unless the request caused it."""
    return next((status for kind, status in _STATUSES if isinstance(error, kind)), 500)


def json_response(body: Any, *, status: int = 200, headers: Mapping[str, str] | None = None) -> web.Response:
    """Return a response with a JSON body."""
    text = json.dumps(body, ensure_ascii=False, separators=(",", ":"))
    # A path can contain half of a surrogate pair, and an error repeats it.
    return web.Response(body=text.encode("utf-8", "replace"), status=status, headers=headers, content_type=JSON)


def error_response(status: int, message: str, headers: Mapping[str, str] | None = None) -> web.Response:
    """Return the response for an error."""
    return json_response(bodies.error(status, SECRETS.hidden(message)), status=status, headers=headers)


def empty(status: int) -> web.Response:
    """Return a response without a body, and without a content type."""
    return web.Response(status=status)


def created(request: web.Request, name: str, body: Any) -> web.Response:
    """Return 201 with the address of a new connector."""
    location = f"{origin(request)}/connectors/{quote(name, safe='')}"
    return json_response(body, status=201, headers={"Location": location})


def origin(request: web.Request) -> str:
    """Return scheme, host and port under which the client reached this worker."""
    host = request.headers.get(hdrs.HOST)
    if not host and request.transport is not None:
        address, port, *_ = request.transport.get_extra_info("sockname")
        host = f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
    return f"{request.scheme}://{host}"
