"""The source offsets of connectors (KIP-875)."""

from __future__ import annotations

from aiohttp import web

from fencepost.herder.interface import Offsets
from fencepost.rest import requests, responses
from fencepost.rest.app import Route
from fencepost.rest.connectors import CONNECTOR, name_of
from fencepost.rest.requests import json_body
from fencepost.rest.responses import json_response


class OffsetsResource:
    """Shows offsets, and changes those of stopped connectors."""

    def __init__(self, offsets: Offsets) -> None:
        self._offsets = offsets

    def routes(self) -> list[Route]:
        """Return the routes with their handlers."""
        path = f"{CONNECTOR}/offsets"
        return [
            Route("GET", path, self._get),
            Route("PATCH", path, self._alter),
            Route("DELETE", path, self._reset),
        ]

    async def _get(self, request: web.Request) -> web.Response:
        offsets = await self._offsets.show(name_of(request))
        return json_response({"offsets": [responses.offset(offset) for offset in offsets]})

    async def _alter(self, request: web.Request) -> web.Response:
        offsets = requests.connector_offsets(await json_body(request))
        return json_response({"message": await self._offsets.alter(name_of(request), offsets)})

    async def _reset(self, request: web.Request) -> web.Response:
        return json_response({"message": await self._offsets.reset(name_of(request))})
