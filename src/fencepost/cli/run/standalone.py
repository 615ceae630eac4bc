"""`fencepost standalone`: connectors in one process, exactly once."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from fencepost.cli.common.exit_codes import ExitCode, exit_codes
from fencepost.cli.common.signals import until_signal

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

    from fencepost.herder.standalone.herder import StandaloneHerder
    from fencepost.rest.server import RestServer

_log: Final = logging.getLogger(__name__)

_OFFSET_FILE: Final = "offset.storage.file.filename"


@click.command(epilog=exit_codes(done="stopped, or at the end of all sources", failed="a connector or a task failed"))
@click.argument("worker", metavar="WORKER.properties", type=click.Path(path_type=Path))
@click.argument(
    "connectors", metavar="CONNECTOR.{properties,json}...", nargs=-1, required=True, type=click.Path(path_type=Path)
)
@click.option("--once", is_flag=True, help="Stop when all sources have been read to their end.")
@click.option("--quiet", is_flag=True, help="Show neither the progress nor a summary at the end.")
def standalone(worker: Path, connectors: tuple[Path, ...], *, once: bool, quiet: bool) -> None:
    """Run connectors in one process, exactly once.

    The files have Kafka Connect's format. Source offsets are kept in Kafka, in the same transactions as the data.
    SIGTERM and Ctrl-C commit open transactions and stop; a second one stops immediately.
    """
    if asyncio.run(_run(worker, connectors, once=once, quiet=quiet)):
        # Each failure was logged when it occurred.
        raise click.exceptions.Exit(ExitCode.FAILED)


async def _run(worker: Path, connectors: Sequence[Path], *, once: bool, quiet: bool) -> Sequence[str]:
    """Return the failures."""
    # The dependencies (Spark, Arrow, a Kafka client) take a second to import.
    from fencepost.cli.run.transfer_progress import shown_progress  # noqa: PLC0415 - see above
    from fencepost.config import file_descriptors  # noqa: PLC0415 - see above
    from fencepost.config.config_transformer import placeholder_files, resolve_worker_properties  # noqa: PLC0415 - see above
    from fencepost.config.properties import load_connector_config, load_properties, required_property  # noqa: PLC0415 - see above
    from fencepost.config.rest_config import RestConfig  # noqa: PLC0415 - see above
    from fencepost.config.worker_config import WorkerConfig  # noqa: PLC0415 - see above
    from fencepost.herder.standalone.herder import StandaloneHerder  # noqa: PLC0415 - see above
    from fencepost.rest.server import RestServer  # noqa: PLC0415 - see above
    from fencepost.runtime.metrics.transfers import Transfers  # noqa: PLC0415 - see above
    from fencepost.runtime.worker import Worker  # noqa: PLC0415 - see above

    file_descriptors.raise_limit()
    given = _without_offset_file(load_properties(worker), worker)
    properties = resolve_worker_properties(given, where=str(worker))
    files = [str(path) for path in (worker, *connectors, *placeholder_files(given))]
    config = WorkerConfig.from_properties(properties, where=str(worker), files=files)
    rest = RestConfig.from_properties(properties, where=str(worker), alone=True)
    runtime = Worker(config)
    transfers = Transfers()
    runtime.metrics.on_task = transfers.watch
    runtime.metrics.on_delete = transfers.forget
    configs = [load_connector_config(path) for path in connectors]
    for path, connector in zip(connectors, configs, strict=True):
        for name in ("name", "connector.class"):
            required_property(connector, name, path)
    server = RestServer(rest)
    herder: StandaloneHerder | None = None
    with shown_progress(transfers, quiet=quiet):
        try:
            await server.announce()
            herder = StandaloneHerder(runtime, configs, server.advertised_url, once=once)
            return await _serve(herder, server, runtime.metrics.registry)
        finally:
            await server.stop()
            if herder is not None:
                await herder.stop()


async def _serve(herder: StandaloneHerder, server: RestServer, registry: CollectorRegistry) -> Sequence[str]:
    """Run until a signal comes, or nothing is left to do.

    Returns the failures so far; raises the errors that prevent a start.
    """

    async def start() -> None:
        await herder.start()
        await server.start(herder, registry)

    await until_signal(start(), herder.ended)
    return herder.ended.result() if herder.ended.done() else ()


def _without_offset_file(properties: Mapping[str, str], worker: Path) -> dict[str, str]:
    if _OFFSET_FILE in properties:
        _log.warning(
            "The property %s of %s is ignored: offsets are kept in Kafka (offset.storage.topic), in the same "
            "transactions as the data, or there would be no exactly-once", _OFFSET_FILE, worker,
        )  # fmt: skip
    return {name: value for name, value in properties.items() if name != _OFFSET_FILE}
