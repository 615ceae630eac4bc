"""Where the Kafka transaction of a task may end, and what the source offset says there.

A transaction of the database is not divided, unless `transaction.split.after` says so. With a backlog, and while chunks of
tables are read, several transactions of the database make one of Kafka. A quiet slot commits its position from time to time.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from fencepost.connectors.postgres.changes.position import Position, SourceState

# The maximum age of a quiet slot's position: the server keeps its log from there on.
_ADVANCE_S: Final = 5.0


class CommitPoints:
    """Decides where to commit. `offered` is the position of the last source offset that was returned.

    `split_after_s` is when a transaction of the database may be divided, None for never. `clock` returns seconds.
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
        """Note that a batch is returned."""
        if self._open_since is None:
            self._open_since = self._clock()

    def has_news(self, state: SourceState) -> bool:
        """Return whether the state has something to commit although the position stays the same."""
        offered = self._offered_state
        return state.incremental != offered.incremental or state.types != offered.types

    def may_commit(self, state: SourceState, position: Position, *, after_s: float, heartbeat_due: bool) -> bool:
        """Return whether to commit. `after_s` is how long a transaction of Kafka collects changes."""
        now = self._clock()
        if self._open_since is None:
            return self._may_commit_position(state, position, now, heartbeat_due=heartbeat_due)
        if position.changes:
            return self._split_after_s is not None and now >= self._open_since + self._split_after_s
        return now >= self._open_since + after_s

    def _may_commit_position(self, state: SourceState, position: Position, now: float, *, heartbeat_due: bool) -> bool:
        if position.changes:
            return False
        if self.has_news(state) or heartbeat_due:
            return True
        altered = state.publication != self._offered_state.publication
        return position.lsn > self.offered.lsn and (altered or now >= self._offered_at + _ADVANCE_S)

    def offer(self, state: SourceState, position: Position) -> None:
        """Note the source offset that is returned."""
        self.offered, self._offered_state, self._offered_at = position, state, self._clock()
        self._open_since = None
