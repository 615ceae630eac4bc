"""Standalone workers in the test's own process, and the part of them that fences earlier tasks."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Self

from fencepost.config.worker_config import WorkerConfig
from fencepost.herder.standalone.config_store import MemoryConfigs
from fencepost.herder.standalone.herder import StandaloneHerder
from fencepost.herder.standalone.standalone_fencing import StandaloneFencing
from fencepost.herder.standalone.standalone_parts import StandaloneParts
from fencepost.herder.work.worker_clients import config_store
from fencepost.kafka.config.client_config import ClientConfig
from fencepost.runtime.worker import Worker

URL = "http://127.0.0.1:1"


def standalone_properties(bootstrap_servers: str, group: str) -> dict[str, str]:
    """The properties of a standalone worker with its own topics."""
    converter = "org.apache.kafka.connect.storage.StringConverter"
    return {
        "bootstrap.servers": bootstrap_servers,
        "group.id": group,
        "key.converter": converter,
        "value.converter": converter,
        "offset.storage.topic": f"{group}-offsets",
        "offset.storage.partitions": "1",
        "config.storage.topic": f"{group}-configs",
    }


class ConnectorsFailed(Exception):  # noqa: N818 - it says what happened, and is not an error of the test
    """The errors with which a run ended."""


class StandaloneWorker:
    """A standalone herder without a REST API, on its own event loop."""

    def __init__(self, config: WorkerConfig, *connectors: Mapping[str, str], once: bool = False) -> None:
        self._config = config
        self._connectors = connectors
        self._once = once
        self._stopping = threading.Event()
        self._stopped: tuple[asyncio.AbstractEventLoop, asyncio.Event] | None = None

    def stop(self) -> None:
        """Make `run` stop everything and return. Any thread may call this."""
        self._stopping.set()
        if self._stopped is not None:
            loop, stopped = self._stopped
            if not loop.is_closed():
                loop.call_soon_threadsafe(stopped.set)

    def run(self) -> None:
        """Run until the worker is stopped or has nothing left to do.

        Raises ConnectorsFailed, and errors of the start.
        """
        asyncio.run(self._run())

    async def _run(self) -> None:
        stopped = asyncio.Event()
        self._stopped = asyncio.get_running_loop(), stopped
        if self._stopping.is_set():
            return
        herder = StandaloneHerder(Worker(self._config), self._connectors, URL, once=self._once)
        stopping = asyncio.ensure_future(stopped.wait())
        try:
            await herder.start()
            await asyncio.wait([herder.ended, stopping], return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopping.cancel()
            await herder.stop()
        if herder.ended.done() and herder.ended.result():
            raise ConnectorsFailed("; ".join(herder.ended.result()))


@contextmanager
def running(worker: StandaloneWorker) -> Iterator[list[Exception]]:
    """Run a worker on a thread, and stop it at the end. Yields the list that its failure will be in."""
    failures: list[Exception] = []

    def run() -> None:
        try:
            worker.run()
        except Exception as error:  # noqa: BLE001 - handed to the test
            failures.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield failures
    finally:
        worker.stop()
        thread.join(60)
    assert not thread.is_alive()


class FencingProcess:
    """The part of a standalone worker that fences earlier tasks; used with `async with`."""

    def __init__(self, config: WorkerConfig) -> None:
        loop = asyncio.get_running_loop()
        worker = Worker(config)
        counts = config_store(worker.clients, config, lambda *_: None, loop)
        self.parts = StandaloneParts(worker, "127.0.0.1:1", MemoryConfigs(lambda _: None), counts, loop)
        self.fencing = StandaloneFencing(self.parts)

    async def __aenter__(self) -> Self:
        administration = ClientConfig((self.parts.config.bootstrap_servers,))
        await asyncio.wrap_future(self.parts.task_counts.start(administration))
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.parts.run(self.parts.task_counts.close)

    def configure(self, connector: Mapping[str, str], tasks: int) -> None:
        """Give a connector this many new tasks."""
        name = connector["name"]
        self.parts.configs.load(name, connector)
        self.parts.configs.put_task_configs(name, [connector] * tasks)

    async def advance(self, connector: Mapping[str, str], tasks: int) -> None:
        """Give a connector this many new tasks, and fence its earlier tasks."""
        self.configure(connector, tasks)
        await self.fencing.lead(connector["name"])
