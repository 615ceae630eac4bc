"""Shows what a worker answers: as tables for people, as JSON for programs."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Final

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

FAILED: Final = "FAILED"

_STYLES: Final = {"RUNNING": "green", FAILED: "bold red", "PAUSED": "yellow", "STOPPED": "dim"}
# Nothing is cut off or folded for a program that reads along.
_WIDTH_OF_PIPES: Final = 10_000

Json = dict[str, Any]


def print_json(body: Any) -> None:
    """Print an answer as it is."""
    click.echo(json.dumps(body, ensure_ascii=False, indent=2))


def print_connectors(connectors: Mapping[str, Json]) -> None:
    """Print a line for each connector, from an answer with `expand=info` and `expand=status`."""
    rows = []
    for name, expanded in sorted(connectors.items()):
        info, status = expanded.get("info", {}), expanded.get("status", {})
        connector = status.get("connector", {})
        rows.append(
            (
                name,
                info.get("config", {}).get("connector.class", "").rpartition(".")[2],
                _state(connector.get("state", "")),
                _task_states(status.get("tasks", [])),
                connector.get("worker_id", ""),
            )
        )
    _print_table(("connector", "class", "state", "tasks", "worker"), rows)


def print_connector(info: Json, status: Json) -> None:
    """Print a connector's configuration, its states, and why it failed."""
    _print_table(("property", "value"), info["config"].items())
    parts = states(status)
    _print_table(("", "state", "worker"), [(part, _state(of["state"]), of["worker_id"]) for part, of in parts.items()])
    for part, of in parts.items():
        if "trace" in of:
            click.echo(f"{part} failed:\n{of['trace'].rstrip()}")


def print_offsets(body: Json) -> None:
    """Print the offset of each source partition."""
    rows = [(_compact(offset["partition"]), _compact(offset["offset"])) for offset in body["offsets"]]
    _print_table(("partition", "offset"), rows)


def print_transactions(body: Json) -> None:
    """Print a line for each task: its producer, its open transaction, and its last commit."""
    rows = []
    for task in body["tasks"]:
        commit = task["last_commit"]
        rows.append(
            (
                str(task["id"]),
                task["worker_id"],
                task["transactional_id"],
                task["state"] or task["error"],
                "" if task["producer_id"] is None else f"{task['producer_id']}/{task['producer_epoch']}",
                _time(task["open_since"]),
                "" if task["open_since"] is None else f"{task['records']} ({task['bytes']} bytes)",
                "" if commit is None else f"{_time(commit['at'])}, {commit['records']} records",
            )
        )
    columns = ("task", "worker", "transactional id", "state", "producer/epoch", "open since", "records", "last commit")
    _print_table(columns, rows)


def print_validation(body: Json) -> None:
    """Print what is wrong with a configuration, or that nothing is."""
    values = [config["value"] for config in body["configs"]]
    rows = [(value["name"], value["value"] or "", error) for value in values for error in value["errors"]]
    if rows:
        _print_table(("property", "value", "error"), rows)
    else:
        click.echo("The configuration is valid.")


def states(status: Json) -> dict[str, Json]:
    """Return what a status tells, by `name` for the connector and `name-0` and so on for its tasks."""
    name = status["name"]
    return {name: status["connector"], **{f"{name}-{task['id']}": task for task in status["tasks"]}}


def has_failed(status: Json) -> bool:
    """Say whether the connector, or one of its tasks, is FAILED."""
    return any(part["state"] == FAILED for part in states(status).values())


def _task_states(tasks: Iterable[Json]) -> Text:
    counts = Counter(task["state"] for task in tasks)
    return Text(", ").join(_state(state, f"{count} ") for state, count in sorted(counts.items()))


def _state(state: str, before: str = "") -> Text:
    return Text(before + state, style=_STYLES.get(state, ""))


def _time(milliseconds: int | None) -> str:
    if milliseconds is None:
        return ""
    return datetime.fromtimestamp(milliseconds / 1000).astimezone().isoformat(sep=" ", timespec="seconds")


def _compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _print_table(columns: Iterable[str], rows: Iterable[Iterable[str | Text]]) -> None:
    table = Table()
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*row)
    # Brackets in names and configurations are what they are, and no markup.
    width = None if sys.stdout.isatty() else _WIDTH_OF_PIPES
    Console(markup=False, highlight=False, emoji=False, width=width).print(table)
