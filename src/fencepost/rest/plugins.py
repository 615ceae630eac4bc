"""The worker's plugins, their properties, and the validation of configurations."""

from __future__ import annotations

from typing import Final

from aiohttp import web

from fencepost.herder.errors import BadRequestError
from fencepost.herder.interface import Plugins
from fencepost.rest import requests, responses
from fencepost.rest.app import Route
from fencepost.rest.requests import json_body
from fencepost.rest.responses import json_response

_CONNECTOR_TYPES: Final = ("source", "sink")
_PLUGIN: Final = "/connector-plugins/{plugin}"


class PluginsResource:
    """Lists and describes plugins, and validates configurations."""

    def __init__(self, plugins: Plugins) -> None:
        self._plugins = plugins

    def routes(self) -> list[Route]:
        """Return the routes with their handlers."""
        return [
            Route("GET", "/connector-plugins", self._list),
            Route("GET", f"{_PLUGIN}/config", self._config),
            Route("PUT", f"{_PLUGIN}/config/validate", self._validate),
        ]

    async def _list(self, request: web.Request) -> web.Response:
        everything = request.query.get("connectorsOnly", "true").strip().lower() != "true"
        plugins = await self._plugins.infos()
        return json_response(
            [responses.plugin(plugin) for plugin in plugins if everything or plugin.type in _CONNECTOR_TYPES]
        )

    async def _config(self, request: web.Request) -> web.Response:
        keys = await self._plugins.config(request.match_info["plugin"], request.query.get("version"))
        return json_response([responses.config_key(key) for key in keys])

    async def _validate(self, request: web.Request) -> web.Response:
        config = requests.plain_config(await json_body(request))
        given, named = config.get("connector.class", ""), request.match_info["plugin"]
        if not given.strip():
            raise BadRequestError("The configuration has no connector.class: add it")
        if _alias(given) != _alias(named):
            raise BadRequestError(
                f"The configuration is for the connector {given}, but the path names {named}: make them equal"
            )
        return json_response(responses.config_infos(await self._plugins.validate(config)))


def _alias(name: str) -> str:
    """Return the short name of a class or an alias."""
    return name.strip().rpartition(".")[2].removesuffix("Connector")
