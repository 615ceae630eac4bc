"""What workers of the group ask the leader for, signed with the group's session key (KIP-507, KIP-618)."""

from __future__ import annotations

from aiohttp import web

from fencepost.herder.interface import Herder
from fencepost.herder.peers.request_signing import SignedRequest
from fencepost.rest import requests
from fencepost.rest.connectors import CONNECTOR, name_of
from fencepost.rest.responses import empty
from fencepost.rest.routes import Route, json_body


class InternalResource:
    """Takes rounds of fencing, and task configurations."""

    def __init__(self, herder: Herder) -> None:
        self._herder = herder

    def routes(self) -> list[Route]:
        """Return what answers to which request."""
        return [
            Route("PUT", f"{CONNECTOR}/fence", self._fence),
            Route("POST", f"{CONNECTOR}/tasks", self._put_task_configs),
        ]

    async def _fence(self, request: web.Request) -> web.Response:
        await self._herder.fence_zombie_source_tasks(name_of(request), signed(request, await json_body(request)))
        return empty(204)

    async def _put_task_configs(self, request: web.Request) -> web.Response:
        content = await json_body(request)
        configs = requests.task_configs(content)
        await self._herder.put_task_configs(name_of(request), configs, signed(request, content))
        return empty(204)


def signed(request: web.Request, content: bytes) -> SignedRequest:
    """Return what a request was signed with."""
    return SignedRequest.of(request.method, request.rel_url.raw_path, content, request.headers)
