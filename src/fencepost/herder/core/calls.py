"""Runs calls that may block or never return, each on its own thread, and waits for work that outlives its waiters.

Turns limit the number of concurrent calls. No thread prevents the process from ending.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from concurrent.futures import CancelledError, Executor, Future
from contextlib import asynccontextmanager, suppress
from typing import ParamSpec, TypeVar

from fencepost.api.plugin_calls import as_failure
from fencepost.runtime.turns import Turns

P = ParamSpec("P")
T = TypeVar("T")


class Calls:
    """Calls functions for an event loop, as many at once as there are turns."""

    def __init__(self, loop: asyncio.AbstractEventLoop, turns: Turns | None = None) -> None:
        self._loop = loop
        self._turns = turns or Turns()
        self._threads = _NewThreads()

    async def run(self, function: Callable[[], T]) -> T:
        """Return the function's result, or raise its exception. The call continues if the waiter is cancelled."""
        async with in_turn(self._turns):
            return await self._loop.run_in_executor(self._threads, function)


@asynccontextmanager
async def in_turn(turns: Turns) -> AsyncIterator[None]:
    """Wait for a turn on the event loop, and have it in the body."""
    loop = asyncio.get_running_loop()
    given: asyncio.Future[None] = loop.create_future()
    turn = turns.ask(lambda: _set_soon(loop, given))
    try:
        if not turn.given:
            await given
        yield
    finally:
        turn.end()


def _set_soon(loop: asyncio.AbstractEventLoop, given: asyncio.Future[None]) -> None:
    def set_result() -> None:
        if not given.done():
            given.set_result(None)

    with suppress(RuntimeError):  # the loop is closed
        loop.call_soon_threadsafe(set_result)


class _NewThreads(Executor):
    """A new daemon thread for each call."""

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        future: Future[T] = Future()

        def call() -> None:
            try:
                result = fn(*args, **kwargs)
            except CancelledError as error:
                future.set_exception(error)
            except BaseException as error:  # noqa: BLE001 - the future's to raise
                # SystemExit would end the event loop, and asyncio does not accept StopIteration.
                future.set_exception(as_failure("A call on a thread of this worker", error))
            else:
                future.set_result(result)

        future.set_running_or_notify_cancel()
        threading.Thread(target=call, name="herder", daemon=True).start()
        return future


async def outcome_of(work: asyncio.Future[T]) -> T:
    """Return the result of the work, or raise its exception; the work continues if the waiter is cancelled.

    Several callers may wait for it. Without waiters its failure is retrieved, because asyncio would log it as a never
    retrieved exception.
    """
    work.add_done_callback(lambda done: done.cancelled() or done.exception())
    return await asyncio.shield(work)
