"""`fencepost standalone`: connectors in one process, exactly once."""

from __future__ import annotations

import logging
import signal
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Final

import click

_log: Final = logging.getLogger(__name__)

_OFFSET_FILE: Final = "offset.storage.file.filename"


@click.command()
@click.argument("worker", metavar="WORKER.properties", type=click.Path(path_type=Path))
@click.argument(
    "connectors", metavar="CONNECTOR.{properties,json}...", nargs=-1, required=True, type=click.Path(path_type=Path)
)
@click.option("--once", is_flag=True, help="Stop at the end of the sources.")
def standalone(worker: Path, connectors: tuple[Path, ...], *, once: bool) -> None:
    """Run connectors in one process, exactly once.

    The files are those of Kafka Connect. Source offsets are kept in Kafka, in the same transactions as the data.
    SIGTERM and Ctrl-C commit open transactions and stop; a second one stops at once.
    """
    # The dependencies (Spark, Arrow, a Kafka client) take a second to import.
    from fencepost.config.config_transformer import resolve_worker_properties  # noqa: PLC0415 - see above
    from fencepost.config.properties import load_connector_config, load_properties  # noqa: PLC0415 - see above
    from fencepost.config.worker_config import WorkerConfig  # noqa: PLC0415 - see above
    from fencepost.herder.errors import ConnectorsFailedError  # noqa: PLC0415 - see above
    from fencepost.herder.standalone.herder import StandaloneHerder  # noqa: PLC0415 - see above
    from fencepost.runtime.worker import Worker  # noqa: PLC0415 - see above

    properties = load_properties(worker)
    if _OFFSET_FILE in properties:
        _log.warning(
            "The property %s of %s is ignored: offsets are kept in Kafka (offset.storage.topic), in the same "
            "transactions as the data, or there would be no exactly-once", _OFFSET_FILE, worker,
        )  # fmt: skip
        del properties[_OFFSET_FILE]
    properties = resolve_worker_properties(properties, where=str(worker))
    config = WorkerConfig.from_properties(properties, where=str(worker))
    herder = StandaloneHerder(Worker(config), [load_connector_config(path) for path in connectors], once=once)
    _stop_on_signals(herder.stop)
    try:
        herder.run()
    except ConnectorsFailedError as failed:
        # Each failure is in the log, from when it came about.
        raise click.exceptions.Exit(1) from failed


def _stop_on_signals(stop: Callable[[], None]) -> None:
    def on_signal(_number: int, _frame: FrameType | None) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.default_int_handler)
        stop()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, on_signal)
