"""Heartbeats: once in each `heartbeat.interval.ms`, a statement runs, and then a record with the time is written."""

from __future__ import annotations

import logging
import math
import time
from typing import Final

from fencepost.api.errors import FencepostError
from fencepost.api.record import SourceBatch
from fencepost.connectors.postgres.changes.config import PostgresConfig
from fencepost.connectors.postgres.changes.database import SourceDatabase
from fencepost.connectors.postgres.changes.events.batches import heartbeat

# The limits of a statement's duration, in seconds and as a share of the interval. A statement, which may wait for a
# lock, blocks the task's reads, and between two heartbeats there must be time for a read.
_ACTION_S: Final = 5.0
_ACTION_SHARE: Final = 0.25

_log: Final = logging.getLogger(__name__)


class Heartbeats:
    """Decides when the next heartbeat is due, and makes it."""

    def __init__(self, config: PostgresConfig, database: SourceDatabase) -> None:
        self._config = config
        self._database = database
        self._next = self._next_action = time.monotonic() + config.heartbeat_s if config.heartbeat_s else math.inf
        self._failure: str | None = None

    @property
    def due(self) -> bool:
        """Whether a heartbeat is due."""
        return time.monotonic() >= self._next

    def act(self) -> None:
        """Run `heartbeat.action.query` if a heartbeat is due.

        A failure is logged, and the statement runs again at the next heartbeat: the record is written in any case.
        """
        action = self._config.heartbeat_action
        if action is None or time.monotonic() < self._next_action:
            return
        self._next_action = time.monotonic() + self._config.heartbeat_s
        try:
            self._database.act(action, min(_ACTION_S, self._config.heartbeat_s * _ACTION_SHARE))
        except FencepostError as error:
            if str(error) != self._failure:
                _log.warning("heartbeat.action.query failed, and is run again with the next heartbeat: %s", error)
            self._failure = str(error)
        else:
            self._failure = None

    def batch(self, now_ms: int) -> SourceBatch:
        """Return the record of a heartbeat; the next one is due an interval later."""
        self._next = time.monotonic() + self._config.heartbeat_s
        return heartbeat(self._config.heartbeat_topic, self._config.prefix, now_ms)
