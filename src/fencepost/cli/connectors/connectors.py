"""`fencepost connectors`: a terminal client of Kafka Connect's REST API."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import click

from fencepost.api.errors import ConfigError
from fencepost.api.texts import printable
from fencepost.cli.common.connect_client import ConnectClient, RequestRefusedError, connector_path
from fencepost.cli.common.exit_codes import ExitCode, exit_codes
from fencepost.cli.common.tables import output_option, print_json
from fencepost.cli.common.url_option import url_option
from fencepost.cli.connectors import connector_views as views
from fencepost.cli.connectors.connector_figures import figures_of
from fencepost.cli.connectors.connector_watch import watch_connectors
from fencepost.config.properties import load_connector_config, required_property

_EXIT_CODES: Final = exit_codes(
    failed="refused, invalid, not reachable, or timed out",
    connector_failed="`show`, `watch --until`: a connector or task is FAILED",
)

_STOPPED: Final = "STOPPED"

_FILE: Final = click.Path(path_type=Path)


@dataclass(frozen=True, slots=True)
class _Terminal:
    """The worker to ask, and the format for its answers."""

    client: ConnectClient
    as_json: bool

    def show(self, body: Any, view: Callable[[Any], None]) -> None:
        (print_json if self.as_json else view)(body)

    def done(self, body: Any, said: str) -> None:
        """Print that a request was accepted. As JSON, print the answer, if it has one."""
        if not self.as_json:
            click.echo(printable(said))
        elif body is not None:
            print_json(body)


def _asks_worker(command: Callable[..., None]) -> Callable[..., None]:
    """Add the common options to a command, and pass it a _Terminal instead."""

    @url_option
    @output_option
    @click.option(
        "--retry-seconds",
        type=click.FloatRange(min=0),
        default=30,
        show_default=True,
        help="How long to retry, in seconds, while the group rebalances (status 409); `watch` also waits for workers "
        "that restart.",
    )
    @functools.wraps(command)
    def with_terminal(*, urls: tuple[str, ...], output: str, retry_seconds: float, **arguments: Any) -> None:
        command(_Terminal(ConnectClient(*urls, retry_seconds=retry_seconds), output == "json"), **arguments)

    return with_terminal


@click.group(epilog=_EXIT_CODES)
def connectors() -> None:
    """Create, show and control the connectors of a group of workers, over Kafka Connect's REST API.

    FILE is a connector's .properties file, or JSON, flat or as {"name": ..., "config": {...}}.
    """


@connectors.command("list")
@_asks_worker
def list_connectors(terminal: _Terminal) -> None:
    """List all connectors: states, records/s of the last minute, lag, skipped records, and the last error.

    The lag is how much of its sources a connector has not read yet, in the unit of the source: bytes for files.
    """
    body = terminal.client.ask("GET", "/connectors", query={"expand": ["info", "status"]})
    terminal.show(body, lambda _: views.print_connectors(body, figures_of(terminal.client, body)))


@connectors.command()
@click.argument("name")
@_asks_worker
def show(terminal: _Terminal, name: str) -> None:
    """Show a connector, its tasks, and why they failed."""
    info = terminal.client.ask("GET", connector_path(name))
    status = terminal.client.ask("GET", connector_path(name, "status"))
    terminal.show({"info": info, "status": status}, lambda _: views.print_connector(info, status))
    if views.has_failed(status):
        raise click.exceptions.Exit(ExitCode.CONNECTOR_FAILED)


@connectors.command()
@click.argument("file", type=_FILE)
@click.option(
    "--state",
    type=click.Choice(["RUNNING", "PAUSED", "STOPPED"], case_sensitive=False),
    help="The initial state of the connector. Kafka Connect supports this since 3.7.",
)
@_asks_worker
def create(terminal: _Terminal, file: Path, state: str | None) -> None:
    """Create a connector from a file. A name that is already taken is refused."""
    config = load_connector_config(file)
    name = required_property(config, "name", file)
    initial = {} if state is None else {"initial_state": state}
    body = terminal.client.ask("POST", "/connectors", {"name": name, "config": config, **initial})
    terminal.done(body, f"Created {name}.")


@connectors.command()
@click.argument("file", type=_FILE)
@_asks_worker
def update(terminal: _Terminal, file: Path) -> None:
    """Set a connector's configuration from a file, or create the connector."""
    config = load_connector_config(file)
    name = required_property(config, "name", file)
    terminal.done(terminal.client.ask("PUT", connector_path(name, "config"), config), f"Configured {name}.")


@connectors.command()
@click.argument("file", type=_FILE)
@_asks_worker
def validate(terminal: _Terminal, file: Path) -> None:
    """Let a worker validate a file, without creating anything."""
    config = load_connector_config(file)
    plugin = required_property(config, "connector.class", file)
    body = terminal.client.ask("PUT", f"/connector-plugins/{quote(plugin, safe='')}/config/validate", config)
    terminal.show(body, views.print_validation)
    if body["error_count"]:
        raise click.exceptions.Exit(ExitCode.FAILED)


@connectors.command()
@click.argument("name")
@_asks_worker
def pause(terminal: _Terminal, name: str) -> None:
    """Pause a connector's tasks; they keep their resources."""
    terminal.done(terminal.client.ask("PUT", connector_path(name, "pause")), f"Pausing {name}.")


@connectors.command()
@click.argument("name")
@_asks_worker
def resume(terminal: _Terminal, name: str) -> None:
    """Resume a paused or stopped connector."""
    terminal.done(terminal.client.ask("PUT", connector_path(name, "resume")), f"Resuming {name}.")


@connectors.command()
@click.argument("name")
@_asks_worker
def stop(terminal: _Terminal, name: str) -> None:
    """Stop a connector's tasks, and keep its configuration and offsets."""
    terminal.done(terminal.client.ask("PUT", connector_path(name, "stop")), f"Stopping {name}.")


@connectors.command()
@click.argument("name")
@click.option("--tasks", is_flag=True, help="Also restart the connector's tasks.")
@click.option("--only-failed", is_flag=True, help="Of the connector and its tasks, only restart those that are FAILED.")
@click.option("--task", type=click.IntRange(min=0), help="Only restart the task with this number.")
@_asks_worker
def restart(terminal: _Terminal, name: str, *, tasks: bool, only_failed: bool, task: int | None) -> None:
    """Restart a connector, with its tasks, or one of its tasks."""
    if task is None:
        query = {"includeTasks": str(tasks).lower(), "onlyFailed": str(only_failed).lower()}
        body = terminal.client.ask("POST", connector_path(name, "restart"), query=query)
        nothing = (
            f"Nothing of {name} has failed." if tasks else f"{name} itself has not failed. --tasks includes its tasks."
        )
        terminal.done(body, nothing if only_failed and not views.is_restarting(body) else f"Restarting {name}.")
    elif tasks or only_failed:
        raise click.UsageError("--task goes with neither --tasks nor --only-failed")
    else:
        body = terminal.client.ask("POST", connector_path(name, "tasks", str(task), "restart"))
        terminal.done(body, f"Restarting task {task} of {name}.")


@connectors.command()
@click.argument("name")
@_asks_worker
def delete(terminal: _Terminal, name: str) -> None:
    """Delete a connector. Its offsets stay, for a new connector with the same name."""
    terminal.done(terminal.client.ask("DELETE", connector_path(name)), f"Deleted {name}.")


@connectors.command()
@click.argument("names", metavar="[NAME]...", nargs=-1)
@click.option(
    "--until",
    type=click.Choice(["RUNNING", "PAUSED", "STOPPED"], case_sensitive=False),
    help="Exit with 0 when the connectors and all of their tasks are in this state, with 3 when one of them is FAILED.",
)
@click.option("--timeout", type=click.FloatRange(min=0), help="Exit with 1 after this many seconds.")
@_asks_worker
def watch(terminal: _Terminal, names: tuple[str, ...], *, until: str | None, timeout: float | None) -> None:
    """Print each state change of all connectors, or of the named ones, until Ctrl-C."""
    if not watch_connectors(terminal.client, names, until=until, timeout=timeout, as_json=terminal.as_json):
        raise click.exceptions.Exit(ExitCode.CONNECTOR_FAILED)


@connectors.command()
@click.argument("name")
@_asks_worker
def transactions(terminal: _Terminal, name: str) -> None:
    """Show the open transaction of each task of a connector, and its last commit."""
    terminal.show(terminal.client.ask("GET", connector_path(name, "transactions")), views.print_transactions)


@connectors.group()
def offsets() -> None:
    """Show and change a connector's source offsets."""


@offsets.command("show")
@click.argument("name")
@_asks_worker
def show_offsets(terminal: _Terminal, name: str) -> None:
    """Show the offset of each source partition."""
    terminal.show(terminal.client.ask("GET", connector_path(name, "offsets")), views.print_offsets)


@offsets.command("alter")
@click.argument("name")
@click.argument("file", metavar="FILE.json", type=_FILE)
@_asks_worker
def alter_offsets(terminal: _Terminal, name: str, file: Path) -> None:
    """Set offsets of a stopped connector, from JSON as `show -o json` writes it. An offset null removes it."""
    with _telling_to_stop(name):
        body = terminal.client.ask("PATCH", connector_path(name, "offsets"), _load_json(file))
    terminal.done(body, f"{body['message']}.")


@offsets.command("reset")
@click.argument("name")
@_asks_worker
def reset_offsets(terminal: _Terminal, name: str) -> None:
    """Remove all offsets of a stopped connector: it reads its source from the beginning."""
    with _telling_to_stop(name):
        body = terminal.client.ask("DELETE", connector_path(name, "offsets"))
    terminal.done(body, f"{body['message']}.")


@contextmanager
def _telling_to_stop(name: str) -> Iterator[None]:
    """If a worker refuses because the connector is not stopped, add to the error the command that stops it."""
    try:
        yield
    except RequestRefusedError as refusal:
        if _STOPPED not in str(refusal):
            raise
        raise RequestRefusedError(
            f"{refusal}. The command for that: fencepost connectors stop {name}", refusal.status
        ) from refusal


def _load_json(file: Path) -> Any:
    try:
        return json.loads(file.read_bytes())
    except OSError as error:
        raise ConfigError(f"Cannot read {file}: {error.strerror}") from None
    except ValueError as error:
        raise ConfigError(f"{file} is not valid JSON: {error}") from None
