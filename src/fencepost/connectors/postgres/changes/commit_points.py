"""Decides where a Kafka transaction of the task may end, and so which positions are committed.

A transaction of the database is not divided, unless `transaction.split.interval.ms` allows it. If there is a backlog,
and while chunks of tables are read, several database transactions become one Kafka transaction. If there are no
changes, the position is still committed every few seconds.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from fencepost.connectors.postgres.changes.position import Position, SourceState

# Without changes, the position is committed this often: the server keeps its log from the committed position on.
_ADVANCE_S: Final = 5.0


class CommitPoints:
    """Decides where to commit. `offered` is the position in the last source offset that was returned.

    `split_after_s` is the time after which a database transaction may be divided, None for never. `clock` returns
    seconds.
    """

    def __init__(
        self,
        state: SourceState,
        position: Position,
        split_after_s: float | None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.offered = position
        self._offered_state = state
        self._clock = clock
        self._offered_at = clock()
        self._split_after_s = split_after_s
        self._open_since: float | None = None

    @property
    def open(self) -> bool:
        """Whether batches were returned since the last source offset."""
        return self._open_since is not None

    def begin(self) -> None:
        """Record that a batch is returned without a source offset."""
        if self._open_since is None:
            self._open_since = self._clock()

    def has_changed_state(self, state: SourceState) -> bool:
        """Return whether the progress of incremental snapshots or the known types have changed.

        The state is then committed even if its position is unchanged.
        """
        offered = self._offered_state
        return state.incremental != offered.incremental or state.types != offered.types

    def may_commit(self, state: SourceState, position: Position, *, after_s: float, heartbeat_due: bool) -> bool:
        """Return whether to commit now. `after_s` is the time during which a Kafka transaction collects changes."""
        now = self._clock()
        if self._open_since is None:
            return self._may_commit_position(state, position, now, heartbeat_due=heartbeat_due)
        if position.changes:
            return self._split_after_s is not None and now >= self._open_since + self._split_after_s
        return now >= self._open_since + after_s

    def _may_commit_position(self, state: SourceState, position: Position, now: float, *, heartbeat_due: bool) -> bool:
        if position.changes:
            return False
        if self.has_changed_state(state) or heartbeat_due:
            return True
        altered = state.publication != self._offered_state.publication
        return position.lsn > self.offered.lsn and (altered or now >= self._offered_at + _ADVANCE_S)

    def offer(self, state: SourceState, position: Position) -> None:
        """Record that a source offset is returned."""
        self.offered, self._offered_state, self._offered_at = position, state, self._clock()
        self._open_since = None
