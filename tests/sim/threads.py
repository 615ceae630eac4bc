"""Simulated threads, pools and clock, with the methods that the worker uses."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Any

from tests.sim.kernel import Fiber, Kernel, Process


class SimThread:
    """Replaces threading.Thread: a fiber of the process that starts it."""

    def __init__(
        self, kernel: Kernel, target: Callable[..., Any], name: str = "", daemon: bool = True, args: Any = ()
    ) -> None:
        del name, daemon
        self._kernel = kernel
        self._target = lambda: target(*args)
        self._fiber: Fiber | None = None

    @property
    def ident(self) -> int | None:
        return None if self._fiber is None else 1

    def start(self) -> None:
        assert self._kernel.process is not None
        self._fiber = self._kernel.process.spawn(self._target, self._kernel.random.random() * 0.01)

    def is_alive(self) -> bool:
        return self._fiber is not None and not self._fiber.done

    def join(self, timeout: float | None = None) -> None:
        if self._fiber is not None and not self._fiber.done:
            fiber = self._kernel.fiber
            ticket = fiber.ticket()
            process = fiber.process
            self._fiber.on_finish(lambda: self._kernel.later(0.0, lambda: fiber.wake(ticket, None), process))
            fiber.park(timeout)


class SimCondition:
    """Replaces threading.Condition. Its lock does nothing, because a fiber runs alone until it waits."""

    def __init__(self, kernel: Kernel, lock: Any = None) -> None:
        del lock
        self._kernel = kernel
        self._waiting: list[tuple[Fiber, int]] = []

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: object) -> None:
        return None

    def wait_for(self, true: Callable[[], bool], timeout: float | None = None) -> bool:
        kernel = self._kernel
        ends = None if timeout is None else kernel.now + timeout
        while not true() and (ends is None or kernel.now < ends):
            fiber = kernel.fiber
            self._waiting.append((fiber, fiber.ticket()))
            fiber.park(None if ends is None else ends - kernel.now)
        return true()

    def notify_all(self) -> None:
        waiting, self._waiting = self._waiting, []
        for fiber, ticket in waiting:
            self._kernel.later(0.0, lambda f=fiber, t=ticket: f.wake(t, None), fiber.process)


class SimEvent:
    """Replaces threading.Event."""

    def __init__(self, kernel: Kernel) -> None:
        self._set = False
        self._changed = SimCondition(kernel)

    def is_set(self) -> bool:
        return self._set

    def set(self) -> None:
        self._set = True
        self._changed.notify_all()

    def wait(self, timeout: float | None = None) -> bool:
        return self._changed.wait_for(self.is_set, timeout)


class SimLock:
    """Replaces threading.Lock."""

    def __init__(self, kernel: Kernel) -> None:
        self._held = False
        self._freed = SimCondition(kernel)

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()

    def acquire(self, timeout: float | None = None) -> bool:
        free = self._freed.wait_for(lambda: not self._held, timeout)
        self._held |= free
        return free

    def release(self) -> None:
        self._held = False
        self._freed.notify_all()


class SimThreading:
    """The parts of `threading` that the worker uses, for the current process."""

    def __init__(self, kernel: Kernel) -> None:
        self.Thread = partial(SimThread, kernel)
        self.Condition = partial(SimCondition, kernel)
        self.Event = partial(SimEvent, kernel)
        self.Lock = partial(SimLock, kernel)
        self.RLock = threading.RLock
        # The real one: in this interpreter only one simulated thread runs at a time.
        self.active_count = threading.active_count


class SimFuture(Future[Any]):
    """A future for whose end a thread of a process may wait."""

    def __init__(self, kernel: Kernel) -> None:
        super().__init__()
        self._kernel = kernel

    def result(self, timeout: float | None = None) -> Any:
        if not self.done():
            fiber = self._kernel.fiber
            ticket, process = fiber.ticket(), fiber.process
            self.add_done_callback(lambda _: self._kernel.later(0.0, lambda: fiber.wake(ticket, None), process))
            fiber.park(timeout)
        return super().result(0)


class SimExecutor:
    """A pool of one thread."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._queue: deque[tuple[SimFuture, Callable[[], Any]]] = deque()
        self._busy = False

    def submit(self, function: Callable[..., Any], *args: Any) -> Future[Any]:
        future = SimFuture(self._process.kernel)
        self._queue.append((future, lambda: function(*args)))
        if not self._busy:
            self._busy = True
            self._process.spawn(self._work)
        return future

    def shutdown(self, *, wait: bool = True, cancel_futures: bool = False) -> None:
        """There is nothing to release."""

    def _work(self) -> None:
        while self._queue:
            future, function = self._queue.popleft()
            if not future.set_running_or_notify_cancel():
                continue
            try:
                future.set_result(function())
            except Exception as error:  # noqa: BLE001 - the future's to raise
                future.set_exception(error)
        self._busy = False


class SimTime:
    """The parts of `time` that the worker uses."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel

    def monotonic(self) -> float:
        return self._kernel.now

    def monotonic_ns(self) -> int:
        return int(self._kernel.now * 1e9)

    def time_ns(self) -> int:
        return int(self._kernel.now * 1e9)

    def time(self) -> float:
        return self._kernel.now

    def sleep(self, seconds: float) -> None:
        self._kernel.sleep(seconds)
