"""Workers of a group in the test's own process, so that a test can make their tasks hang and count their calls."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from types import TracebackType
from typing import Any, Self, TypeVar

import pytest

from fencepost.config.group_config import GroupConfig
from fencepost.config.rest_config import RestConfig
from fencepost.config.worker_config import WorkerConfig, WorkerMode
from fencepost.embedded.java import find_java
from fencepost.herder.distributed.herder import DistributedHerder
from fencepost.rest.server import RestServer
from fencepost.runtime.worker import Worker
from tests.support.processes import wait_for
from tests.support.workers import NO_JAVA, Group, WorkerApi

_SECONDS = 120.0

T = TypeVar("T")


class LocalWorkers:
    """Workers of a group. They share one event loop in a separate thread. Without `java` they find no Java."""

    def __init__(self, group: Group, *, java: bool = False) -> None:
        self.group = group
        self._environment = {} if java else NO_JAVA
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="local-workers")
        self._patch = pytest.MonkeyPatch()
        self._running: list[tuple[RestServer, DistributedHerder]] = []

    def __enter__(self) -> Self:
        self._thread.start()
        for name, value in self._environment.items():
            self._patch.setenv(name, value)
        find_java.cache_clear()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._run(self._stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        self._patch.undo()
        find_java.cache_clear()

    def start(self, **settings: str) -> WorkerApi:
        """Start a worker, and wait until it is in its group. The first one leads."""
        worker = WorkerApi(self._run(self._start(settings)))
        wait_for(worker.healthy, what="the worker is in its group")
        return worker

    def _run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(_SECONDS)

    async def _start(self, settings: dict[str, str]) -> int:
        own = {name.replace("_", "."): value for name, value in settings.items()}
        properties = {**self.group.settings, "listeners": "http://127.0.0.1:0", **own}
        config = WorkerConfig.from_properties(properties, where="a test", mode=WorkerMode.DISTRIBUTED)
        server = RestServer(RestConfig.from_properties(properties, where="a test"))
        runtime = Worker(config)
        herder = DistributedHerder(
            runtime, GroupConfig.from_properties(properties, where="a test"), server.advertised_url, server.client
        )
        self._running.append((server, herder))
        await server.start(herder, runtime.metrics.registry)
        await herder.start()
        return int(server.advertised_url.rpartition(":")[2])

    async def _stop(self) -> None:
        for server, herder in reversed(self._running):
            await server.stop()
            await herder.stop()
