"""Runs calls that may block or never return, each on its own thread.

Also waits for work that goes on if its waiters are cancelled.

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
"""The seconds that an idle thread waits for a call before it ends."""

_Call = Callable[[], Callable[[], None]]
"""Makes a call, and returns a function that sets the result of the call's future."""


class Calls:
    """Calls functions for an event loop, as many at once as there are turns."""

    def __init__(self, loop: asyncio.AbstractEventLoop, turns: Turns) -> None:
        self._loop = loop
        self._turns = turns
        self._threads = _SharedThreads()

    async def run(self, function: Callable[[], T]) -> T:
        """Return the function's result, or raise its exception. The call continues if the waiter is cancelled."""
        async with in_turn(self._turns):
            return await self._loop.run_in_executor(self._threads, function)


@asynccontextmanager
async def in_turn(turns: Turns) -> AsyncIterator[None]:
    """Wait on the event loop for a turn, and hold the turn during the body."""
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
    """Daemon threads that each run one call at a time.

    An idle thread takes the next call. If no thread is idle, a new one is started.

    A call that never returns keeps its thread, but no other call waits for that thread. Thread-safe.
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
            # Take the thread that became idle last. Threads that are not needed then stay idle until they end.
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
            # The thread becomes idle before it sets the result: a caller that gets the result may make its next call at
            # once, which then finds this thread.
            settle()
            # Drop the references to the call, so that its objects are freed while the thread is idle.
            del call, settle
            call = self._next(inbox)

    def _next(self, inbox: SimpleQueue[_Call]) -> _Call | None:
        with suppress(Empty):
            return inbox.get(timeout=self._idle_s)
        with self._lock:
            if inbox in self._idle:
                self._idle.remove(inbox)
                return None
        # `submit` has just taken this thread from the idle ones, so its next call arrives at once.
        return inbox.get()


async def outcome_of(work: asyncio.Future[T]) -> T:
    """Return the result of the work, or raise its exception. The work continues if the waiter is cancelled.

    Several callers may wait for it. If no waiter is left, the exception is retrieved here, because asyncio would log an
    exception that nobody retrieved.
    """
    work.add_done_callback(lambda done: done.cancelled() or done.exception())
    return await asyncio.shield(work)
