"""The event loop of a simulated process, with the methods that asyncio's classes use."""

from __future__ import annotations

import asyncio
import contextvars
from collections import deque
from collections.abc import Coroutine
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.sim.kernel import Process


class _Call:
    """Replaces asyncio.Handle, for a loop without debug mode."""

    __slots__ = ("_args", "_callback", "_cancelled", "_context")

    def __init__(self, callback: Any, args: tuple[Any, ...], context: contextvars.Context | None) -> None:
        self._callback = callback
        self._args = args
        self._context = contextvars.copy_context() if context is None else context
        self._cancelled = False

    def cancel(self) -> None:
        self._cancelled = True

    def cancelled(self) -> bool:
        return self._cancelled

    def run(self, loop: SimLoop) -> None:
        if not self._cancelled:
            try:
                self._context.run(self._callback, *self._args)
            except BaseException as error:  # noqa: BLE001 - as asyncio does
                loop.call_exception_handler({"message": f"{self._callback} failed", "exception": error, "handle": self})


class SimLoop(asyncio.AbstractEventLoop):
    """A process's event loop, with the methods that asyncio's own classes use."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._kernel = process.kernel
        self._ready: deque[_Call] = deque()
        self._due = False
        self._tasks: dict[asyncio.Task[Any], contextvars.Context] = {}
        self.to_start: dict[Coroutine[Any, Any, Any], None] = {}
        """Calls from threads that the loop has not run yet."""

    def time(self) -> float:
        return self._kernel.now

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return self._process.alive

    def is_closed(self) -> bool:
        return not self._process.alive

    def call_soon(self, callback: Any, *args: Any, context: Any = None) -> _Call:
        call = _Call(callback, args, context)
        self._ready.append(call)
        if not self._due and self._process.alive:
            self._due = True
            self._kernel.later(0.0, self._run, self._process)
        return call

    call_soon_threadsafe = call_soon

    def call_later(self, delay: float, callback: Any, *args: Any, context: Any = None) -> asyncio.TimerHandle:
        timer = asyncio.TimerHandle(self._kernel.now + delay, callback, args, self, context)
        self._kernel.later(max(0.0, delay), lambda: None if timer.cancelled() else timer._run(), self._process)
        return timer

    def call_at(self, when: float, callback: Any, *args: Any, context: Any = None) -> asyncio.TimerHandle:
        return self.call_later(when - self._kernel.now, callback, *args, context=context)

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        pass

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(self, coro: Any, *, name: str | None = None, context: Any = None) -> asyncio.Task[Any]:
        context = contextvars.copy_context() if context is None else context
        task: asyncio.Task[Any] = asyncio.Task(coro, loop=self, name=name, context=context)
        task._log_destroy_pending = False  # type: ignore[attr-defined]
        self._tasks[task] = context
        task.add_done_callback(lambda done: self._tasks.pop(done, None))
        return task

    def run_in_executor(self, executor: Any, func: Any, *args: Any) -> Any:
        del executor
        future = self.create_future()

        def work() -> None:
            try:
                result, error = func(*args), None
            except Exception as raised:  # noqa: BLE001 - the future's to raise
                result, error = None, raised
            if not future.cancelled():
                if error is None:
                    future.set_result(result)
                else:
                    future.set_exception(error)

        self._process.spawn(work, self._kernel.random.random() * 0.01)
        return future

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        error = context.get("exception")
        # Tasks whose end nobody awaited are left to the garbage collector.
        if self._process.alive and error is not None and "handle" in context:
            self._kernel.fault(f"the event loop of {self._process.name}: {context['message']}: {error!r}", error)

    def kill(self) -> None:
        # Each coroutine is closed in its own context, which its clean-up may use.
        ends = [partial(context.run, task.get_coro().close) for task, context in self._tasks.items()]
        for end in [*ends, *(coroutine.close for coroutine in self.to_start)]:
            with suppress(RuntimeError):
                end()
        self._tasks.clear()
        self.to_start.clear()
        self._ready.clear()

    def _run(self) -> None:
        ready = self._ready
        while ready:
            ready.popleft().run(self)
        self._due = False
