"""What the tasks of a connector have open in Kafka."""

from __future__ import annotations

from typing import Final

from aiohttp import hdrs, web

from fencepost.herder.interface import Herder
from fencepost.rest.connectors import CONNECTOR, name_of
from fencepost.rest.internal import signed
from fencepost.rest.responses import json_response
from fencepost.rest.routes import Route, body

_TRANSACTIONS: Final = f"{CONNECTOR}/transactions"


class TransactionsResource:
    """Shows transactions: to clients those of all workers, to other workers those of this one."""

    def __init__(self, herder: Herder) -> None:
        self._herder = herder

    def routes(self) -> list[Route]:
        """Return what answers to which request."""
        return [
            Route("GET", _TRANSACTIONS, self._everywhere),
            Route("GET", f"{_TRANSACTIONS}/local", self._here),
        ]

    async def _everywhere(self, request: web.Request) -> web.Response:
        name = name_of(request)
        found = await self._herder.connector_transactions(name, request.headers.get(hdrs.AUTHORIZATION))
        return json_response({"name": name, "tasks": [transaction.as_json() for transaction in found]})

    async def _here(self, request: web.Request) -> web.Response:
        found = await self._herder.worker_transactions(name_of(request), signed(request, await body(request)))
        return json_response([transaction.as_json() for transaction in found])
