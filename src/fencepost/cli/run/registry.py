"""`fencepost registry`: a schema registry on this machine, for experiments."""

from __future__ import annotations

from pathlib import Path

import click

from fencepost.cli.common.exit_codes import exit_codes
from fencepost.cli.common.signals import await_stop
from fencepost.cli.run.broker_jars import fetch_jars
from fencepost.embedded.errors import RegistryStartError
from fencepost.embedded.jars import REGISTRY
from fencepost.embedded.registry import EmbeddedRegistry


@click.command(epilog=exit_codes(done="stopped", failed="the registry did not start, or ended by itself"))
@click.option("--port", type=click.IntRange(1, 65_535), default=8081, show_default=True, help="The port.")
@click.option(
    "--data-dir",
    type=click.Path(path_type=Path, file_okay=False),
    required=True,
    help="The directory for the registry's log. Schemas are in memory only, and are lost when the registry stops.",
)
def registry(port: int, data_dir: Path) -> None:
    """Run a schema registry on this machine until Ctrl-C: Apicurio, with Confluent's API.

    It listens on 127.0.0.1 only, without any security.
    """
    fetch_jars(REGISTRY)
    with EmbeddedRegistry(data_dir, port=port) as running:
        click.echo(f"schema.registry.url={running.url}\nIts log: {running.log_file}. Ctrl-C stops it.")
        await_stop(lambda: _require_running(running))


def _require_running(running: EmbeddedRegistry) -> None:
    if not running.running:
        raise RegistryStartError(f"the schema registry ended by itself: see {running.log_file}")
