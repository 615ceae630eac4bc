"""The requests of workers to their leader, signed with the group's session key (KIP-507, KIP-618)."""

from __future__ import annotations

from aiohttp import web

from fencepost.herder.interface import PeerRequests
from fencepost.herder.peers.request_signing import SignedRequest
from fencepost.rest import requests
from fencepost.rest.app import CONNECTOR, Route, name_of
from fencepost.rest.requests import body, json_body
from fencepost.rest.responses import empty, json_response


class InternalResource:
    """Accepts requests for fencing rounds, accepts task configurations, and shows transactions."""

    def __init__(self, peers: PeerRequests) -> None:
        self._peers = peers

    def routes(self) -> list[Route]:
        """Return the routes with their handlers."""
        return [
            Route("PUT", f"{CONNECTOR}/fence", self._fence),
            Route("POST", f"{CONNECTOR}/tasks", self._put_task_configs),
            Route("GET", f"{CONNECTOR}/transactions/local", self._transactions),
        ]

    async def _fence(self, request: web.Request) -> web.Response:
        await self._peers.fence(name_of(request), _signed(request, await json_body(request)))
        return empty(204)

    async def _put_task_configs(self, request: web.Request) -> web.Response:
        content = await json_body(request)
        configs = requests.task_configs(content)
        await self._peers.put_task_configs(name_of(request), configs, _signed(request, content))
        return empty(204)

    async def _transactions(self, request: web.Request) -> web.Response:
        found = await self._peers.transactions(name_of(request), _signed(request, await body(request)))
        return json_response([transaction.as_json() for transaction in found])


def _signed(request: web.Request, content: bytes) -> SignedRequest:
    return SignedRequest.of(request.method, request.rel_url.raw_path, content, request.headers)
