"""The REST application: its routes, and the middleware that requests pass before they reach a herder.

Each path also exists with a trailing slash, and supports OPTIONS. Requests from pages of other sites are refused. If
there are users, requests need basic authentication. There are two exceptions: requests between workers that change
something are signed instead, as in Kafka Connect, and a worker's health needs no authentication. Requests that only
read need a user even if they are signed: a worker that asks another on behalf of a user forwards the user's
credentials.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from aiohttp import BasicAuth, hdrs, web
from aiohttp.typedefs import Middleware

from fencepost.api.errors import ConfigError, DataError, FencepostError
from fencepost.config.rest_config import CrossOrigin
from fencepost.herder.errors import RequestFailedError, RequestTargetError
from fencepost.herder.peers.rest_client import (
    MISSING_RIGHT_HEADER,
    REQUEST_TIMEOUT_SECONDS,
    UNANSWERED,
    RestClient,
)
from fencepost.kafka.errors import AuthorizationError
from fencepost.rest.cross_origin import OwnAddresses, access, allow_reading
from fencepost.rest.forwarding import forward
from fencepost.rest.protocol import MAX_BODY_BYTES
from fencepost.rest.responses import JSON, error_response, status_of

_log: Final = logging.getLogger(__name__)

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

CONNECTOR: Final = "/connectors/{connector}"
"""The path of a connector, in aiohttp's pattern syntax."""

_KEPT_HEADERS: Final = (hdrs.ALLOW, hdrs.WWW_AUTHENTICATE)
_OPEN: Final = (
    ("GET", re.compile(r"/health/?")),
    ("HEAD", re.compile(r"/health/?")),
    ("PUT", re.compile(r"/connectors/[^/]+/fence/?")),
    ("POST", re.compile(r"/connectors/[^/]+/tasks/?")),
)
"""Requests that need no authentication."""


@dataclass(frozen=True, slots=True)
class Route:
    """A method, a path in aiohttp's pattern syntax, and their handler.

    `produces` is the content type that the client must accept; None leaves the choice to the handler.
    """

    method: str
    path: str
    handler: Handler
    produces: str | None = JSON


def name_of(request: web.Request) -> str:
    """Return the name of the connector in the path."""
    return request.match_info["connector"]


@dataclass(frozen=True, slots=True)
class Gate:
    """Access control. `credentials` are passwords by user; None means that there is no authentication."""

    client: RestClient
    credentials: Mapping[str, str] | None = field(default=None, repr=False)
    timeout_seconds: float = REQUEST_TIMEOUT_SECONDS
    cross_origin: CrossOrigin = field(default_factory=CrossOrigin)
    own: OwnAddresses = field(default_factory=OwnAddresses)


def make_app(routes: Iterable[Route], gate: Gate) -> web.Application:
    """Return an application with these routes."""
    app = web.Application(
        middlewares=[
            _errors,
            access(gate.cross_origin, gate.own),
            _authentication(gate.credentials),
            _forwarding(gate),
            _time_limit(gate.timeout_seconds),
        ],
        client_max_size=MAX_BODY_BYTES,
    )
    app.on_response_prepare.append(allow_reading(gate.cross_origin))
    _add_routes(app, routes)
    return app


def _add_routes(app: web.Application, routes: Iterable[Route]) -> None:
    """Add routes with and without a trailing slash, and add HEAD and OPTIONS where they apply."""
    by_path: dict[str, list[Route]] = {}
    for route in routes:
        by_path.setdefault(route.path, []).append(route)
    for path, here in by_path.items():
        options = Route(hdrs.METH_OPTIONS, path, _options([route.method for route in here]), produces=None)
        for spelling in dict.fromkeys((path, f"{path.rstrip('/')}/")):
            resource = app.router.add_resource(spelling)
            for route in (*here, options):
                handler = route.handler if route.produces is None else accepting(route.produces, route.handler)
                resource.add_route(route.method, handler)
                if route.method == hdrs.METH_GET:
                    resource.add_route(hdrs.METH_HEAD, handler)


def _accepts(header: str, content_type: str) -> bool:
    """Return whether an Accept header allows a content type."""
    kind = content_type.partition("/")[0]
    for part in header.split(","):
        name, *parameters = (text.strip().lower() for text in part.split(";"))
        if name in (content_type, f"{kind}/*", "*/*") and not _excluded(parameters):
            return True
    return False


def _excluded(parameters: list[str]) -> bool:
    return any(re.fullmatch(r"q=0(\.0*)?", parameter) for parameter in parameters)


def names(header: str, content_type: str) -> bool:
    """Return whether an Accept header names a content type itself, not just a wildcard that includes it."""
    return any(
        name.strip().lower() == content_type and not _excluded([text.strip().lower() for text in parameters])
        for name, *parameters in (part.split(";") for part in header.split(","))
    )


def accepting(content_type: str, handler: Handler) -> Handler:
    """Return a handler that serves clients that accept its content type, and answers 406 to others."""

    async def checked(request: web.Request) -> web.StreamResponse:
        header = request.headers.get(hdrs.ACCEPT, "").strip()
        if header and not _accepts(header, content_type):
            raise web.HTTPNotAcceptable(text=f"Answers here are {content_type}, which the header Accept leaves out")
        return await handler(request)

    return checked


def _options(methods: list[str]) -> Handler:
    allowed = [*methods, hdrs.METH_OPTIONS, *([hdrs.METH_HEAD] if hdrs.METH_GET in methods else [])]

    async def options(request: web.Request) -> web.Response:  # noqa: ARG001 - a handler's signature
        return web.Response(headers={hdrs.ALLOW: ", ".join(sorted(allowed))})

    return options


@web.middleware
async def _errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Turn errors into JSON answers with the right status."""
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
    except Exception as error:  # noqa: BLE001 - it is answered and logged
        _log.exception("%s %s failed because of a fault of this worker", request.method, request.path)
        return error_response(500, f"A fault of this worker: {type(error).__name__}. Its log says more")


def _text(request: web.Request, error: web.HTTPException) -> str:
    """Return a message for an error, because the texts of aiohttp's own errors only repeat the status."""
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
            _authenticate(request, credentials)
        return await handler(request)

    return authentication


def _forwarding(gate: Gate) -> Middleware:
    @web.middleware
    async def forwarding(request: web.Request, handler: Handler) -> web.StreamResponse:
        end = asyncio.get_running_loop().time() + gate.timeout_seconds
        try:
            return await handler(request)
        except RequestTargetError as target:
            return await _forward_until(end, request, target, gate)

    return forwarding


async def _forward_until(end: float, request: web.Request, target: RequestTargetError, gate: Gate) -> web.Response:
    """Forward a request, and name the other worker if it does not answer until `end`, on the loop's clock."""
    limit = asyncio.timeout_at(end)
    try:
        async with limit:
            return await forward(request, target, gate.client)
    except TimeoutError:
        if not limit.expired():
            raise
        raise RequestFailedError(
            f"The request was not completed within {gate.timeout_seconds:.0f} s: the worker at {target.forward_url}, to which it "
            f"was forwarded, did not answer. {UNANSWERED}"
        ) from None


def _authenticate(request: web.Request, credentials: Mapping[str, str]) -> None:
    """Raise 401 if a request needs a user, and does not have a user's name and password."""
    if any(request.method == method and path.fullmatch(request.rel_url.raw_path) for method, path in _OPEN):
        return
    if not _known(request.headers.get(hdrs.AUTHORIZATION, ""), credentials):
        raise web.HTTPUnauthorized(
            text="This worker asks for a user's name and password: send them by HTTP basic authentication",
            headers={hdrs.WWW_AUTHENTICATE: 'Basic realm="fencepost", charset="UTF-8"'},
        )


def _known(header: str, credentials: Mapping[str, str]) -> bool:
    try:
        given = BasicAuth.decode(header, encoding="utf-8")
    except ValueError:
        return False
    expected = credentials.get(given.login)
    # The passwords are always compared, so that the duration does not reveal which names exist.
    same = hmac.compare_digest(given.password.encode(), (expected or "").encode())
    return same and expected is not None
