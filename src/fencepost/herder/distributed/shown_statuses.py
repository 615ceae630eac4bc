"""Decides which statuses of the status topic are still valid, from the view of a worker of a group."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from fencepost.config.ids import ConnectorTaskId
from fencepost.herder.distributed.group_view import GroupView
from fencepost.runtime.state import State
from fencepost.storage.statuses.codec import Status
from fencepost.storage.statuses.topic import StatusBackingStore

# These states stay valid when the worker that reported them does not run any longer.
_AT_REST: Final = frozenset({State.FAILED, State.STOPPED, State.UNASSIGNED})


class ShownStatuses:
    """Returns the valid state and trace of each status."""

    def __init__(self, view: GroupView, statuses: StatusBackingStore, is_cut_off: Callable[[], bool]) -> None:
        """`is_cut_off` returns whether this worker has not reached the group's coordinator for a session timeout."""
        self._view = view
        self._statuses = statuses
        self._is_cut_off = is_cut_off

    def __call__(self, subject: str | ConnectorTaskId, status: Status) -> tuple[str, str | None]:
        """Return a status's state and trace, corrected if they are not valid any more.

        A report of this worker is invalid once this worker has stopped the connector or task. The correction is only
        shown: a worker outside of its group must not write it to the status topic, because other workers may have
        reported newer states. While this worker is disconnected, the reports of other workers are uncertain, because
        these may have stopped as well.
        """
        view, known = self._view, (status.state, status.trace)
        if status.state in _AT_REST:
            return known
        if status.worker_id == view.worker_id:
            stands = view.generation is not None and self._statuses.owns(subject)
            return known if stands else (State.UNASSIGNED, None)
        if view.generation is None and self._is_cut_off():
            return State.UNASSIGNED, (
                f"The worker {status.worker_id} last reported {status.state}. The worker {view.worker_id}, which received "
                "this request, is disconnected from the group and does not know what runs there: check the brokers, or ask the other"
            )
        return known
