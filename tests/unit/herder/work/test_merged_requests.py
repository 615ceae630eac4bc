"""Requests for connectors: none is lost, and all that come during another one are handled together."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from fencepost.herder.work.merged_requests import MergedRequests


class Handled(MergedRequests):
    """Handles its first request by calling a function; all later ones do nothing."""

    def __init__(self, first: Callable[[Handled, str], Awaitable[None]]) -> None:
        super().__init__()
        self.connectors: list[str] = []
        self.idle = asyncio.Event()
        self._first = first

    async def _handle(self, connector: str) -> None:
        self.connectors.append(connector)
        if len(self.connectors) == 1:
            await self._first(self, connector)
        else:
            self.idle.set()


async def handled_twice(first: Callable[[Handled, str], Awaitable[None]]) -> list[str]:
    requests = Handled(first)
    requests.request("c")
    async with asyncio.timeout(10):
        await requests.idle.wait()
    assert not requests.is_asked("c")
    return requests.connectors


def test_a_request_right_after_the_end_of_another_one_is_handled():
    async def first(requests: Handled, connector: str) -> None:
        asyncio.get_running_loop().call_soon(requests.request, connector)

    assert asyncio.run(handled_twice(first)) == ["c", "c"]


def test_requests_during_another_one_are_handled_as_one():
    async def first(requests: Handled, connector: str) -> None:
        for _ in range(3):
            requests.request(connector)
        await asyncio.sleep(0)

    assert asyncio.run(handled_twice(first)) == ["c", "c"]
