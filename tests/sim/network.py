"""The way between a process and the broker, or another process: delays, losses, and cuts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

from tests.sim.kernel import Kernel, Process

Reply = Callable[[Any], None]


class Network:
    """One process's connection to others. A request may be carried out late, or without an answer."""

    def __init__(self, process: Process, chaos: Callable[[Process, str], bool], slow: float) -> None:
        """`chaos` decides for each message whether it is lost; it may also stop or kill the process.

        `slow` is the probability that a message takes seconds.
        """
        self._process = process
        self.slow = slow
        self._kernel: Kernel = process.kernel
        self._chaos = chaos
        self._sent = 0
        self._arrived = 0

    def call(self, request: Callable[[], Any], *, timeout: float, what: str = "") -> Any:
        """Run a request on the broker from a thread; return its answer, None if none comes in time."""
        return self.ask(lambda reply: reply(request()), timeout=timeout, what=what)

    def ask(self, request: Callable[[Reply], None], *, timeout: float, what: str = "") -> Any:
        """Like `call`, for a broker method that answers at any later time."""
        self._chaos(self._process, f"before {what}")
        self._stand_still()
        fiber = self._kernel.fiber
        ticket = fiber.ticket()
        self._send(request, lambda answer: fiber.wake(ticket, answer))
        answer = fiber.park(timeout)
        self._chaos(self._process, "after")
        self._stand_still()
        return answer

    def _stand_still(self) -> None:
        """Wait if the process was just stopped."""
        if self._process.stopped_until > self._kernel.now:
            self._kernel.sleep(0.0)

    async def ask_async(self, request: Callable[[Reply], None], *, timeout: float) -> Any:  # noqa: ASYNC109 - as `ask`
        """Like `ask`, on the event loop."""
        future = self._process.loop.create_future()
        self._send(request, lambda answer: None if future.done() else future.set_result(answer))
        try:
            async with asyncio.timeout(timeout):
                return await future
        except TimeoutError:
            return None

    def _send(self, request: Callable[[Reply], None], answered: Callable[[Any], None]) -> None:
        lost = self._chaos(self._process, "sending")
        if lost or self._process.cut_off_until > self._kernel.now:
            return
        self._sent += 1
        self._kernel.later(self.delay(), partial(self._arrive, self._sent, request, answered))

    def _arrive(self, number: int, request: Callable[[Reply], None], answered: Callable[[Any], None]) -> None:
        if number < self._arrived:
            self._kernel.troubles["message overtaken"] += 1
        self._arrived = max(self._arrived, number)
        request(lambda answer: self._answer(answer, answered))

    def _answer(self, answer: Any, answered: Callable[[Any], None]) -> None:
        delay = self.delay()
        if self._process.cut_off_until > self._kernel.now + delay or self._chaos(self._process, "answering"):
            return
        self._kernel.later(delay, lambda: answered(answer), self._process)

    def delay(self) -> float:
        """The delay of a message: some milliseconds, sometimes much longer."""
        draw = self._kernel.random.random
        return 0.001 + draw() * 0.004 if draw() >= self.slow else draw() * 4.0
