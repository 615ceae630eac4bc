"""Calls on threads: those that never return hold up nobody."""

from __future__ import annotations

import asyncio
import threading

import pytest

from fencepost.api.errors import PluginError
from fencepost.herder.core.calls import Calls
from tests.support.group import until


def test_calls_wait_for_their_turn_and_not_for_hanging_ones() -> None:
    released, begun, lock = threading.Event(), 0, threading.Lock()

    def hang() -> None:
        nonlocal begun
        with lock:
            begun += 1
        released.wait(300)

    async def scenario() -> None:
        calls = Calls(asyncio.get_running_loop(), at_once=2, turn_s=0.1)
        hanging = [asyncio.ensure_future(calls.run(hang)) for _ in range(5)]
        # They have asked for their turns.
        await asyncio.sleep(0)
        assert await asyncio.wait_for(calls.run(lambda: "done"), 60) == "done"
        await until(lambda: begun == 5)
        assert not any(call.done() for call in hanging)
        released.set()
        await asyncio.gather(*hanging)

    asyncio.run(scenario())


def test_the_number_of_concurrent_calls_is_limited() -> None:
    lock, most, now = threading.Lock(), 0, 0
    both = threading.Barrier(2)

    def count() -> None:
        nonlocal most, now
        with lock:
            now += 1
            most = max(most, now)
        both.wait(60)
        with lock:
            now -= 1

    async def scenario() -> None:
        calls = Calls(asyncio.get_running_loop(), at_once=2, turn_s=3600)
        await asyncio.gather(*(calls.run(count) for _ in range(20)))

    asyncio.run(scenario())
    assert most == 2


def test_an_exception_of_a_call_is_raised_and_ends_its_turn() -> None:
    def fail() -> None:
        raise LookupError

    async def scenario() -> None:
        calls = Calls(asyncio.get_running_loop(), at_once=1, turn_s=3600)
        for _ in range(2):
            with pytest.raises(LookupError):
                await calls.run(fail)

    asyncio.run(scenario())


@pytest.mark.parametrize("raised", [SystemExit(3), KeyboardInterrupt(), GeneratorExit(), StopIteration()], ids=repr)
def test_exceptions_that_would_end_the_loop_fail_the_call(raised: BaseException) -> None:
    def leave() -> None:
        raise raised

    async def scenario() -> None:
        calls = Calls(asyncio.get_running_loop(), at_once=1, turn_s=60)
        with pytest.raises(PluginError, match=f"A call on a thread of this worker raised {type(raised).__name__}"):
            await asyncio.wait_for(calls.run(leave), 60)
        assert await calls.run(lambda: "the loop goes on") == "the loop goes on"

    asyncio.run(scenario())
