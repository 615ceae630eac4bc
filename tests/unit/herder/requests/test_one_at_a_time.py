"""Changes of one connector do not overlap, whatever happens to their requests."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any

import pytest

from fencepost.herder.errors import RebalanceNeededError
from fencepost.herder.requests.one_at_a_time import OneAtATime

Change = Callable[[], Coroutine[Any, Any, str]]


def on_loop(test: Callable[[], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    """Run a test on an event loop of its own."""

    @wraps(test)
    def run() -> None:
        asyncio.run(test())

    return run


class Changes:
    """Changes that end when the test lets them."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.ended: list[str] = []
        self.may_end = asyncio.Event()

    def of(self, name: str) -> Change:
        async def change() -> str:
            self.begun.append(name)
            await self.may_end.wait()
            self.ended.append(name)
            return name

        return change


async def _idle() -> None:
    """Let all that can go on go on."""
    for _ in range(10):
        await asyncio.sleep(0)


@on_loop
async def test_changes_of_a_connector_follow_each_other_in_order() -> None:
    one, changes = OneAtATime("the offsets"), Changes()
    requests = [asyncio.ensure_future(one.run("c", changes.of(name))) for name in "abc"]
    await _idle()
    assert changes.begun == ["a"]
    changes.may_end.set()
    assert await asyncio.gather(*requests) == ["a", "b", "c"]
    assert changes.begun == changes.ended == ["a", "b", "c"]


@on_loop
async def test_changes_of_other_connectors_do_not_wait() -> None:
    one, changes = OneAtATime("the offsets"), Changes()
    requests = [asyncio.ensure_future(one.run(name, changes.of(name))) for name in "ab"]
    await _idle()
    assert changes.begun == ["a", "b"]
    changes.may_end.set()
    await asyncio.gather(*requests)


@on_loop
async def test_a_change_that_fails_lets_the_next_one_go_on() -> None:
    one, changes = OneAtATime("the offsets"), Changes()

    async def fail() -> str:
        raise ValueError("refused")

    changes.may_end.set()
    failed, following = await asyncio.gather(one.run("c", fail), one.run("c", changes.of("b")), return_exceptions=True)
    assert (str(failed), following) == ("refused", "b")


@on_loop
async def test_a_change_whose_request_is_cancelled_keeps_its_turn() -> None:
    one, changes = OneAtATime("the offsets"), Changes()
    first, second = (asyncio.ensure_future(one.run("c", changes.of(name))) for name in "ab")
    await _idle()
    first.cancel()
    await _idle()
    assert changes.begun == ["a"]
    changes.may_end.set()
    assert await second == "b"
    assert changes.ended == ["a", "b"]


@on_loop
async def test_a_request_that_is_cancelled_while_it_waits_changes_nothing() -> None:
    one, changes = OneAtATime("the offsets"), Changes()
    first, second, third = (asyncio.ensure_future(one.run("c", changes.of(name))) for name in "abc")
    await _idle()
    second.cancel()
    changes.may_end.set()
    await asyncio.gather(first, third)
    assert changes.ended == ["a", "c"]


@on_loop
async def test_a_request_that_waits_for_too_long_may_be_sent_again() -> None:
    one, changes = OneAtATime("the offsets", patience_s=0.01), Changes()
    first = asyncio.ensure_future(one.run("c", changes.of("a")))
    await _idle()
    with pytest.raises(RebalanceNeededError, match=r"changes the offsets of connector c, .* 0\.01 s.*send it again"):
        await one.run("c", changes.of("b"))
    changes.may_end.set()
    assert await first == "a"
    assert await one.run("c", changes.of("c")) == "c"
    assert changes.ended == ["a", "c"]
