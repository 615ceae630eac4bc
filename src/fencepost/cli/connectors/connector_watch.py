"""Follows the states of connectors and their tasks."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Final

import click

from fencepost.api.errors import FencepostError
from fencepost.api.texts import printable
from fencepost.cli.common.connect_client import ConnectClient, connector_path
from fencepost.cli.connectors.connector_views import Json, has_failed, states
from fencepost.herder.core.observation import message_line

_PAUSE_SECONDS: Final = 0.5
_DELETED: Final = "DELETED"


class WatchTimeoutError(FencepostError):
    """The connectors did not reach the expected state in time."""


def watch_connectors(
    client: ConnectClient, names: Sequence[str], *, until: str | None, timeout: float | None, as_json: bool
) -> bool:
    """Print each state change of the named connectors and their tasks; without names, of all connectors.

    Returns True when all connectors are in the state `until`, and False if one fails before that. Without `until`, this
    does not return. Raises WatchTimeoutError after `timeout` seconds, and the errors of `client.ask`.
    """
    deadline = None if timeout is None else time.monotonic() + timeout
    before: dict[str, Json] = {}
    while True:
        statuses = _statuses(client, names)
        now = {part: state for status in statuses.values() for part, state in states(status).items()}
        for part, state in changes(before, now):
            _print_change(part, state, as_json=as_json)
        if until is not None and any(has_failed(status) for status in statuses.values()):
            return False
        if until is not None and statuses.keys() >= set(names) and all(reached(s, until) for s in statuses.values()):
            return True
        if deadline is not None and time.monotonic() > deadline:
            raise WatchTimeoutError(
                f"After {timeout:g} s the state is not {until}" if until else f"Watched for {timeout:g} s"
            )
        before = now
        time.sleep(_PAUSE_SECONDS)


def changes(before: Mapping[str, Json], now: Mapping[str, Json]) -> Iterator[tuple[str, Json]]:
    """Yield each connector and task whose state or worker changed. If it was deleted, its state is DELETED."""
    for part, state in now.items():
        old = before.get(part, {})
        if (old.get("state"), old.get("worker_id")) != (state["state"], state["worker_id"]):
            yield part, state
    for part, state in before.items():
        if part not in now:
            yield part, {**state, "state": _DELETED}


def reached(status: Json, wanted: str) -> bool:
    """Return whether a connector and all its tasks are in a state. RUNNING requires at least one running task."""
    return all(part["state"] == wanted for part in states(status).values()) and bool(
        status["tasks"] or wanted != "RUNNING"
    )


def _statuses(client: ConnectClient, names: Sequence[str]) -> dict[str, Json]:
    expanded = client.ask("GET", "/connectors", query={"expand": "status"}, patient=True)
    for name in names:
        if name not in expanded:
            # A connector that was just created has no status yet. This request fails for a connector that does not
            # exist.
            client.ask("GET", connector_path(name), patient=True)
    return {
        name: parts["status"]
        for name, parts in expanded.items()
        if parts.get("status") and (not names or name in names)
    }


def _print_change(part: str, state: Json, *, as_json: bool) -> None:
    change = {"id": part, "state": state["state"], "worker_id": state["worker_id"]}
    if as_json:
        click.echo(json.dumps(change, ensure_ascii=False))
    else:
        reason = message_line(state.get("trace", ""))
        line = f"{datetime.now().astimezone():%H:%M:%S} {part} {change['state']} {change['worker_id']} {reason}"
        click.echo(printable(line.rstrip()))
