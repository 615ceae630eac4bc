"""The levels of loggers, on this worker or on all workers (KIP-495, KIP-976)."""

from __future__ import annotations

from typing import Final

from aiohttp import web

from fencepost.herder.interface import Loggers
from fencepost.rest import requests, responses
from fencepost.rest.app import Route
from fencepost.rest.requests import json_body
from fencepost.rest.responses import empty, json_response

_LOGGER: Final = "/admin/loggers/{logger}"


class LoggersResource:
    """Shows and sets levels."""

    def __init__(self, loggers: Loggers) -> None:
        self._loggers = loggers

    def routes(self) -> list[Route]:
        """Return the routes with their handlers."""
        return [
            Route("GET", "/admin/loggers", self._list),
            Route("GET", _LOGGER, self._get),
            Route("PUT", _LOGGER, self._set),
        ]

    async def _list(self, request: web.Request) -> web.Response:  # noqa: ARG002 - a handler's signature
        return json_response(responses.logger_levels(self._loggers.levels()))

    async def _get(self, request: web.Request) -> web.Response:
        return json_response(responses.logger_level(self._loggers.level(request.match_info["logger"])))

    async def _set(self, request: web.Request) -> web.Response:
        namespace = request.match_info["logger"]
        level = requests.logger_level(await json_body(request))
        if request.query.get("scope", "").strip().lower() == "cluster":
            await self._loggers.set_everywhere(namespace, level)
            return empty(204)
        return json_response(list(self._loggers.set_level(namespace, level)))
