"""`fencepost broker`: a Kafka broker on this machine, for experiments."""

from __future__ import annotations

from pathlib import Path

import click

from fencepost.cli.common.exit_codes import exit_codes
from fencepost.cli.common.signals import await_stop
from fencepost.cli.run.broker_jars import fetch_broker_jars
from fencepost.embedded.broker import EmbeddedBroker
from fencepost.embedded.errors import BrokerStartError


@click.command(epilog=exit_codes(done="stopped", failed="the broker did not start, or ended by itself"))
@click.option(
    "--port", type=click.IntRange(1, 65_535), default=9092, show_default=True, help="The port of the first broker."
)
@click.option(
    "--data-dir",
    type=click.Path(path_type=Path, file_okay=False),
    required=True,
    help="The directory that keeps the topics for the next start.",
)
@click.option(
    "--nodes",
    type=click.IntRange(1, 9),
    default=1,
    show_default=True,
    help="The number of brokers. The ports of further brokers follow --port.",
)
def broker(port: int, data_dir: Path, nodes: int) -> None:
    """Run a Kafka broker on this machine until Ctrl-C. It listens on 127.0.0.1 only, without any security."""
    fetch_broker_jars()
    with EmbeddedBroker(data_dir, port=port, nodes=nodes) as running:
        click.echo(
            f"Kafka listens on {running.bootstrap_servers}. Its log: {running.nodes[0].log_file}. Ctrl-C stops it."
        )
        await_stop(lambda: _require_running(running))


def _require_running(running: EmbeddedBroker) -> None:
    for node in running.nodes:
        if not node.running:
            raise BrokerStartError(f"broker node {node.node_id} ended by itself: {node.reason_of_end()}")
