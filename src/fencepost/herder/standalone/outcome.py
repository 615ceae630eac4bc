"""Determines whether a standalone worker has anything left to do, and what failed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from fencepost.api.errors import describe_error
from fencepost.config.ids import ConnectorTaskId
from fencepost.herder.standalone.config_store import MemoryConfigs
from fencepost.runtime.state import ENDS, State
from fencepost.storage.configs.codec import TargetState
from fencepost.storage.statuses.codec import Status
from fencepost.storage.statuses.table import StatusTable

_ENDED: Final = frozenset(map(str, ENDS))


class Outcome:
    """The outcome of the connectors, according to their states."""

    def __init__(
        self,
        configs: MemoryConfigs,
        statuses: StatusTable,
        errors: Mapping[str | ConnectorTaskId, Exception],
        is_moving: Callable[[str], bool],
        *,
        once: bool,
    ) -> None:
        """`errors` has the reasons of FAILED connectors and tasks.

        `is_moving` returns whether the state of a connector, or of its tasks, is about to change.
        """
        self._configs = configs
        self._statuses = statuses
        self._errors = errors
        self._is_moving = is_moving
        self._once = once

    @property
    def complete(self) -> bool:
        """Whether all connectors have ended.

        A worker without connectors has not ended: it waits for requests that create some.
        """
        connectors = self._configs.state.connectors()
        return bool(connectors) and all(map(self._has_ended, connectors))

    @property
    def failures(self) -> list[str]:
        """One line for each failure of a connector or a task."""
        lines = []
        for name in self._configs.state.connectors():
            lines += self._failure(f"Connector {name}", name, self._statuses.connector(name))
            for task in self._configs.state.tasks(name):
                lines += self._failure(f"Task {task}", task, self._statuses.task(task))
        return lines

    def _failure(self, what: str, subject: str | ConnectorTaskId, status: Status | None) -> list[str]:
        error = self._errors.get(subject)
        if error is None or status is None or status.state != State.FAILED:
            return []
        return [f"{what} failed: {describe_error(error)}"]

    def _has_ended(self, connector: str) -> bool:
        if self._configs.state.target_state(connector) is not TargetState.STARTED or self._is_moving(connector):
            return False
        # A connector that a request created does not end: clients may want to inspect it, and fix it by further
        # requests.
        if not self._configs.is_of_file(connector) and not self._once:
            return False
        tasks = self._configs.state.tasks(connector)
        if any(not _ended(self._statuses.task(task)) for task in tasks):
            return False
        status = self._statuses.connector(connector)
        if status is None or status.state == State.RESTARTING:
            return False
        # A connector that runs without tasks has not ended, because it may still find work for tasks.
        return bool(tasks) or self._once or _ended(status)


def _ended(status: Status | None) -> bool:
    return status is not None and status.state in _ENDED
