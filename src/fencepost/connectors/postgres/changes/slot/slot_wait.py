"""Reports the transactions that the creation of a replication slot waits for.

The server completes a slot only after all transactions that were writing when its creation started have ended, in all
databases.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from contextlib import closing
from typing import TYPE_CHECKING, Any, Final

from fencepost.api.errors import FencepostError, RetriableError
from fencepost.connectors.postgres.changes.connection import ConnectionSettings, query

if TYPE_CHECKING:
    import psycopg

_FIRST_S: Final = 5.0
_EVERY_S: Final = 10.0
_SHOWN_WRITERS: Final = 5

_log: Final = logging.getLogger(__name__)


class SlotWait:
    """Logs the open transactions while a slot is being created: after 5 s, and then every 10 s."""

    def __init__(self, settings: ConnectionSettings, slot: str, stopping: Callable[[], bool]) -> None:
        """`stopping` returns True when the slot is not needed any more."""
        self._settings = settings
        self._slot = slot
        self._stopping = stopping
        self._began = time.monotonic()
        self._next_notice = self._began + _FIRST_S

    def __call__(self) -> None:
        """Log the open transactions if a message is due. Raises RetriableError to end the creation of the slot."""
        if self._stopping():
            raise RetriableError(f"The replication slot {self._slot} was not created: the task is to stop")
        now = time.monotonic()
        if now >= self._next_notice:
            self._next_notice = now + _EVERY_S
            _log.warning(
                "The creation of the replication slot %s waits, for %.0f s now, until transactions end that write: %s. "
                "pg_terminate_backend ends one",
                self._slot, now - self._began, self._writers(),
            )  # fmt: skip

    def _writers(self) -> str:
        try:
            with closing(self._settings.connect()) as connection:
                writers = writing_transactions(connection)
        except FencepostError as error:
            return f"the server does not say which ({error})"
        more = f" and {len(writers) - _SHOWN_WRITERS} more" if len(writers) > _SHOWN_WRITERS else ""
        return f"{', '.join(writers[:_SHOWN_WRITERS])}{more}" if writers else "none is left at the moment"


def writing_transactions(connection: psycopg.Connection[Any]) -> list[str]:
    """Return the server's transactions that have written or may write, as texts, the oldest transaction first."""
    rows = query(
        connection,
        "SELECT concat('process ', pid), datname, usename, extract(epoch FROM clock_timestamp() - xact_start)::float "
        "FROM pg_stat_activity WHERE backend_xid IS NOT NULL AND pid <> pg_backend_pid() UNION ALL "
        "SELECT concat('prepared transaction ', quote_literal(gid)), database, owner, "
        "extract(epoch FROM clock_timestamp() - prepared)::float FROM pg_prepared_xacts ORDER BY 4 DESC NULLS LAST",
    )
    # The server shows the age of other users' transactions only to members of pg_read_all_stats.
    return [
        f"{what} (of {user} in {database}, {'open' if age is None else f'open for {age:.0f} s'})"
        for what, database, user, age in rows
    ]
