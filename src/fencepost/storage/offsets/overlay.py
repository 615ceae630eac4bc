"""A connector's offsets in several offsets topics, of which the newest commit counts; no I/O (KIP-618).

A connector with an own offsets topic has its offsets there and copies of them in the worker's topic. It may have used
others before. For each source partition the newest commit counts, in any of these topics. A removal is a commit, too.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from fencepost.api.record import SourceOffset, SourcePartition
from fencepost.storage.offsets.codec import OffsetMark, Origin, decode_value, encode_key
from fencepost.storage.offsets.table import OffsetTable, StoredOffset, newest


@dataclass(frozen=True, slots=True)
class CommittedOffset:
    """A source partition's offset, None for a removed one, and the time of its commit (see `offset_marks`)."""

    partition: SourcePartition | None
    offset: SourceOffset | None
    time: int


@dataclass(frozen=True, slots=True)
class OffsetPage:
    """Some of a connector's source partitions with their offsets. `next` is the place after them, None at the end."""

    offsets: list[tuple[dict[str, Any] | None, dict[str, Any]]]
    next: str | None


class OffsetView:
    """One connector's offsets in `own`, and in other tables. Thread-safe."""

    def __init__(self, connector: str, own: OffsetTable, *others: OffsetTable) -> None:
        self._connector = connector
        self._tables = (own, *others)

    def offset(self, partition: SourcePartition | None) -> dict[str, Any] | None:
        """Return a source partition's offset, None if it has none. Raises DataError if the stored one is malformed."""
        encode_key(self._connector, partition)
        return _offset(self._stored(partition))

    def time(self, partition: SourcePartition | None) -> int:
        """Return the commit time of a source partition's newest offset, 0 if it has none."""
        stored = self._stored(partition)
        return 0 if stored is None else stored.mark.time

    def offsets(self) -> list[tuple[dict[str, Any] | None, dict[str, Any]]]:
        """Return the source partitions that have an offset, with it. Raises DataError for malformed ones."""
        return _decoded(self._newest().values())

    def page(self, after: str, limit: int) -> OffsetPage:
        """Return at most `limit` of `offsets`, in the order of `identity_of` their source partitions, after a place.

        Only these are decoded. Raises DataError for malformed ones.
        """
        found = self._newest()
        # One more, to know whether it is the last page.
        names = heapq.nsmallest(limit + 1, (name for name, stored in found.items() if name > after and stored.value))
        shown = names[:limit]
        return OffsetPage(_decoded(found[name] for name in shown), shown[-1] if len(names) > limit else None)

    def partitions(self) -> list[dict[str, Any] | None]:
        """Return the source partitions with an offset in any topic, even if a removal in another topic hides it."""
        every = [table.stored_of(self._connector) for table in self._tables]
        found = {identity: one.partition for table in every for identity, one in table.items() if one.value}
        return [_copied(partition) for partition in found.values()]

    def origins(self) -> set[Origin]:
        """Return the topics named by the connector's newest offsets in some table."""
        return set().union(*(table.origins(self._connector) for table in self._tables))

    def is_needed(self, former: OffsetTable, current: Iterable[OffsetTable]) -> bool:
        """Whether `former` has the newest offset of a source partition, and no table of `current` has a copy of it."""
        known = [table.stored_of(self._connector) for table in current]
        for identity, stored in former.stored_of(self._connector).items():
            best = newest([found[identity] for found in known if identity in found])
            if best is None:
                if stored.value is not None:
                    return True
            elif stored.is_newer_than(best) and (stored.mark.time, stored.value) != (best.mark.time, best.value):
                return True
        return False

    def held_elsewhere(
        self, partitions: Iterable[SourcePartition | None]
    ) -> list[tuple[SourcePartition | None, dict[str, Any]]]:
        """Return the given source partitions whose newest offset is not in `own`, with that offset.

        Raises DataError for malformed offsets.
        """
        own, *others = self._tables
        if not others:
            return []
        found = (
            (partition, own.stored(self._connector, partition), self._stored(partition)) for partition in partitions
        )
        elsewhere = ((partition, _offset(best)) for partition, here, best in found if best != here)
        return [(partition, offset) for partition, offset in elsewhere if offset is not None]

    def uncopied(
        self, partitions: Iterable[SourcePartition | None], shared: OffsetTable, origin: Origin
    ) -> list[CommittedOffset]:
        """Return the newest offsets that `shared` lacks, or has without the note that `origin` holds them.

        Raises DataError if the newest offset is malformed.
        """
        uncopied = []
        for partition in partitions:
            found = self._stored(partition)
            copy = shared.stored(self._connector, partition)
            if found is not None and (copy is None or not _tells(copy, found, origin)):
                uncopied.append(CommittedOffset(partition, _offset(found), found.mark.time))
        return uncopied

    def _newest(self) -> Mapping[str, StoredOffset]:
        """The newest record of each source partition, by `identity_of` it."""
        own, *others = (table.stored_of(self._connector) for table in self._tables)
        for more in others:
            for identity, stored in more.items():
                if identity not in own or stored.is_newer_than(own[identity]):
                    own[identity] = stored
        return own

    def _stored(self, partition: SourcePartition | None) -> StoredOffset | None:
        every = (table.stored(self._connector, partition) for table in self._tables)
        return newest([stored for stored in every if stored is not None])


def _tells(copy: StoredOffset, found: StoredOffset, origin: Origin) -> bool:
    """Whether the record in the worker's topic has the newest offset, and names the topic of the next one."""
    return copy.mark == OffsetMark(found.mark.time, origin) and copy.value == found.value and not copy.is_buried


def _decoded(found: Iterable[StoredOffset]) -> list[tuple[dict[str, Any] | None, dict[str, Any]]]:
    """The source partitions that have an offset, with it."""
    decoded = ((stored.partition, _offset(stored)) for stored in found)
    return [(_copied(partition), offset) for partition, offset in decoded if offset is not None]


def _offset(stored: StoredOffset | None) -> dict[str, Any] | None:
    return None if stored is None else decode_value(stored.value)


def _copied(partition: dict[str, Any] | None) -> dict[str, Any] | None:
    return None if partition is None else dict(partition)
