"""mode=bulk: reads all rows of a table or query, every `poll.interval.ms`.

One read is one batch, in one snapshot of the database.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from fencepost.connectors.jdbc.offsets import Offset, bulk_offset, bulk_time
from fencepost.connectors.jdbc.postgres.ranges import SMALL_BYTES
from fencepost.connectors.jdbc.postgres.reader import LargeRows, PolledRows, QuerySource, Reader, TooMuchError
from fencepost.connectors.jdbc.postgres.server import OpenServer
from fencepost.connectors.jdbc.properties import POLL_INTERVAL


class BulkReader(Reader):
    """Reads a whole table or query at each read. `now` returns milliseconds since 1970."""

    def __init__(
        self,
        source: QuerySource,
        partition: Mapping[str, str],
        offset: Offset | None,
        now: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        super().__init__(source, partition)
        self._last = bulk_time(offset)
        self._now = now

    def read(self, server: OpenServer) -> PolledRows | LargeRows | None:
        """Return all rows; None if no read is due or there are no rows."""
        now = self._now()
        # If the clock was set back to before the last read, a read is due, too.
        if self._last is not None and self._last <= now < self._last + self.source.config.values[POLL_INTERVAL]:
            return None
        found = self._read_all(server, bulk_offset(now))
        self._last = now
        return found

    def _read_all(self, server: OpenServer, offset: Offset) -> PolledRows | LargeRows | None:
        if self.source.is_large(server):
            return self.source.read_in_ranges(None, offset)
        try:
            with server.connection.transaction():
                shape = self.source.describe(server.connection)
                select = self.source.select("0", shape)
                _, rows = self.source.copy(server.connection, select, shape, most_bytes=SMALL_BYTES)
        except TooMuchError:
            return self.source.read_in_ranges(None, offset)
        return PolledRows(self.source.topic, shape, rows, offset) if rows.num_rows else None
