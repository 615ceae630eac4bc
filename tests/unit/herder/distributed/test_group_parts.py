"""Requests wait until their worker is in its group."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from fencepost.api.errors import IllegalStateError
from fencepost.herder.distributed.group_parts import Readiness, Standing
from fencepost.herder.errors import RequestFailedError, ServiceUnavailableError


def run(scenario: Callable[[Readiness], Coroutine[Any, Any, None]], patience_s: float = 60.0) -> None:
    async def make_and_run() -> None:
        await scenario(Readiness("group", patience_s=patience_s))

    asyncio.run(make_and_run())


async def begun(request: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
    """A request that has come as far as it can."""
    task = asyncio.ensure_future(request)
    await asyncio.sleep(0)
    assert not task.done()
    return task


def test_requests_wait_for_the_group_only_if_they_need_it() -> None:
    async def scenario(readiness: Readiness) -> None:
        status = await begun(readiness.started())
        listing = await begun(readiness.joined(lambda: None))
        readiness.become(Standing.JOINING)
        await status
        assert not listing.done()
        readiness.become(Standing.MEMBER)
        await listing
        readiness.become(Standing.JOINING)
        again = await begun(readiness.joined(lambda: None))
        await readiness.started()
        readiness.become(Standing.MEMBER)
        await again

    run(scenario)


def test_a_request_that_waits_too_long_names_the_reason() -> None:
    async def scenario(readiness: Readiness) -> None:
        with pytest.raises(ServiceUnavailableError, match="has yet to reach the brokers"):
            await readiness.started()
        readiness.become(Standing.JOINING)
        with pytest.raises(ServiceUnavailableError, match=r"is joining its group \(group\)"):
            await readiness.joined(lambda: None)

    run(scenario, patience_s=0.01)


def test_requests_that_wait_are_answered_when_the_worker_stops() -> None:
    async def scenario(readiness: Readiness) -> None:
        waiting = [await begun(readiness.started()), await begun(readiness.joined(lambda: None))]
        readiness.become(Standing.CLOSED)
        readiness.become(Standing.MEMBER)
        for request in waiting:
            with pytest.raises(ServiceUnavailableError, match="stops"):
                await request

    run(scenario)


def test_a_wait_ends_when_it_becomes_pointless() -> None:
    async def scenario(readiness: Readiness) -> None:
        problems: list[Exception] = []

        def check() -> None:
            if problems:
                raise problems[0]

        waiting = await begun(readiness.joined(check))
        problems.append(RequestFailedError("the topic is gone"))
        readiness.look_again()
        with pytest.raises(RequestFailedError, match="the topic is gone"):
            await waiting

    run(scenario)


def test_a_worker_is_not_a_member_before_it_has_read_its_topics() -> None:
    with pytest.raises(IllegalStateError):
        Readiness("group").become(Standing.MEMBER)
