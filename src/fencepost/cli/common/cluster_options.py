"""The common options of commands that query a Kafka cluster."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from shlex import quote
from typing import Any, Final

import click

from fencepost.cli.common.tables import output_option
from fencepost.config.properties import load_properties
from fencepost.kafka.admin.admin import Admin
from fencepost.kafka.config.client_config import ClientConfig

_SERVERS: Final = "bootstrap.servers"
# Running brokers answer within some milliseconds, starting ones within seconds.
_ANSWER_MS: Final = 10_000


def asks_cluster(command: Callable[..., None]) -> Callable[..., None]:
    """Add the common options to a command, and pass it a ClientConfig and `as_json` instead."""

    @click.option(
        "--bootstrap-server",
        metavar="HOST:PORT,...",
        help=f"Brokers of the cluster.  [required, unless --command-config has {_SERVERS}]",
    )
    @click.option(
        "--command-config",
        metavar="FILE.properties",
        type=click.Path(path_type=Path),
        help="A file of Kafka client properties, mainly for security; it may contain bootstrap.servers.",
    )
    @output_option
    @functools.wraps(command)
    def with_cluster(
        *, bootstrap_server: str | None, command_config: Path | None, output: str, **arguments: Any
    ) -> None:
        properties = {} if command_config is None else load_properties(command_config)
        if bootstrap_server is not None:
            properties[_SERVERS] = bootstrap_server
        if _SERVERS not in properties:
            raise click.UsageError(f"Give --bootstrap-server, or {_SERVERS} in the file of --command-config")
        config = ClientConfig.from_properties(properties, where=str(command_config or "--bootstrap-server"))
        command(config, as_json=output == "json", **arguments)

    return with_cluster


def given_cluster() -> str:
    """Return the options that name the cluster of the running command, quoted for a shell."""
    given = click.get_current_context().params
    options = ("--bootstrap-server", given["bootstrap_server"]), ("--command-config", given["command_config"])
    return " ".join(f"{option} {quote(str(value))}" for option, value in options if value is not None)


def require_answer(config: ClientConfig) -> None:
    """Raise BrokerUnavailableError soon if no broker answers. The command's own requests would wait longer."""
    timeout_ms = min(config.request_timeout_ms, _ANSWER_MS)
    with Admin(replace(config, request_timeout_ms=timeout_ms)) as admin:
        admin.broker_count()
