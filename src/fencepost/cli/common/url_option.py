"""The option of commands that talk to workers."""

from __future__ import annotations

import click

url_option = click.option(
    "--url",
    "urls",
    multiple=True,
    envvar="FENCEPOST_URL",
    default=["http://127.0.0.1:8083"],
    show_default=True,
    show_envvar=True,
    help="A worker of the group; http://user:password@host:port if it requires a password. Repeat it for several "
    "workers (spaces separate them in FENCEPOST_URL): the first one that can be reached is asked.",
)
