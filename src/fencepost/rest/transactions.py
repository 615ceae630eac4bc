"""The open transactions of a connector's tasks."""

from __future__ import annotations

from aiohttp import hdrs, web

from fencepost.herder.interface import Transactions
from fencepost.rest.app import CONNECTOR, Route, name_of
from fencepost.rest.responses import json_response


class TransactionsResource:
    """Shows the transactions of all workers."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    def routes(self) -> list[Route]:
        """Return the routes with their handlers."""
        return [
            Route("GET", f"{CONNECTOR}/transactions", self._everywhere),
        ]

    async def _everywhere(self, request: web.Request) -> web.Response:
        name = name_of(request)
        found = await self._transactions.everywhere(name, request.headers.get(hdrs.AUTHORIZATION))
        return json_response({"name": name, "tasks": [transaction.as_json() for transaction in found]})
