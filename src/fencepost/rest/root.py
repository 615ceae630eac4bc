"""The worker itself: its version, its health and its metrics."""

from __future__ import annotations

import asyncio
from typing import Final

from aiohttp import hdrs, web
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from fencepost import __version__
from fencepost.herder.entities import HealthStatus
from fencepost.herder.interface import Herder
from fencepost.rest import responses
from fencepost.rest.app import Route, accepting, names
from fencepost.rest.reporter_names import WithReporterNames
from fencepost.rest.responses import JSON, SECURITY_HEADERS, json_response

# Tools use this version to determine which requests they can send.
CONNECT_VERSION: Final = "4.1.0"


_HTML: Final = "text/html"
_PAGE: Final = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>fencepost</title>
<link rel="icon" href="ui/icon.svg" type="image/svg+xml"></head>
<body><h1>fencepost</h1>
<p>This is a worker. <a href="ui/">The page for people is at ui/</a>; programs get JSON here.</p>
</body></html>
"""
"""The answer for browsers, whose header Accept names HTML. Tools name JSON, or nothing."""


class RootResource:
    """Answers at /, /health and /metrics."""

    def __init__(self, herder: Herder, registry: CollectorRegistry) -> None:
        self._herder = herder
        self._metrics_shown = WithReporterNames(registry)

    def routes(self) -> list[Route]:
        """Return the routes with their handlers."""
        return [
            Route("GET", "/", self._root, produces=None),
            Route("GET", "/health", self._health),
            Route("GET", "/metrics", self._metrics, produces=None),
        ]

    async def _root(self, request: web.Request) -> web.StreamResponse:
        if names(request.headers.get(hdrs.ACCEPT, ""), _HTML):
            return web.Response(text=_PAGE, content_type=_HTML, headers=SECURITY_HEADERS)
        return await accepting(JSON, self._json_root)(request)

    async def _json_root(self, request: web.Request) -> web.Response:  # noqa: ARG002 - a handler's signature
        cluster = await self._herder.kafka_cluster_id()
        mixed = self._herder.mixed_group()
        return json_response(
            {
                "version": CONNECT_VERSION,
                "commit": f"fencepost-{__version__}",
                "kafka_cluster_id": cluster,
                "exactly_once_source_support": mixed.support,
                "workers_breaking_exactly_once": mixed.breaking if mixed.known else None,
                "workers_with_other_topics": mixed.other_topics if mixed.known else None,
                "workers_of_unknown_support": mixed.unknown if mixed.known else None,
            }
        )

    async def _health(self, request: web.Request) -> web.Response:  # noqa: ARG002 - a handler's signature
        health = await self._herder.health()
        return json_response(
            responses.health(health.status, health.message),
            status=200 if health.status is HealthStatus.HEALTHY else 503,
        )

    async def _metrics(self, request: web.Request) -> web.Response:
        encode, content_type = choose_encoder(request.headers.get(hdrs.ACCEPT, ""))
        # The text is made on a thread, because it is long if there are hundreds of tasks.
        body = await asyncio.to_thread(encode, self._metrics_shown)
        return web.Response(body=body, headers={hdrs.CONTENT_TYPE: content_type})
