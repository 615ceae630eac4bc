"""Shows a worker's answers as tables."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import click
from rich.text import Text

from fencepost.api.texts import printable
from fencepost.cli.common.tables import counted, print_indented, print_table, print_unknown, shown_size, shown_time
from fencepost.cli.connectors.connector_figures import Figures, shown_figure
from fencepost.herder.core.observation import message_line

FAILED: Final = "FAILED"

_SHOWN_OFFSETS: Final = 5
STYLES: Final = {"RUNNING": "green", FAILED: "bold red", "PAUSED": "yellow", "STOPPED": "dim"}
"""The colours of states."""

Json = dict[str, Any]


def print_connectors(connectors: Mapping[str, Json], figures: Mapping[str, Figures]) -> None:
    """Print a line for each connector, from an answer with `expand=info` and `expand=status`, and then the errors."""
    rows = []
    errors: dict[str, str] = {}
    for name, expanded in sorted(connectors.items()):
        info, status = expanded.get("info", {}), expanded.get("status", {})
        connector = status.get("connector", {})
        found, tasks = figures.get(name), status.get("tasks", [])
        if found and not any(task["state"] == "RUNNING" for task in tasks):
            # The metric is the average of the last minute.
            found = replace(found, rate=0.0)
        rows.append(
            (
                name,
                info.get("config", {}).get("connector.class", "").rpartition(".")[2],
                _state(connector.get("state", "")),
                _task_states(tasks),
                connector.get("worker_id", ""),
                *((shown_figure(each) for each in (found.rate, found.lag, found.skipped)) if found else ("", "", "")),
            )
        )
        errors[name] = _last_error(connector, *tasks)
    print_table(("connector", "class", "state", "tasks", "worker", "records/s", "lag", "skipped"), rows)
    for name, error in errors.items():
        if error:
            # Errors are not in the table, where a column for them would be only a few characters wide.
            click.secho(printable(name), bold=True)
            print_indented(error)


def print_connector(info: Json, status: Json) -> None:
    """Print a connector's configuration, its states, and the reason of a failure."""
    print_table(("property", "value"), info["config"].items())
    parts = states(status)
    print_table(("", "state", "worker"), [(part, _state(of["state"]), of["worker_id"]) for part, of in parts.items()])
    for part, of in parts.items():
        if "trace" in of:
            click.echo(printable(f"{part} failed:\n{of['trace'].rstrip()}"))


def print_offsets(body: Json) -> None:
    """Print the offset of each source partition."""
    rows = [(_compact(offset["partition"]), _compact(offset["offset"])) for offset in body["offsets"]]
    print_table(("partition", "offset"), rows)


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
                shown_time(task["open_since"]),
                "" if task["open_since"] is None else f"{task['records']} ({shown_size(task['bytes'])})",
                "" if commit is None else f"{shown_time(commit['at'])}, {commit['records']} records",
                "" if commit is None else _moved(commit["offsets"]),
            )
        )
    columns = ("task", "worker", "transactional id", "state", "producer/epoch", "open since", "records", "last commit")
    print_table((*columns, "its offsets"), rows)


def print_validation(body: Json) -> None:
    """Print the errors of a configuration below their properties, or that it is valid, and its unknown properties."""
    wrong = [config["value"] for config in body["configs"] if config["value"]["errors"]]
    for value in wrong:
        # This is not a table, because the columns of one would be too narrow for long values and errors.
        click.secho(printable(f"{value['name']}={value['value']}" if value["value"] else value["name"]), bold=True)
        for error in value["errors"]:
            print_indented(error)
    count = sum(len(value["errors"]) for value in wrong)
    click.echo(f"{counted(count, 'error')}." if count else "The configuration is valid.")
    print_unknown(body.get("unknown", {}))


def states(status: Json) -> dict[str, Json]:
    """Return the states in a status, by `name` for the connector and `name-0` and so on for its tasks."""
    name = status["name"]
    return {name: status["connector"], **{f"{name}-{task['id']}": task for task in status["tasks"]}}


def has_failed(status: Json) -> bool:
    """Return whether the connector, or one of its tasks, is FAILED."""
    return any(part["state"] == FAILED for part in states(status).values())


def is_restarting(status: Json) -> bool:
    """Return whether the connector, or one of its tasks, is RESTARTING."""
    return any(part["state"] == "RESTARTING" for part in states(status).values())


def _last_error(*parts: Json) -> str:
    return next((message_line(part["trace"]) for part in parts if part.get("trace")), "")


def _task_states(tasks: Iterable[Json]) -> Text:
    counts = Counter(task["state"] for task in tasks)
    return Text(", ").join(_state(state, f"{count} ") for state, count in sorted(counts.items()))


def _state(state: str, before: str = "") -> Text:
    return Text(before + state, style=STYLES.get(state, ""))


def _moved(offsets: Sequence[Json]) -> str:
    shown = [f"{_compact(moved['partition'])}: {_compact(moved['offset'])}" for moved in offsets[:_SHOWN_OFFSETS]]
    left = len(offsets) - len(shown)
    return "\n".join([*shown, *([f"and {left} more, see -o json"] if left else [])])


def _compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
