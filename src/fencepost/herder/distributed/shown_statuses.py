"""Which statuses of the status topic still hold, as a worker of a group knows it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from fencepost.config.ids import ConnectorTaskId
from fencepost.herder.distributed.group_parts import GroupParts
from fencepost.runtime.state import State
from fencepost.storage.statuses.codec import Status

# What does not depend on any worker's doing anything.
_AT_REST: Final = frozenset({State.FAILED, State.STOPPED, State.UNASSIGNED})


class ShownStatuses:
    """What to show of each status."""

    def __init__(self, parts: GroupParts, is_cut_off: Callable[[], bool]) -> None:
        """`is_cut_off` tells whether the group's coordinator has been away for so long that others may be lost, too."""
        self._parts = parts
        self._is_cut_off = is_cut_off

    def __call__(self, subject: str | ConnectorTaskId, status: Status) -> tuple[str, str | None]:
        """Return the state and the trace that a status tells of, where they still hold.

        What this worker reported does not once it has stopped that work. It cannot say so in the status topic: out of
        its group, others may have reported on it. While it is cut off, others may have stopped their work likewise.
        """
        parts, known = self._parts, (status.state, status.trace)
        if status.state in _AT_REST:
            return known
        if status.worker_id == parts.worker_id:
            stands = parts.generation is not None and parts.statuses.stands_by(subject)
            return known if stands else (State.UNASSIGNED, None)
        if parts.generation is None and self._is_cut_off():
            return State.UNASSIGNED, (
                f"The worker {status.worker_id} last reported {status.state}. The worker {parts.worker_id}, which was "
                "asked, is cut off from the group and does not know what runs there: check the brokers, or ask the other"
            )
        return known
