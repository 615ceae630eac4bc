"""Watches the commits of connectors, and reports source partitions that two tasks write.

A thread reads the offsets topic of each watched connector to its end, once a second. A new watch first reads the topic,
and reports only later commits, because the fault behind earlier commits may have been corrected.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from fencepost.api.errors import describe_error
from fencepost.storage.errors import SharedPartitionError
from fencepost.storage.offsets.connector_store import ConnectorOffsetStore
from fencepost.storage.offsets.topic import OffsetStore

_LOG: Final = logging.getLogger(__name__)

_PERIOD_SECONDS: Final = 1.0
# The time limit of a read. Another client's open transaction blocks the read. A read in progress blocks other readers
# of the topic, and the start of a connector.
_READING_MS: Final = 5_000

OnShared = Callable[[SharedPartitionError], None]
"""Receives the error for a shared source partition, on a separate thread."""


class Watch:
    """Calls `on_shared` when two tasks of one connector share a source partition, until `close`."""

    def __init__(self, guard: PartitionGuard, offsets: ConnectorOffsetStore, on_shared: OnShared) -> None:
        self.store = offsets.own
        self._guard = guard
        self._connector = offsets.connector
        self._on_shared = on_shared
        self._known: int | None = None

    def check(self) -> None:
        """Report a source partition that commits since the last call have shown to be shared.

        The first call only sets the starting point.
        """
        known = self._known
        self._known, shared = self.store.table.shared_partitions(self._connector)
        if known is None or known == self._known or shared is None:
            return
        error = SharedPartitionError(shared.connector, shared.partition, shared.tasks)
        threading.Thread(target=self._on_shared, args=[error], name="shared-partition", daemon=True).start()

    def close(self) -> None:
        """Stop calling `on_shared`."""
        self._guard.remove(self)


class PartitionGuard:
    """Reads the offsets topics of its watches, on a thread that starts with the first watch. Thread-safe."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._watches: list[Watch] = []
        self._thread: threading.Thread | None = None
        self._closing = False

    def watch(self, offsets: ConnectorOffsetStore, on_shared: OnShared) -> Watch:
        """From now on, call `on_shared` if two tasks of a connector commit the same source partition.

        Reads the topic to its end. If that fails, or takes longer than 5 s, the watch begins when a later read succeeds.
        """
        watch = Watch(self, offsets, on_shared)
        if self._refreshed(watch.store):
            watch.check()
        with self._changed:
            self._watches.append(watch)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="partition-guard", daemon=True)
                self._thread.start()
            self._changed.notify_all()
        return watch

    @contextmanager
    def watching(self, offsets: ConnectorOffsetStore, on_shared: OnShared) -> Iterator[None]:
        """Watch like `watch`, until the block ends."""
        watch = self.watch(offsets, on_shared)
        try:
            yield
        finally:
            watch.close()

    def remove(self, watch: Watch) -> None:
        """Remove a watch, if it is there."""
        with self._changed:
            self._watches = [other for other in self._watches if other is not watch]

    def close(self) -> None:
        """End the thread, without waiting for a read in progress."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()

    # -- on the thread ---------------------------------------------------------------------------------------------

    def _run(self) -> None:
        while (watches := self._next()) is not None:
            for store in {id(watch.store): watch.store for watch in watches}.values():
                if self._refreshed(store):
                    for watch in watches:
                        if watch.store is store:
                            watch.check()

    def _next(self) -> list[Watch] | None:
        """Pause, wait until there is a watch, and return all watches; None after this object is closed."""
        with self._changed:
            self._changed.wait_for(lambda: self._closing, _PERIOD_SECONDS)
            self._changed.wait_for(lambda: self._closing or self._watches)
            return None if self._closing else list(self._watches)

    def _refreshed(self, store: OffsetStore) -> bool:
        try:
            store.refresh(_READING_MS, create=False)
        except Exception as error:  # noqa: BLE001 - the thread must survive any error: the next read may succeed
            if not self._closing:
                _LOG.debug(
                    "Offsets topic %s was not read for shared source partitions: %s", store.topic, describe_error(error)
                )
            return False
        return True
