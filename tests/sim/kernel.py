"""A simulated world with its own clock: a seed decides in which order processes' event loops and threads run.

Code that was written for asyncio and threads runs unchanged: a process has an event loop (`SimLoop`) and threads, which
are greenlets (`spawn`). Only one event happens at a time; between two events a process may be suspended for a while, as
by SIGSTOP, or killed. A call that would block waits for another event instead.
"""

from __future__ import annotations

import asyncio
import heapq
import random
from collections import Counter
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

from greenlet import GreenletExit, getcurrent, greenlet

from tests.sim.loop import SimLoop


class Process:
    """A worker's or a user's process. A stopped process does nothing until `resume`.

    Until `cut_off_until`, none of its messages arrive. Until `deaf_until`, it gets no news of topics that it follows.
    """

    def __init__(self, kernel: Kernel, name: str) -> None:
        self.kernel = kernel
        self.name = name
        self.alive = True
        self.stopped_until = 0.0
        self.cut_off_until = 0.0
        self.deaf_until = 0.0
        self.held: list[tuple[float, int, Callable[[], None]]] = []
        self.fibers: dict[Fiber, None] = {}
        self.loop = SimLoop(self)

    def spawn(self, function: Callable[[], Any], delay: float = 0.0) -> Fiber:
        """Run a function as a thread of this process, soon."""
        fiber = Fiber(self, function)
        self.kernel.later(delay, fiber.run, self)
        return fiber

    def stop(self, seconds: float) -> None:
        """Suspend the process, as by SIGSTOP."""
        self.stopped_until = max(self.stopped_until, self.kernel.now + seconds)
        self.kernel.later(seconds, lambda: self.resume(early=False))

    def resume(self, *, early: bool = True) -> None:
        """Resume the process; events that came meanwhile happen first."""
        if early or self.stopped_until <= self.kernel.now:
            self.stopped_until = 0.0
            held, self.held = self.held, []
            for due, sequence, event in held:
                self.kernel.again(due, sequence, self, event)

    def holds(self, due: float, sequence: int, event: Callable[[], None]) -> bool:
        """Whether an event does not happen at once: keep it until `resume`, or drop it if the process is dead."""
        if self.alive and self.stopped_until > self.kernel.now:
            self.held.append((due, sequence, event))
            return True
        return not self.alive

    def kill(self) -> None:
        """End the process at once, whatever it is doing."""
        if not self.alive:
            return
        self.alive = False
        for fiber in list(self.fibers):
            fiber.kill()
        self.loop.kill()


class Fiber:
    """A simulated thread."""

    def __init__(self, process: Process, function: Callable[[], Any]) -> None:
        self.process = process
        self.done = False
        self._function = function
        self._waits_for = 0
        self._told: Any = None
        self._greenlet = greenlet(self._main)
        self._greenlet.fiber = self
        self._finished: list[Callable[[], None]] = []
        process.fibers[self] = None

    def run(self) -> None:
        if not self.done:
            self._greenlet.parent = getcurrent()
            self._greenlet.switch()

    def kill(self) -> None:
        if self._greenlet and not self._greenlet.dead and self._greenlet is not getcurrent():
            self._greenlet.parent = getcurrent()
            with suppress(GreenletExit):
                self._greenlet.throw(GreenletExit)
        self.done = True

    def _main(self) -> None:
        try:
            self._function()
        except GreenletExit:
            return
        except Exception as error:  # noqa: BLE001 - whatever it is, it must not be
            self.process.kernel.fault(f"a thread of {self.process.name} ended with {error!r}", error)
        finally:
            self.done = True
            self.process.fibers.pop(self, None)
            # Without a reference cycle, the fiber is freed at once.
            del self._greenlet.fiber, self._function
        for told in self._finished:
            told()

    def on_finish(self, told: Callable[[], None]) -> None:
        if self.done:
            told()
        else:
            self._finished.append(told)

    def ticket(self) -> int:
        """A token with which `wake` can end the next `park`."""
        self._waits_for += 1
        return self._waits_for

    def park(self, seconds: float | None = None) -> Any:
        """Wait for `wake`, and return its value; None after a timeout."""
        ticket, self._told = self._waits_for, None
        if seconds is not None:
            self.process.kernel.later(seconds, _Timeout(self, ticket), self.process)
        self._greenlet.parent.switch()
        if not self.process.alive:
            raise GreenletExit
        return self._told

    def waits(self, ticket: int) -> bool:
        """Whether the `park` of a ticket is still waiting."""
        return ticket == self._waits_for and not self.done

    def wake(self, ticket: int, told: Any) -> None:
        """End a `park`, in an event of the fiber's process; a late call has no effect."""
        if self.waits(ticket):
            self._waits_for += 1
            self._told = told
            self.run()


class _Timeout:
    """Ends a `park` at its timeout. Most have ended by then, and the event does nothing."""

    __slots__ = ("_fiber", "_ticket")

    def __init__(self, fiber: Fiber, ticket: int) -> None:
        self._fiber = fiber
        self._ticket = ticket

    @property
    def is_due(self) -> bool:
        return self._fiber.waits(self._ticket)

    def __call__(self) -> None:
        self._fiber.wake(self._ticket, None)


class Kernel:
    """The clock and the pending events. Times are in seconds."""

    def __init__(self, seed: int, trace: Callable[[str], None] | None = None) -> None:
        self.random = random.Random(seed)
        self.now = 0.0
        self.faults: list[str] = []
        self.troubles: Counter[str] = Counter()
        """How often each fault of processes and messages happened."""
        self.reruns = 0.0
        """How often Spark runs a writer's stage again."""
        self.process: Process | None = None
        self.events = 0
        self._trace = trace
        self._heap: list[tuple[float, float, int, Process | None, Callable[[], None]]] = []
        self._sequence = 0

    @property
    def tracing(self) -> bool:
        return self._trace is not None

    def note(self, text: str) -> None:
        """Add a line to the trace."""
        if self._trace is not None:
            name = self.process.name if self.process is not None else "-"
            self._trace(f"{self.now:9.3f}  {name:8}  {text}")

    def trouble(self, kind: str, text: str) -> None:
        """Count a fault of a process or a message, and add it to the trace."""
        self.troubles[kind] += 1
        self.note(text)

    def fault(self, text: str, error: BaseException | None = None) -> None:
        """Record an error that must not happen."""
        self.note(f"FAULT: {text}")
        if error is not None and self._trace is not None:
            import traceback  # noqa: PLC0415 - for a trace that is read by a person

            self._trace("".join(traceback.format_exception(error)))
        self.faults.append(text)

    def later(self, delay: float, event: Callable[[], None], process: Process | None = None) -> None:
        """Schedule an event; in a process, only if the process is alive then, and not before it is resumed."""
        self._sequence += 1
        when = self.now + delay
        heapq.heappush(self._heap, (when, when, self._sequence, process, event))

    def again(self, due: float, sequence: int, process: Process, event: Callable[[], None]) -> None:
        """Let a delayed event happen now, in its order."""
        heapq.heappush(self._heap, (self.now, due, sequence, process, event))

    def run(self, until: float, ended: Callable[[], bool] = lambda: False) -> None:
        """Run until a time, or until a condition is true, which is checked twice a second."""
        look_at = self.now
        heap, faults, pop = self._heap, self.faults, heapq.heappop
        try:
            while heap and not faults:
                if heap[0][0] > until:
                    break
                if heap[0][0] >= look_at:
                    if ended():
                        break
                    look_at = heap[0][0] + 0.5
                when, due, sequence, process, event = pop(heap)
                if type(event) is _Timeout and not event.is_due:
                    continue
                self.now = max(self.now, when)
                if process is not None and process.holds(due, sequence, event):
                    continue
                if process is not self.process:
                    self._switch_to(process)
                self.events += 1
                event()
        finally:
            self._switch_to(None)

    def _switch_to(self, process: Process | None) -> None:
        """Set the process in which the next code runs; None for no process."""
        self.process = process
        asyncio._set_running_loop(None if process is None else process.loop)

    def enter(self, process: Process, event: Callable[[], None]) -> None:
        """Run a function in a process."""
        before = self.process
        self._switch_to(process)
        try:
            event()
        finally:
            self._switch_to(before)

    # -- what code on a thread of a process calls ---------------------------------------------------------------

    @property
    def fiber(self) -> Fiber:
        """The current thread."""
        fiber: Fiber = getcurrent().fiber
        return fiber

    def sleep(self, seconds: float) -> None:
        fiber = self.fiber
        fiber.ticket()
        fiber.park(seconds)

    def wait_for(self, coroutine: Coroutine[Any, Any, Any], timeout: float | None = None) -> tuple[bool, Any]:
        """Run a coroutine on the process's loop; return whether it ended in time, and its result. Raises its error."""
        fiber = self.fiber
        loop = fiber.process.loop
        ticket = fiber.ticket()
        loop.to_start[coroutine] = None

        def start() -> None:
            del loop.to_start[coroutine]
            task = loop.create_task(coroutine)
            task.add_done_callback(lambda done: fiber.wake(ticket, done))

        loop.call_soon(start)
        done = fiber.park(timeout)
        return (False, None) if done is None else (True, done.result())
