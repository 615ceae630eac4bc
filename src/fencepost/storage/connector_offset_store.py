"""The offsets of one connector: in its topic, and where that is its own, copied to the worker's topic."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from fencepost.api.record import SourcePartition
from fencepost.kafka.topic_reader import DEFAULT_TIMEOUT_MS
from fencepost.storage.offset_copies import OffsetCopies, Offsets
from fencepost.storage.offset_records import OffsetRecords
from fencepost.storage.offset_store import OffsetStore
from fencepost.storage.offset_view import OffsetView

_COPYING_SECONDS: Final = 30.0


@dataclass(frozen=True, slots=True)
class SharedOffsets:
    """The worker's offsets topic, as a connector with a topic of its own uses it."""

    store: OffsetStore
    copies: OffsetCopies


class ConnectorOffsetStore:
    """The offsets of one connector in `own`, and below that in `shared` unless `own` is that topic.

    Threads may share it. It holds nothing that needs to be closed.
    """

    def __init__(self, connector: str, own: OffsetStore, shared: SharedOffsets | None = None) -> None:
        self.connector = connector
        self._own = own
        self._shared = shared
        self._view = OffsetView(connector, own.table, shared.store.table if shared else None)

    @property
    def topic(self) -> str:
        """The topic that the connector's tasks commit their offsets to."""
        return self._own.topic

    def refresh(self, timeout_ms: float = DEFAULT_TIMEOUT_MS) -> None:
        """Take in everything that was committed before this call. Waits and raises as `OffsetStore.refresh`."""
        self._own.refresh(timeout_ms)
        if self._shared is not None:
            self._shared.store.refresh(timeout_ms)

    def offsets(self, *, timeout_ms: float = DEFAULT_TIMEOUT_MS) -> list[tuple[dict[str, Any], dict[str, Any]]]:
        """Return what is committed: the connector's source partitions, each with its offset."""
        self.refresh(timeout_ms)
        return self._view.offsets()

    def partitions(self, *, timeout_ms: float = DEFAULT_TIMEOUT_MS) -> list[dict[str, Any]]:
        """Return the source partitions of `offsets`, and those that the own topic's removals hide in the worker's."""
        self.refresh(timeout_ms)
        return self._view.partitions()

    def reader(self, *, timeout_ms: float = DEFAULT_TIMEOUT_MS) -> ConnectorOffsetReader:
        """Return what the connector reads its offsets with."""
        return ConnectorOffsetReader(self, timeout_ms)

    def task_reader(self, *, timeout_ms: float = DEFAULT_TIMEOUT_MS) -> ConnectorOffsetReader:
        """Return what a task reads the offsets of its own source partitions with, as their only writer.

        What a worker that died had not copied of them is copied when they are read.
        """
        return ConnectorOffsetReader(self, timeout_ms, mends_copies=True)

    def records(self) -> OffsetRecords:
        """Return an empty collection of offsets for one task; what is committed of them is copied."""
        return OffsetRecords(self.connector, self._own.table, on_commit=self.copy)

    def copy(self, offsets: Offsets) -> None:
        """Have offsets that were committed to the own topic copied to the worker's. Never waits or fails."""
        if self._shared is not None:
            self._shared.copies.put(self.connector, offsets)

    def remove_copies(self, partitions: Iterable[SourcePartition], timeout_s: float = _COPYING_SECONDS) -> None:
        """Remove offsets from the worker's topic, before they are removed from the own one.

        Otherwise they would come back to life there once compaction drops the own topic's note of their removal.
        Raises OffsetsNotCopiedError.
        """
        if self._shared is not None:
            self._shared.copies.write(self.connector, [(partition, None) for partition in partitions], timeout_s)

    def read(self, partitions: list[SourcePartition]) -> list[dict[str, Any] | None]:
        """Return what was last read of the offsets of source partitions, in the order given."""
        return [self._view.offset(partition) for partition in partitions]

    def mend_copies(self, partitions: Iterable[SourcePartition]) -> None:
        """Have copied what the worker's topic lacks of source partitions, as it was last read."""
        if self._shared is not None:
            self.copy(self._view.uncopied(partitions))


class ConnectorOffsetReader:
    """Reads one connector's committed offsets; an `OffsetReader` of the author's API.

    Each call reads the topics to their ends first, so it sees what any worker committed before.
    """

    def __init__(self, store: ConnectorOffsetStore, timeout_ms: float, *, mends_copies: bool = False) -> None:
        self._store = store
        self._timeout_ms = timeout_ms
        self._mends_copies = mends_copies

    def offset(self, partition: SourcePartition) -> dict[str, Any] | None:
        """Return the last committed offset of a source partition, None if there is none."""
        return self.offsets([partition])[0]

    def offsets(self, partitions: Iterable[SourcePartition]) -> list[dict[str, Any] | None]:
        """Return the last committed offset of each source partition, in the order given."""
        wanted = list(partitions)
        self._store.refresh(self._timeout_ms)
        found = self._store.read(wanted)
        if self._mends_copies:
            self._store.mend_copies(wanted)
        return found
