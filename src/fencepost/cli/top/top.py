"""`fencepost top`: a group of workers, live in the terminal."""

from __future__ import annotations

import sys

import click

from fencepost.api.errors import ConfigError
from fencepost.api.extras import how_to_install
from fencepost.cli.common.connect_client import ConnectClient, RequestRefusedError
from fencepost.cli.common.url_option import url_option

_NOT_FOUND = 404

_KEYS = """\b
Keys:
  up, down    choose a connector or task        space  show or hide the tasks of a connector
  p, r        pause, resume the connector       t      show the trace of the failure
  s           restart its failed parts          w      list all workers of the group
  q, ctrl-c   quit                              h      show or hide the busiest ones below the table
"""


@click.command(epilog=_KEYS)
@url_option
def top(urls: tuple[str, ...]) -> None:
    """Watch and control a group of workers, or a standalone one, live in the terminal.

    It shows the same as the page at /ui: connectors and their tasks, failed ones first, with rates, lag, open
    transactions, last commits and errors. It waits for workers that restart.
    """
    try:
        from fencepost.cli.top.top_app import OVERVIEW, TopApp  # noqa: PLC0415 - needs the extra
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"This command needs the package {error.name}, which is not installed: {how_to_install('top')}"
        ) from error
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise ConfigError("This command needs a terminal: fencepost connectors list -o json is for programs")
    client = ConnectClient(*urls, retry_seconds=0)
    try:
        client.ask("GET", OVERVIEW)
    except RequestRefusedError as refusal:
        if refusal.status != _NOT_FOUND:
            raise
        raise ConfigError(
            f"The worker at {client.shown_url} has no page at /ui, like workers of Java's Kafka Connect: use fencepost "
            "connectors watch"
        ) from refusal
    TopApp(*urls).run()
