"""The source offsets of connectors (KIP-875)."""

from __future__ import annotations

from aiohttp import web

from fencepost.herder.interface import Herder
from fencepost.rest import bodies, requests
from fencepost.rest.connectors import CONNECTOR, name_of
from fencepost.rest.responses import json_response
from fencepost.rest.routes import Route, json_body


class OffsetsResource:
    """Shows offsets, and changes those of stopped connectors."""

    def __init__(self, herder: Herder) -> None:
        self._herder = herder

    def routes(self) -> list[Route]:
        """Return what answers to which request."""
        path = f"{CONNECTOR}/offsets"
        return [
            Route("GET", path, self._get),
            Route("PATCH", path, self._alter),
            Route("DELETE", path, self._reset),
        ]

    async def _get(self, request: web.Request) -> web.Response:
        offsets = await self._herder.connector_offsets(name_of(request))
        return json_response({"offsets": [bodies.offset(offset) for offset in offsets]})

    async def _alter(self, request: web.Request) -> web.Response:
        offsets = requests.connector_offsets(await json_body(request))
        return json_response({"message": await self._herder.alter_connector_offsets(name_of(request), offsets)})

    async def _reset(self, request: web.Request) -> web.Response:
        return json_response({"message": await self._herder.reset_connector_offsets(name_of(request))})
