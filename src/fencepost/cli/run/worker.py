"""`fencepost worker`: a worker of a group that shares connectors and tasks."""

from __future__ import annotations

import asyncio
import gc
import importlib
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fencepost.cli.common.exit_codes import exit_codes
from fencepost.cli.common.signals import until_signal

if TYPE_CHECKING:
    from fencepost.herder.distributed.herder import DistributedHerder


@click.command(epilog=exit_codes(done="stopped", failed="cannot be in its group"))
@click.argument("properties", metavar="WORKER.properties", type=click.Path(path_type=Path))
def worker(properties: Path) -> None:
    """Run a worker of a group, with Kafka Connect's REST API.

    The file has the format of Kafka Connect's distributed mode. Workers with the same group.id share connectors and
    tasks. SIGTERM and Ctrl-C commit open transactions and stop; a second one stops immediately.
    """
    asyncio.run(_run(properties))


async def _run(path: Path) -> None:
    # Import only the code that answers requests: the herder's dependencies (Spark, Arrow, a Kafka client) take a while
    # to import.
    from fencepost.config import file_descriptors  # noqa: PLC0415 - see above
    from fencepost.config.config_transformer import placeholder_files, resolve_worker_properties  # noqa: PLC0415 - see above
    from fencepost.config.group_config import GroupConfig  # noqa: PLC0415 - see above
    from fencepost.config.properties import load_properties  # noqa: PLC0415 - see above
    from fencepost.config.rest_config import RestConfig  # noqa: PLC0415 - see above
    from fencepost.config.worker_config import WorkerConfig, WorkerMode  # noqa: PLC0415 - see above
    from fencepost.rest.server import RestServer  # noqa: PLC0415 - see above

    file_descriptors.raise_limit()
    given = load_properties(path)
    properties = resolve_worker_properties(given, where=str(path))
    files = [str(path), *placeholder_files(given)]
    config = WorkerConfig.from_properties(properties, where=str(path), mode=WorkerMode.DISTRIBUTED, files=files)
    group = GroupConfig.from_properties(properties, where=str(path))
    server = RestServer(RestConfig.from_properties(properties, where=str(path)))
    herder: DistributedHerder | None = None
    try:
        await server.announce()
        await asyncio.to_thread(_import_herder)
        from fencepost.herder.distributed.herder import DistributedHerder  # noqa: PLC0415 - see above
        from fencepost.runtime.worker import Worker  # noqa: PLC0415 - see above

        runtime = Worker(config)
        herder = DistributedHerder(runtime, group, server.advertised_url, server.client)
        await server.start(herder, runtime.metrics.registry)
        await until_signal(herder.start(), herder.failed)
        if herder.failed.done():
            raise herder.failed.result()
    finally:
        if herder is not None:
            # Do not wait for requests that wait for the group.
            herder.refuse_requests()
        await server.stop()
        if herder is not None:
            await herder.stop()


def _import_herder() -> None:
    # Imported objects stay alive: scanning them for garbage would take a tenth of the time, now and in each later
    # collection.
    gc.disable()
    try:
        importlib.import_module("fencepost.herder.distributed.herder")
        importlib.import_module("fencepost.rest.resources")
    finally:
        gc.freeze()
        gc.enable()
