"""Workers' REST APIs in this process, and a client that talks to them."""

from __future__ import annotations

import asyncio
import io
import json
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

import aiohttp
from prometheus_client import CollectorRegistry
from yarl import URL

from fencepost.config.rest_config import RestConfig
from fencepost.herder.interface import Herder
from fencepost.rest.server import RestServer

ANY_PORT = "http://127.0.0.1:0"


@dataclass(frozen=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    text: str

    @property
    def body(self) -> Any:
        return json.loads(self.text)

    @property
    def message(self) -> str:
        """The message of an error, whose code is the status."""
        assert self.body["error_code"] == self.status
        message: str = self.body["message"]
        return message


class RestApis:
    """Serves herders on separate ports and one event loop, which runs only while a request is in progress."""

    def __init__(self) -> None:
        self._runner = asyncio.Runner()
        self._servers: list[RestServer] = []
        self._session: aiohttp.ClientSession | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._runner.run(self._close())
        self._runner.close()

    def serve(
        self, herder: Herder, properties: Mapping[str, str] | None = None, registry: CollectorRegistry | None = None
    ) -> Api:
        """Serve a herder, on any port unless the properties say otherwise, with the metrics of a registry."""
        config = RestConfig.from_properties({"listeners": ANY_PORT, **(properties or {})}, where="worker.properties")
        server = RestServer(config)
        self._servers.append(server)
        self._runner.run(server.start(herder, registry or CollectorRegistry()))
        return Api(self, server.advertised_url)

    def request(
        self,
        method: str,
        url: str,
        body: Any = None,
        *,
        headers: Mapping[str, str] | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> Answer:
        """Send a request; a body of bytes is sent as it is, any other as JSON."""
        return self._runner.run(self._request(method, url, body, dict(headers or {}), tls))

    def call(self, coroutine: Any) -> Any:
        """Run another coroutine on the event loop."""
        return self._runner.run(coroutine)

    async def _request(
        self, method: str, url: str, body: Any, headers: dict[str, str], tls: ssl.SSLContext | None
    ) -> Answer:
        if self._session is None:
            self._session = aiohttp.ClientSession()
        data = body
        if body is not None and not isinstance(body, bytes):
            data = json.dumps(body).encode()
        if data is not None:
            headers = {"Content-Type": "application/json", **headers}
            data = io.BytesIO(data)
        async with self._session.request(
            method, URL(url, encoded=True), data=data, headers=headers, ssl=tls or True
        ) as response:
            return Answer(response.status, response.headers, await response.text("utf-8"))

    async def _close(self) -> None:
        if self._session is not None:
            await self._session.close()
        for server in self._servers:
            await server.stop()


@dataclass(frozen=True)
class Api:
    """One worker's API."""

    apis: RestApis
    url: str

    def get(self, path: str, **options: Any) -> Answer:
        return self.request("GET", path, **options)

    def post(self, path: str, body: Any = None, **options: Any) -> Answer:
        return self.request("POST", path, body, **options)

    def put(self, path: str, body: Any = None, **options: Any) -> Answer:
        return self.request("PUT", path, body, **options)

    def patch(self, path: str, body: Any = None, **options: Any) -> Answer:
        return self.request("PATCH", path, body, **options)

    def delete(self, path: str, **options: Any) -> Answer:
        return self.request("DELETE", path, **options)

    def request(self, method: str, path: str, body: Any = None, **options: Any) -> Answer:
        return self.apis.request(method, self.url + path, body, **options)
