"""Runs calls that may block or never return, each on a thread of its own meanwhile, and waits for work that outlives its waiters.

Turns limit the number of concurrent calls. No thread prevents the process from ending.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from concurrent.futures import CancelledError, Executor, Future
from contextlib import asynccontextmanager, suppress
from functools import partial
from queue import Empty, SimpleQueue
from typing import Final, ParamSpec, TypeVar

from fencepost.api.plugin_calls import as_failure
from fencepost.runtime.turns import Turns

P = ParamSpec("P")
T = TypeVar("T")

_IDLE_SECONDS: Final = 5.0
"""How long a thread waits for another call before it ends."""

_Call = Callable[[], Callable[[], None]]
"""Makes a call, and returns the function that sets its future's result."""


class Calls:
    """Calls functions for an event loop, as many at once as there are turns."""

    def __init__(self, loop: asyncio.AbstractEventLoop, turns: Turns | None = None) -> None:
        self._loop = loop
        self._turns = turns or Turns()
        self._threads = _SharedThreads()

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


class _SharedThreads(Executor):
    """Daemon threads, each for one call at a time: one that has nothing to do takes the next call, else a new one does.

    A call that never returns keeps its thread, and no other call waits for that. Thread-safe.
    """

    def __init__(self, idle_s: float = _IDLE_SECONDS) -> None:
        self._idle_s = idle_s
        self._lock = threading.Lock()
        self._idle: list[SimpleQueue[_Call]] = []

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        future: Future[T] = Future()

        def call() -> Callable[[], None]:
            try:
                result = fn(*args, **kwargs)
            except CancelledError as error:
                return partial(future.set_exception, error)
            except BaseException as error:  # noqa: BLE001 - the future's to raise
                # SystemExit would end the event loop, and asyncio does not accept StopIteration.
                return partial(future.set_exception, as_failure("A call on a thread of this worker", error))
            return partial(future.set_result, result)

        future.set_running_or_notify_cancel()
        with self._lock:
            # The last one to become idle, so that those that are not needed end.
            inbox = self._idle.pop() if self._idle else None
        if inbox is None:
            threading.Thread(target=self._serve, args=(call,), name="herder", daemon=True).start()
        else:
            inbox.put(call)
        return future

    def _serve(self, call: _Call | None) -> None:
        inbox: SimpleQueue[_Call] = SimpleQueue()
        while call is not None:
            settle = call()
            with self._lock:
                self._idle.append(inbox)
            # Only now: the waiter for this answer may make the next call.
            settle()
            # The call's objects are freed while the thread waits.
            del call, settle
            call = self._next(inbox)

    def _next(self, inbox: SimpleQueue[_Call]) -> _Call | None:
        with suppress(Empty):
            return inbox.get(timeout=self._idle_s)
        with self._lock:
            if inbox in self._idle:
                self._idle.remove(inbox)
                return None
        # A call came just then.
        return inbox.get()


async def outcome_of(work: asyncio.Future[T]) -> T:
    """Return the result of the work, or raise its exception; the work continues if the waiter is cancelled.

    Several callers may wait for it. Without waiters its failure is retrieved, because asyncio would log it as a never
    retrieved exception.
    """
    work.add_done_callback(lambda done: done.cancelled() or done.exception())
    return await asyncio.shield(work)
