"""`fencepost postgres`: a PostgreSQL on this machine, for experiments with the sources that read databases."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from fencepost.cli.common.exit_codes import exit_codes
from fencepost.cli.common.signals import await_stop
from fencepost.embedded.errors import PostgresStartError
from fencepost.embedded.ports import HOST
from fencepost.embedded.postgres import SUPERUSER, EmbeddedPostgres


@click.command(epilog=exit_codes(done="stopped", failed="PostgreSQL did not start, or ended by itself"))
@click.option("--port", type=click.IntRange(1, 65_535), default=5432, show_default=True, help="The port.")
@click.option(
    "--data-dir",
    type=click.Path(path_type=Path, file_okay=False),
    required=True,
    help="The directory that keeps the database for the next start.",
)
def postgres(port: int, data_dir: Path) -> None:
    """Run a PostgreSQL on this machine until Ctrl-C, ready for logical decoding.

    It listens on 127.0.0.1 only and asks for no password. After a power cut its data may be lost.
    """
    with EmbeddedPostgres(data_dir, port=port) as running:
        psql = shlex.join([str(running.program("psql")), *("-h", HOST, "-p", str(port), "-U", SUPERUSER)])
        click.echo(f"PostgreSQL listens on {HOST}:{port}, as user {SUPERUSER} without a password, wal_level=logical.")
        click.echo(f"Its log: {running.log_file}. Its shell: {psql}\nCtrl-C stops it.")
        await_stop(lambda: _require_running(running))


def _require_running(running: EmbeddedPostgres) -> None:
    if not running.running:
        raise PostgresStartError(f"PostgreSQL ended by itself: see {running.log_file}")
