"""Calls in threads: one that never returns blocks nobody, and work goes on when its waiters are gone."""

from __future__ import annotations

import asyncio
import gc
import threading
from contextlib import suppress
from typing import Any

import pytest

from fencepost.api.errors import PluginError
from fencepost.herder.core.calls import Calls, _SharedThreads, outcome_of
from fencepost.runtime.turns import Turns
from tests.support.group import until


def test_calls_wait_for_their_turn_and_not_for_hanging_ones() -> None:
    released, begun, lock = threading.Event(), 0, threading.Lock()

    def hang() -> None:
        nonlocal begun
        with lock:
            begun += 1
        released.wait(300)

    async def scenario() -> None:
        calls = Calls(asyncio.get_running_loop(), Turns(2, 0.1))
        hanging = [asyncio.ensure_future(calls.run(hang)) for _ in range(5)]
        # The calls have asked for their turns.
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
        calls = Calls(asyncio.get_running_loop(), Turns(2, 3600))
        await asyncio.gather(*(calls.run(count) for _ in range(20)))

    asyncio.run(scenario())
    assert most == 2


def test_calls_one_after_the_other_share_a_thread() -> None:
    async def scenario() -> None:
        calls = Calls(asyncio.get_running_loop(), Turns(8, 3600))
        threads = {await calls.run(threading.current_thread) for _ in range(20)}
        assert len(threads) == 1

    asyncio.run(scenario())


def test_a_call_never_waits_for_the_thread_of_a_hanging_one() -> None:
    released = threading.Event()

    async def scenario() -> None:
        calls = Calls(asyncio.get_running_loop(), Turns(8, 3600))
        hanging = [asyncio.ensure_future(calls.run(lambda: released.wait(300))) for _ in range(3)]
        threads = {await asyncio.wait_for(calls.run(threading.current_thread), 60) for _ in range(3)}
        assert not any(call.done() for call in hanging)
        assert all(thread.daemon for thread in threads)
        released.set()
        await asyncio.gather(*hanging)

    asyncio.run(scenario())


def test_idle_threads_end_and_calls_that_come_just_then_run() -> None:
    threads = _SharedThreads(idle_s=0.001)
    used = {threads.submit(threading.current_thread).result(60) for _ in range(300)}
    for thread in used:
        thread.join(60)
    assert not any(thread.is_alive() for thread in used)


def test_an_exception_of_a_call_is_raised_and_ends_its_turn() -> None:
    def fail() -> None:
        raise LookupError

    async def scenario() -> None:
        calls = Calls(asyncio.get_running_loop(), Turns(1, 3600))
        for _ in range(2):
            with pytest.raises(LookupError):
                await calls.run(fail)

    asyncio.run(scenario())


@pytest.mark.parametrize("raised", [SystemExit(3), KeyboardInterrupt(), GeneratorExit(), StopIteration()], ids=repr)
def test_exceptions_that_would_end_the_loop_fail_the_call(raised: BaseException) -> None:
    def leave() -> None:
        raise raised

    async def scenario() -> None:
        calls = Calls(asyncio.get_running_loop(), Turns(1, 60))
        with pytest.raises(PluginError, match=f"A call on a thread of this worker raised {type(raised).__name__}"):
            await asyncio.wait_for(calls.run(leave), 60)
        assert await calls.run(lambda: "the loop goes on") == "the loop goes on"

    asyncio.run(scenario())


async def _fails_when(told: asyncio.Event) -> None:
    await told.wait()
    raise ValueError("no broker")


def test_work_continues_without_its_waiter_and_its_failure_is_not_logged() -> None:
    forgotten: list[dict[str, Any]] = []

    async def run() -> bool:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: forgotten.append(context))
        told = asyncio.Event()
        work = asyncio.ensure_future(_fails_when(told))
        waiting = asyncio.ensure_future(outcome_of(work))
        await asyncio.sleep(0)
        waiting.cancel()
        with suppress(asyncio.CancelledError):
            await waiting
        went_on = not work.done()
        told.set()
        await asyncio.wait([work])
        return went_on

    assert asyncio.run(run())
    gc.collect()
    assert forgotten == []


def test_all_waiters_get_the_failure() -> None:
    async def run() -> None:
        told = asyncio.Event()
        told.set()
        work = asyncio.ensure_future(_fails_when(told))
        for failed in await asyncio.gather(outcome_of(work), outcome_of(work), return_exceptions=True):
            assert isinstance(failed, ValueError)

    asyncio.run(run())
