"""The common part of both herders: the worker, its event loop, and its threads."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, Final, ParamSpec, TypeVar

from fencepost.config.log_context import in_context
from fencepost.config.worker_config import WorkerConfig
from fencepost.herder.core.calls import Calls, in_turn
from fencepost.runtime.turns import Turns
from fencepost.runtime.worker import Worker
from fencepost.storage.configs.state import ClusterConfigState

P = ParamSpec("P")
T = TypeVar("T")

_CALLS_AT_ONCE: Final = 32


class WorkerParts(ABC):
    """The common part of HerderParts.

    All state belongs to the event loop; `run` makes blocking calls on other threads.
    """

    def __init__(self, worker: Worker, loop: asyncio.AbstractEventLoop) -> None:
        self.worker = worker
        self.loop = loop
        self._calls = Calls(loop, Turns(_CALLS_AT_ONCE))
        self._turns = Turns()

    @property
    def config(self) -> WorkerConfig:
        """The worker's configuration."""
        return self.worker.config

    @property
    @abstractmethod
    def state(self) -> ClusterConfigState:
        """The current connectors and their tasks."""

    def all_configs(self) -> list[Mapping[str, str | None]]:
        """Return the properties of the worker and of all connectors."""
        entries = self.state.entries.values()
        return [self.config.properties, *(entry.config for entry in entries if entry.config is not None)]

    async def run(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a blocking function on a thread, and wait for its result."""
        return await self._calls.run(in_context(lambda: function(*args, **kwargs)))

    def turn(self) -> AbstractAsyncContextManager[None]:
        """Wait for a turn to start or stop a connector or a task. The turn ends with the `async with` block."""
        return in_turn(self._turns)

    def on_loop(self, coroutine: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine on the event loop, and wait for it. Only for other threads than the event loop's.

        Raises the coroutine's errors.
        """
        asyncio.run_coroutine_threadsafe(coroutine, self.loop).result()
