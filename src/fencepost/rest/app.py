"""Assembles the REST application: the middleware between requests and a herder."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from aiohttp import hdrs, web
from aiohttp.typedefs import Middleware

from fencepost.api.errors import ConfigError, DataError, FencepostError
from fencepost.herder.errors import RequestFailedError, RequestTargetError
from fencepost.herder.interface import HealthStatus, WorkerHealth
from fencepost.herder.peers.rest_client import MISSING_RIGHT_HEADER, REQUEST_TIMEOUT_SECONDS, RestClient
from fencepost.kafka.errors import AuthorizationError
from fencepost.rest import bodies
from fencepost.rest.auth import authenticate
from fencepost.rest.forwarding import forward
from fencepost.rest.responses import error_response, json_response, status_of
from fencepost.rest.routes import MAX_BODY_BYTES, Handler, Route, add_routes

_log: Final = logging.getLogger(__name__)

RequestHandler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]
"""An application's request handler, as aiohttp's server calls it."""

_STARTING: Final = "The worker is starting"
_KEPT_HEADERS: Final = (hdrs.ALLOW, hdrs.WWW_AUTHENTICATE)


@dataclass(frozen=True, slots=True)
class Gate:
    """Access control: `credentials` are passwords by user; None: no authentication."""

    client: RestClient
    credentials: Mapping[str, str] | None = field(default=None, repr=False)
    timeout_seconds: float = REQUEST_TIMEOUT_SECONDS


def make_app(routes: Iterable[Route], gate: Gate) -> web.Application:
    """Return an application that answers to the routes."""
    app = web.Application(
        middlewares=[_errors, _time_limit(gate.timeout_seconds), _authentication(gate.credentials), _forwarding(gate)],
        client_max_size=MAX_BODY_BYTES,
    )
    add_routes(app, routes)
    return app


def make_starting_app(successor: asyncio.Future[RequestHandler]) -> web.Application:
    """Return an application whose requests wait for its successor.

    It answers immediately only at / and /health, which tools request first: the worker is starting. Cancelling
    `successor` means that there will be none.
    """

    async def answer(request: web.Request) -> web.StreamResponse:
        response = await _starting(request, successor)
        # A client that stays connected would never reach the succeeding application.
        response.force_close()
        return response

    app = web.Application(client_max_size=MAX_BODY_BYTES)
    app.router.add_route("*", "/{path:.*}", answer)
    return app


async def _starting(request: web.Request, successor: asyncio.Future[RequestHandler]) -> web.StreamResponse:
    if request.path == "/health":
        return json_response(bodies.health(WorkerHealth(HealthStatus.STARTING, _STARTING)), status=503)
    if request.path != "/":
        await asyncio.wait([successor], timeout=REQUEST_TIMEOUT_SECONDS)
    if successor.done() and not successor.cancelled():
        return await successor.result()(request)
    return error_response(503, f"{_STARTING}: ask again soon")


@web.middleware
async def _errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Turn errors into JSON with their status."""
    try:
        return await handler(request)
    except web.HTTPException as error:
        headers = {str(name): error.headers[name] for name in _KEPT_HEADERS if name in error.headers}
        return error_response(error.status, _text(request, error), headers)
    except (ConfigError, DataError) as error:
        return error_response(400, str(error))
    except FencepostError as error:
        status = status_of(error)
        if status == 500:
            _log.warning("%s %s failed: %s", request.method, request.path, error, exc_info=error)
        missing = {MISSING_RIGHT_HEADER: "true"} if isinstance(error, AuthorizationError) else None
        return error_response(status, str(error), missing)
    except Exception as error:  # noqa: BLE001 - the client is told, and the log
        _log.exception("%s %s failed by a fault of this worker", request.method, request.path)
        return error_response(500, f"A fault of this worker: {type(error).__name__}. Its log says more")


def _text(request: web.Request, error: web.HTTPException) -> str:
    """Return the message; the texts of aiohttp's own errors only repeat the status."""
    if error.text and not error.text.startswith(f"{error.status}:"):
        return error.text
    if isinstance(error, web.HTTPMethodNotAllowed):
        return (
            f"{error.method} is not allowed on {request.path}, which takes {', '.join(sorted(error.allowed_methods))}"
        )
    if error.status == 404:
        return f"There is nothing at {request.path}"
    return f"{error.reason}: {request.method} {request.path}"


def _time_limit(seconds: float) -> Middleware:
    @web.middleware
    async def time_limit(request: web.Request, handler: Handler) -> web.StreamResponse:
        limit = asyncio.timeout(seconds)
        try:
            async with limit:
                return await handler(request)
        except TimeoutError:
            if not limit.expired():
                raise
            raise RequestFailedError(
                f"The request was not completed within {seconds:.0f} s; it may still take effect: check before you "
                "send it again"
            ) from None

    return time_limit


def _authentication(credentials: Mapping[str, str] | None) -> Middleware:
    @web.middleware
    async def authentication(request: web.Request, handler: Handler) -> web.StreamResponse:
        if credentials is not None:
            authenticate(request, credentials)
        return await handler(request)

    return authentication


def _forwarding(gate: Gate) -> Middleware:
    @web.middleware
    async def forwarding(request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            return await handler(request)
        except RequestTargetError as target:
            return await forward(request, target, gate.client)

    return forwarding
