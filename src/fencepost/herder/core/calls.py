"""Runs calls that may block or never return, each on its own thread, and waits for work that outlives its waiters.

The number of concurrent calls is limited by turns. A turn ends with its call, or after some time: a hanging call
continues without a turn, and the next call begins. No thread prevents the process from ending.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import CancelledError, Executor, Future
from typing import ParamSpec, TypeVar

from fencepost.api.plugin_calls import as_failure

P = ParamSpec("P")
T = TypeVar("T")


class Calls:
    """Calls functions for an event loop, `at_once` at a time; calls longer than `turn_s` seconds do not count."""

    def __init__(self, loop: asyncio.AbstractEventLoop, *, at_once: int, turn_s: float) -> None:
        self._loop = loop
        self._turn_s = turn_s
        self._turns = asyncio.Semaphore(at_once)
        self._threads = _NewThreads()

    async def run(self, function: Callable[[], T]) -> T:
        """Return the function's result, or raise its exception. The call continues if the waiter is cancelled."""
        await self._turns.acquire()
        call = self._loop.run_in_executor(self._threads, function)
        turn = _Turn(self._turns)
        over = self._loop.call_later(self._turn_s, turn.end)
        try:
            return await call
        finally:
            over.cancel()
            turn.end()


class _Turn:
    """Ends once."""

    def __init__(self, turns: asyncio.Semaphore) -> None:
        self._turns: asyncio.Semaphore | None = turns

    def end(self) -> None:
        turns, self._turns = self._turns, None
        if turns is not None:
            turns.release()


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
