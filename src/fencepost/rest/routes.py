"""The table of routes, and their common handling: trailing slashes, OPTIONS, a limit for bodies."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Final

from aiohttp import hdrs, web

from fencepost.rest.responses import JSON

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

MAX_BODY_BYTES: Final = 16 * 1024 * 1024
"""Several times the record limit of a Kafka topic, for the configurations of hundreds of tasks."""

BODY_TIMEOUT_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True)
class Route:
    """The handler of a method on a path, in aiohttp's pattern syntax.

    `produces` is the content type that the client must accept; None leaves the choice to the handler.
    """

    method: str
    path: str
    handler: Handler
    produces: str | None = JSON


def add_routes(app: web.Application, routes: Iterable[Route]) -> None:
    """Add routes, each with and without a trailing slash, and HEAD and OPTIONS where they apply."""
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


def accepts(header: str, content_type: str) -> bool:
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
    """Return whether an Accept header names a content type, not only by a wildcard."""
    return any(
        name.strip().lower() == content_type and not _excluded([text.strip().lower() for text in parameters])
        for name, *parameters in (part.split(";") for part in header.split(","))
    )


def accepting(content_type: str, handler: Handler) -> Handler:
    """Return the handler for clients that accept what it answers; others get 406."""

    async def checked(request: web.Request) -> web.StreamResponse:
        header = request.headers.get(hdrs.ACCEPT, "").strip()
        if header and not accepts(header, content_type):
            raise web.HTTPNotAcceptable(text=f"Answers here are {content_type}, which the header Accept leaves out")
        return await handler(request)

    return checked


def _options(methods: list[str]) -> Handler:
    allowed = [*methods, hdrs.METH_OPTIONS, *([hdrs.METH_HEAD] if hdrs.METH_GET in methods else [])]

    async def options(request: web.Request) -> web.Response:  # noqa: ARG001 - a handler's signature
        return web.Response(headers={hdrs.ALLOW: ", ".join(sorted(allowed))})

    return options


async def json_body(request: web.Request) -> bytes:
    """Return the body of a request that must be JSON and declare it.

    A web page can make a browser send bodies to any reachable server, but not with this content type unless the server
    agrees. Raises 415 for another content type or none, 413 if it is too large, 408 if it does not arrive in time.
    """
    content = await body(request)
    # Clients send arbitrary content types with an empty body.
    if content and (hdrs.CONTENT_TYPE not in request.headers or request.content_type != JSON):
        given = request.headers.get(hdrs.CONTENT_TYPE, "none")
        raise web.HTTPUnsupportedMediaType(
            text=f"A body needs the header {hdrs.CONTENT_TYPE}: {JSON}, and this request has {given}"
        )
    return content


async def body(request: web.Request) -> bytes:
    """Return the raw body of a request. Raises 408, 413 or, if it is truncated or badly encoded, 400."""
    try:
        async with asyncio.timeout(BODY_TIMEOUT_SECONDS):
            return await request.read()
    except TimeoutError:
        raise web.HTTPRequestTimeout(text=f"The body did not arrive within {BODY_TIMEOUT_SECONDS:.0f} s") from None
    except web.RequestPayloadError as error:
        raise web.HTTPBadRequest(text=f"The body cannot be read: {error}") from None
