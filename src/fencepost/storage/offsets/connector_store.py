"""The offsets of one connector: in its own topic, and copied to the worker's topic if that is a different one.

    reads    own topic ─┐
             worker's  ─┼─> the newest commit of each source partition
             former    ─┘
    commits  own topic, with the task's transaction ──> copies in the worker's topic, which name the own topic

The copies name the topic of the connector's commits. So a reader of the worker's topic finds the connector's earlier
own topics, and reads them as well: it does not miss offsets that were not copied. While an earlier topic has such an
offset, all commits name that topic, too, because they may replace the last copy that names it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

from fencepost.api.record import SourcePartition
from fencepost.kafka.consumer.read_to_end import DEFAULT_TIMEOUT_MS
from fencepost.kafka.errors import TopicNotFoundError
from fencepost.storage.offsets.codec import CommitAuthor, Origin
from fencepost.storage.offsets.copies import Copy, OffsetCopies
from fencepost.storage.offsets.overlay import CommittedOffset, OffsetPage, OffsetView
from fencepost.storage.offsets.topic import OffsetStore
from fencepost.storage.offsets.uncommitted import OffsetRecords

_LOG: Final = logging.getLogger(__name__)

_COPYING_SECONDS: Final = 30.0
_FLUSHING_SECONDS: Final = 2.0


@dataclass(frozen=True, slots=True)
class SharedOffsets:
    """The worker's offsets topic, as a connector with its own topic uses it."""

    store: OffsetStore
    copies: OffsetCopies


class ConnectorOffsetStore:
    """The offsets of one connector in `own`, and in `shared`, the worker's topic, if that is a different one.

    `origin` is the name of the own topic in the headers of copies. `open_former` opens a topic that copies name; it
    returns None if the connector cannot reach the topic's cluster. Thread-safe. This object needs no closing.
    """

    def __init__(
        self,
        connector: str,
        own: OffsetStore,
        shared: SharedOffsets | None = None,
        *,
        origin: Origin | None = None,
        open_former: Callable[[Origin], OffsetStore | None] = lambda _: None,
    ) -> None:
        self.connector = connector
        self._own = own
        self._shared = shared
        self._origin = origin or Origin(own.topic)
        self._open_former = open_former
        self._former: dict[Origin, OffsetStore | None] = {}
        self._needed: frozenset[Origin] = frozenset()
        self._view = self._new_view()
        if shared is not None:
            own.table.keep_removed(connector)

    @property
    def own(self) -> OffsetStore:
        """The store of the topic to which the connector's tasks commit their offsets."""
        return self._own

    @property
    def topic(self) -> str:
        """The topic to which the connector's tasks commit their offsets."""
        return self._own.topic

    def refresh(self, timeout_ms: float = DEFAULT_TIMEOUT_MS) -> None:
        """Read all offsets that were committed before this call. See `OffsetStore.refresh` for waits and errors."""
        self._own.refresh(timeout_ms)
        if self._shared is not None:
            self._shared.store.refresh(timeout_ms)
        read = {self._origin, self._shared_origin}
        # The records of an earlier topic may name further topics.
        while found := self._view.origins() - read:
            for origin in found:
                self._refresh_former(origin, timeout_ms)
            read |= found
        self._needed = self._find_needed_topics()

    def offsets(self, *, timeout_ms: float = DEFAULT_TIMEOUT_MS) -> list[tuple[dict[str, Any] | None, dict[str, Any]]]:
        """Return the committed offsets: the connector's source partitions, each with its offset."""
        self.refresh(timeout_ms)
        return self._view.offsets()

    def page(self, after: str, limit: int, *, timeout_ms: float = DEFAULT_TIMEOUT_MS) -> OffsetPage:
        """Return a page of `offsets` (see OffsetView)."""
        self.refresh(timeout_ms)
        return self._view.page(after, limit)

    def partitions(self, *, timeout_ms: float = DEFAULT_TIMEOUT_MS) -> list[dict[str, Any] | None]:
        """Return the source partitions with an offset in any topic, even if a newer commit elsewhere removed it."""
        self.refresh(timeout_ms)
        return self._view.partitions()

    def reader(self, *, timeout_ms: float = DEFAULT_TIMEOUT_MS) -> ConnectorOffsetReader:
        """Return the connector's offset reader."""
        return ConnectorOffsetReader(self, timeout_ms)

    def task_reader(self) -> ConnectorOffsetReader:
        """Return a task's offset reader for its own source partitions, of which this task is the only writer.

        The reader also copies offsets that a dead worker has committed, but not copied.
        """
        return ConnectorOffsetReader(self, DEFAULT_TIMEOUT_MS, mends_copies=True)

    def records(self, author: Callable[[], CommitAuthor | None] = lambda: None) -> OffsetRecords:
        """Return an empty collection of offsets for one task. Offsets that are committed through it are copied.

        `author` has the same meaning as for OffsetRecords.
        """
        return OffsetRecords(
            self.connector,
            self._own.table,
            on_commit=self.copy,
            known_time=self._time,
            author=author,
            former=lambda: self._needed,
        )

    def copy(self, offsets: Iterable[CommittedOffset]) -> None:
        """Queue offsets that were committed to the own topic, to copy them to the worker's topic.

        Never waits or fails.
        """
        if self._shared is not None:
            self._shared.copies.put(self._copies(offsets))

    def flush(self, timeout_s: float = _FLUSHING_SECONDS) -> None:
        """Copy all offsets that were committed through this store. Drops offsets that cannot be copied in time.

        Never fails.
        """
        if self._shared is not None:
            self._shared.copies.flush(self, timeout_s)

    def held_elsewhere(
        self, partitions: Iterable[SourcePartition | None]
    ) -> list[tuple[SourcePartition | None, dict[str, Any]]]:
        """Return the source partitions whose newest offset is only in other topics, each with its newest offset.

        Raises DataError for malformed offsets.
        """
        return self._view.held_elsewhere(partitions)

    def remove_copies(self, partitions: Iterable[SourcePartition | None], timeout_s: float = _COPYING_SECONDS) -> None:
        """Remove the copies of offsets from the worker's topic. Call this before removing offsets from the own topic.

        In the opposite order, the copies would become valid again when compaction drops the own topic's tombstones.
        This method leaves the offsets in the own topic valid. Offsets that are only in other topics (`held_elsewhere`)
        must first be committed to the own topic. Raises OffsetsNotCopiedError.
        """
        if self._shared is not None:
            # A removal gets the time of the commit in the own topic, so that this commit stays valid.
            removals = [CommittedOffset(partition, None, self._view.time(partition)) for partition in partitions]
            self._shared.copies.write(self.connector, self._copies(removals), timeout_s)

    def read(self, partitions: list[SourcePartition]) -> list[dict[str, Any] | None]:
        """Return the offsets of source partitions, as they were at the last read, in the given order."""
        return [self._view.offset(partition) for partition in partitions]

    def mend_copies(self, partitions: Iterable[SourcePartition]) -> None:
        """Copy the offsets of these source partitions, if the worker's topic lacked them at the last read."""
        if self._shared is not None:
            self.copy(self._view.uncopied(partitions, self._shared.store.table, self._origin))

    @property
    def _shared_origin(self) -> Origin:
        return Origin((self._own if self._shared is None else self._shared.store).topic)

    def _find_needed_topics(self) -> frozenset[Origin]:
        """Return the earlier topics that are still needed.

        At the last read, such a topic had the newest offset of a source partition, and the current topics had no copy
        of this offset.
        """
        current = [self._own.table] if self._shared is None else [self._own.table, self._shared.store.table]
        former = ((origin, store) for origin, store in self._former.items() if store is not None)
        return frozenset(origin for origin, store in former if self._view.is_needed(store.table, current))

    def _time(self, partition: SourcePartition | None) -> int:
        return self._view.time(partition)

    def _copies(self, offsets: Iterable[CommittedOffset]) -> list[Copy]:
        return [Copy(self.connector, offset, self._origin, self) for offset in offsets]

    def _refresh_former(self, origin: Origin, timeout_ms: float) -> None:
        if origin not in self._former:
            self._former[origin] = self._open_former(origin)
            self._view = self._new_view()
        store = self._former[origin]
        if store is None:
            return
        store.table.keep_removed(self.connector)
        try:
            store.refresh(timeout_ms, create=False)
        except TopicNotFoundError:
            _LOG.info(
                "The former offsets topic %s of connector %s does not exist any more: its copies in the worker's "
                "offsets topic are used", origin.topic, self.connector,
            )  # fmt: skip

    def _new_view(self) -> OffsetView:
        stores = [] if self._shared is None else [self._shared.store]
        stores += [store for store in self._former.values() if store is not None]
        return OffsetView(self.connector, self._own.table, *(store.table for store in stores))


class ConnectorOffsetReader:
    """Reads one connector's committed offsets. Implements `OffsetReader` of the API for connector authors.

    Each call first reads the topics to their ends, so it sees all earlier commits of all workers.
    """

    def __init__(self, store: ConnectorOffsetStore, timeout_ms: float, *, mends_copies: bool = False) -> None:
        self._store = store
        self._timeout_ms = timeout_ms
        self._mends_copies = mends_copies
        self.reads = 0
        """The number of times that offsets were read."""

    def offset(self, partition: SourcePartition) -> dict[str, Any] | None:
        """Return the last committed offset of a source partition; None if there is none."""
        return self.offsets([partition])[0]

    def offsets(self, partitions: Iterable[SourcePartition]) -> list[dict[str, Any] | None]:
        """Return the last committed offset of each source partition, in the order given."""
        wanted = list(partitions)
        self.reads += 1
        self._store.refresh(self._timeout_ms)
        found = self._store.read(wanted)
        if self._mends_copies:
            self._store.mend_copies(wanted)
        return found

    def items(self) -> list[tuple[dict[str, Any] | None, dict[str, Any]]]:
        """Return all committed offsets of the connector, as pairs of source partition and offset."""
        self.reads += 1
        return self._store.offsets(timeout_ms=self._timeout_ms)
