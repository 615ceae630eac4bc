"""Forwards requests to the worker that must process them.

The worker that a client asks forwards the request with `forward=true`. If the leader has changed meanwhile, the second
worker forwards the request once more, with `forward=false`. If the third worker cannot process the request either, it
answers 409, and clients retry.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

from aiohttp import hdrs, web

from fencepost.herder.errors import RebalanceNeededError, RequestTargetError
from fencepost.herder.peers import request_signing
from fencepost.herder.peers.rest_client import MISSING_RIGHT_HEADER, RestClient, WorkerResponse
from fencepost.rest.requests import body, boolean
from fencepost.rest.responses import origin

_FORWARD: Final = "forward"
_REQUEST_HEADERS: Final = (hdrs.AUTHORIZATION, hdrs.CONTENT_TYPE, *request_signing.HEADERS)


async def forward(request: web.Request, target: RequestTargetError, client: RestClient) -> web.Response:
    """Send a request to the worker that can process it, and return its answer.

    Raises RebalanceNeededError if that worker is unknown, or if the request was forwarded too often. Raises
    RequestFailedError if that worker does not answer.
    """
    hop = next_hop(request.query)
    if target.forward_url is None or hop is None:
        raise RebalanceNeededError(
            f"The request cannot be completed now, because a rebalance is pending: ask again soon. {target}"
        )
    query = request.rel_url.update_query({_FORWARD: hop}).raw_query_string
    url = f"{target.forward_url.rstrip('/')}{request.rel_url.raw_path}?{query}"
    headers = {name: request.headers[name] for name in _REQUEST_HEADERS if name in request.headers}
    content = await body(request)
    return _relayed(request, await client.request(request.method, url, headers=headers, body=content or None))


def next_hop(query: Mapping[str, str]) -> str | None:
    """Return the value of `forward` for the next worker; None if the request must not be forwarded any more."""
    if _FORWARD not in query:
        return "true"
    return "false" if boolean(query, _FORWARD) else None


def _relayed(request: web.Request, answer: WorkerResponse) -> web.Response:
    headers: dict[str, str] = {}
    if hdrs.CONTENT_TYPE in answer.headers and answer.body:
        headers[hdrs.CONTENT_TYPE] = answer.headers[hdrs.CONTENT_TYPE]
    if MISSING_RIGHT_HEADER in answer.headers:
        headers[MISSING_RIGHT_HEADER] = answer.headers[MISSING_RIGHT_HEADER]
    if hdrs.LOCATION in answer.headers:
        # The address in the answer must be at the worker that the client chose.
        headers[hdrs.LOCATION] = origin(request) + urlsplit(answer.headers[hdrs.LOCATION]).path
    return web.Response(status=answer.status, body=answer.body or None, headers=headers)
