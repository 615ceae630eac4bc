"""The page at /ui: its files, and below /ui/api the answers that only the page needs.

The files are in the folder `ui`: modules that browsers load unchanged. Nothing is loaded from elsewhere: the content
security policy allows no inline script and no other server.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from importlib import resources
from typing import Final

from aiohttp import hdrs, web
from prometheus_client import CollectorRegistry

from fencepost.api.errors import DataError, FencepostError
from fencepost.api.topic_names import RULE, is_topic_name
from fencepost.herder.core import history
from fencepost.herder.core.observation import Json, Overview, changed_rows
from fencepost.herder.interface import Herder
from fencepost.rest.app import Route
from fencepost.rest.group_events import GroupEvents
from fencepost.rest.requests import number
from fencepost.rest.responses import SECURITY_HEADERS, empty, json_response

_log: Final = logging.getLogger(__name__)

_TYPES: Final = {
    "html": "text/html",
    "js": "text/javascript",
    "mjs": "text/javascript",
    "css": "text/css",
    "svg": "image/svg+xml",
}
_INDEX: Final = "index.html"
_EVENT_INTERVAL_SECONDS: Final = 2.0
# Answers are computed once for all browsers that ask within this time.
_FRESH_SECONDS: Final = 1.0
# A stream ends after this time, because requests have a time limit. The browser reconnects by itself.
_STREAM_SECONDS: Final = 60.0
_AGAIN_MS: Final = 1_000
_LOG_LINES: Final = 500
_RECORDS: Final = 20
_MOST_RECORDS: Final = 100


@dataclass(frozen=True, slots=True)
class _File:
    content: bytes
    content_type: str
    tag: str


class PageResource:
    """Serves the page and its data, between `start` and `close`."""

    def __init__(self, herder: Herder, registry: CollectorRegistry) -> None:
        self._herder = herder
        self._group_events = GroupEvents(registry)
        self._files = _files()
        self._closed = asyncio.Event()
        self._sampling: asyncio.Task[None] | None = None
        self._collecting = asyncio.Lock()
        self._collected: tuple[float, Json] | None = None

    def routes(self) -> list[Route]:
        """Return the routes with their handlers."""
        return [
            Route("GET", "/ui", self._index, produces=None),
            Route("GET", "/ui/{file:[a-z]+\\.[a-z]+}", self._file, produces=None),
            Route("GET", "/ui/{file:vendor/[A-Za-z]+\\.[a-z]+}", self._file, produces=None),
            Route("GET", "/ui/api/overview", self._overview),
            Route("GET", "/ui/api/events", self._events, produces="text/event-stream"),
            Route("GET", "/ui/api/here", self._here),
            Route("GET", "/ui/api/here/history", self._history_here),
            Route("GET", "/ui/api/here/logs", self._logs_here),
            Route("GET", "/ui/api/connectors/{connector}", self._activity),
            Route("GET", "/ui/api/connectors/{connector}/history", self._history),
            Route("GET", "/ui/api/connectors/{connector}/logs", self._logs),
            Route("GET", "/ui/api/topics/{topic}", self._topic),
            Route("GET", "/ui/api/topics/{topic}/records", self._records),
            Route("PUT", "/ui/api/transactions/{id}/abort", self._abort),
        ]

    def start(self) -> None:
        """Begin to keep the figures and the log lines that the page shows."""
        self._herder.observation.start()
        self._sampling = asyncio.ensure_future(self._sample())

    def close(self) -> None:
        """End all event streams, and stop keeping figures and log lines.

        A stream is a request, and the server waits for its requests before it stops.
        """
        self._closed.set()
        if self._sampling is not None:
            self._sampling.cancel()
            self._herder.observation.stop()

    async def _sample(self) -> None:
        while True:
            await asyncio.sleep(history.STEP_SECONDS - time.time() % history.STEP_SECONDS)
            try:
                await self._herder.observation.sample()
            except Exception:  # noqa: BLE001 - the next figures may come nevertheless
                _log.exception("The figures of the connectors could not be recorded this time")

    async def _index(self, request: web.Request) -> web.StreamResponse:
        if not request.path.endswith("/"):
            # Addresses in the page are relative to its folder, so that a proxy may serve it under any path.
            return web.Response(status=302, headers={hdrs.LOCATION: f"{request.path.rpartition('/')[2]}/"})
        return self._answer(request, self._files[_INDEX])

    async def _file(self, request: web.Request) -> web.StreamResponse:
        file = self._files.get(request.match_info["file"])
        if file is None:
            raise web.HTTPNotFound
        return self._answer(request, file)

    @staticmethod
    def _answer(request: web.Request, file: _File) -> web.Response:
        # Browsers must request this file at each visit, because a worker of another version may serve the page then.
        headers = {**SECURITY_HEADERS, hdrs.CACHE_CONTROL: "no-cache", hdrs.ETAG: f'"{file.tag}"'}
        if any(each.value == file.tag for each in request.if_none_match or ()):
            return web.Response(status=304, headers=headers)
        return web.Response(body=file.content, content_type=file.content_type, charset="utf-8", headers=headers)

    async def _overview(self, request: web.Request) -> web.Response:
        return json_response({**await self._collect(request), **_now()})

    async def _collect(self, request: web.Request) -> Json:
        async with self._collecting:
            now = time.monotonic()
            if self._collected is None or now - self._collected[0] > _FRESH_SECONDS:
                found = await self._herder.observation.overview(request.headers.get(hdrs.AUTHORIZATION))
                membership = await self._group_events.shown()
                self._collected = now, {**self._shown(found), "membership": membership}
            return self._collected[1]

    def _shown(self, found: Overview) -> Json:
        mixed = self._herder.mixed_group()
        return {
            "worker_id": found.worker_id,
            "group_id": found.group_id,
            "workers": {name: asdict(worker) for name, worker in found.workers.items()},
            "silent": dict(found.silent),
            "exactly_once": mixed.support,
            "breaking": list(mixed.breaking) if mixed.known else [],
            "rows": dict(found.rows),
        }

    async def _events(self, request: web.Request) -> web.StreamResponse:
        """Send all rows, and then the changed rows, until the time limit of the stream."""
        headers = {hdrs.CONTENT_TYPE: "text/event-stream", hdrs.CACHE_CONTROL: "no-store"}
        response = web.StreamResponse(headers=headers)
        await response.prepare(request)
        if request.method == hdrs.METH_HEAD:
            return response
        before: Json | None = None
        until = time.monotonic() + _STREAM_SECONDS
        with suppress(ConnectionError):
            await response.write(f"retry: {_AGAIN_MS}\n\n".encode())
            while not self._closed.is_set() and time.monotonic() < until:
                before, event = await self._event(request, before)
                await response.write(f"data: {json.dumps(event, separators=(',', ':'))}\n\n".encode())
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._closed.wait(), _EVENT_INTERVAL_SECONDS)
        return response

    async def _event(self, request: web.Request, before: Json | None) -> tuple[Json | None, Json]:
        try:
            found = await self._collect(request)
        except FencepostError as error:
            return None, {**_now(), "problem": str(error), "rows": {}}
        rows = found["rows"] if before is None else changed_rows(before["rows"], found["rows"])
        return found, {**found, **_now(), "rows": rows, "whole": before is None}

    async def _here(self, request: web.Request) -> web.Response:
        observation = self._herder.observation
        tasks = observation.here(request.query.get("connector"))
        return json_response({"tasks": tasks, "worker": observation.worker()})

    async def _activity(self, request: web.Request) -> web.Response:
        authorization = request.headers.get(hdrs.AUTHORIZATION)
        tasks = await self._herder.observation.activity(request.match_info["connector"], authorization)
        return json_response({"tasks": tasks})

    async def _history_here(self, request: web.Request) -> web.Response:
        return json_response({"history": self._herder.observation.history_here(request.query.get("connector", ""))})

    async def _history(self, request: web.Request) -> web.Response:
        authorization = request.headers.get(hdrs.AUTHORIZATION)
        points = await self._herder.observation.history(request.match_info["connector"], authorization)
        return json_response({"history": points, "seconds": history.STEP_SECONDS})

    async def _logs_here(self, request: web.Request) -> web.Response:
        return json_response({"logs": self._herder.observation.logs_here(request.query.get("connector", ""))})

    async def _logs(self, request: web.Request) -> web.Response:
        authorization = request.headers.get(hdrs.AUTHORIZATION)
        lines = await self._herder.observation.logs(request.match_info["connector"], authorization)
        return json_response({"logs": lines[-_LOG_LINES:]})

    async def _topic(self, request: web.Request) -> web.Response:
        name = _topic_of(request)
        view = await self._herder.observation.topic(name)
        partitions = [
            {"partition": number, "stable": stable, "end": end}
            for number, (stable, end) in sorted(view.partitions.items())
        ]
        transactions = [asdict(transaction) for transaction in view.transactions]
        return json_response({"topic": view.topic, "partitions": partitions, "transactions": transactions})

    async def _records(self, request: web.Request) -> web.Response:
        count = number(request.query, "count", default=_RECORDS, largest=_MOST_RECORDS)
        connector = request.query.get("connector")
        return json_response(asdict(await self._herder.observation.records(_topic_of(request), count, connector)))

    async def _abort(self, request: web.Request) -> web.Response:
        await self._herder.observation.abort(request.match_info["id"])
        return empty(204)


def _topic_of(request: web.Request) -> str:
    name = request.match_info["topic"]
    if not is_topic_name(name):
        raise DataError(f"No topic can have the name {name!r}: {RULE}")
    return name


def _now() -> Json:
    """Return the current time.

    The page shows ages relative to it, because the clock of the browser's machine may differ.
    """
    return {"now": time.time_ns() // 1_000_000}


def _files() -> Mapping[str, _File]:
    folder = resources.files("fencepost.rest").joinpath("ui")
    found = {}
    for prefix, where in (("", folder), ("vendor/", folder.joinpath("vendor"))):
        for path in where.iterdir():
            content_type = _TYPES.get(path.name.rpartition(".")[2])
            if content_type is not None:
                content = path.read_bytes()
                found[prefix + path.name] = _File(content, content_type, hashlib.sha256(content).hexdigest()[:32])
    return found
