"""The source offsets of connectors (KIP-875)."""

from __future__ import annotations

from typing import Final

from aiohttp import web

from fencepost.herder.interface import Offsets
from fencepost.rest import requests, responses
from fencepost.rest.app import CONNECTOR, Route, name_of
from fencepost.rest.requests import json_body
from fencepost.rest.responses import json_response

_LIMIT: Final = "limit"
_AFTER: Final = "after"
_LARGEST_PAGE: Final = 10_000


class OffsetsResource:
    """Shows the offsets of connectors, and changes the offsets of stopped ones.

    `?limit=N` shows a page of at most N offsets. If there are more, the answer has a text `next`. `&after=` with this
    text shows the next page. Connect itself has no pages.
    """

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
        name = name_of(request)
        if not request.query.keys() & {_LIMIT, _AFTER}:
            return responses.json_list("offsets", await self._offsets.show(name), responses.offset)
        limit = requests.number(request.query, _LIMIT, default=_LARGEST_PAGE, largest=_LARGEST_PAGE)
        page = await self._offsets.page(name, request.query.get(_AFTER, ""), limit)
        following = {} if page.next is None else {"next": page.next}
        return json_response({"offsets": [responses.offset(offset) for offset in page.offsets], **following})

    async def _alter(self, request: web.Request) -> web.Response:
        offsets = requests.connector_offsets(await json_body(request))
        return json_response({"message": await self._offsets.alter(name_of(request), offsets)})

    async def _reset(self, request: web.Request) -> web.Response:
        return json_response({"message": await self._offsets.reset(name_of(request))})
