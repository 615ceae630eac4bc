"""Combines a connector's offsets from several offsets topics: the newest commit is valid. No I/O (KIP-618).

A connector with its own offsets topic has its offsets there, and copies of them in the worker's topic. It may also have
used other topics before. For each source partition, the newest commit in any of these topics counts. A removal is a
commit, too.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from fencepost.api.record import SourceOffset, SourcePartition
from fencepost.storage.offsets.codec import OffsetMark, Origin, decode_value, encode_key
from fencepost.storage.offsets.table import OffsetTable, StoredOffset, newest


@dataclass(frozen=True, slots=True)
class CommittedOffset:
    """A source partition's offset, None if it was removed, and the time of its commit (see `codec`)."""

    partition: SourcePartition | None
    offset: SourceOffset | None
    time: int


@dataclass(frozen=True, slots=True)
class OffsetPage:
    """Some of a connector's source partitions with their offsets.

    `next` is `after` for the next page; None for the last page.
    """

    offsets: list[tuple[dict[str, Any] | None, dict[str, Any]]]
    next: str | None


class OffsetView:
    """One connector's offsets in the table `own`, and in other tables. Thread-safe."""

    def __init__(self, connector: str, own: OffsetTable, *others: OffsetTable) -> None:
        self._connector = connector
        self._tables = (own, *others)

    def offset(self, partition: SourcePartition | None) -> dict[str, Any] | None:
        """Return a source partition's offset; None if it has none.

        Raises DataError if the stored offset is malformed.
        """
        encode_key(self._connector, partition)
        return _offset(self._stored(partition))

    def time(self, partition: SourcePartition | None) -> int:
        """Return the commit time of a source partition's newest offset; 0 if it has none."""
        stored = self._stored(partition)
        return 0 if stored is None else stored.mark.time

    def offsets(self) -> list[tuple[dict[str, Any] | None, dict[str, Any]]]:
        """Return the source partitions that have an offset, each with its offset.

        Raises DataError for malformed offsets.
        """
        return _decoded(self._newest().values())

    def page(self, after: str, limit: int) -> OffsetPage:
        """Return at most `limit` of `offsets`, sorted by `identity_of`, from the first one after `after`.

        Only the returned offsets are decoded. Raises DataError for malformed ones.
        """
        found: list[tuple[str, StoredOffset]] = []
        identities = heapq.merge(*(table.identities_after(self._connector, after) for table in self._tables))
        for identity, _ in groupby(identities):
            every = (table.stored_as(self._connector, identity) for table in self._tables)
            stored = newest([one for one in every if one is not None])
            if stored is not None and stored.value:
                found.append((identity, stored))
            # One more source partition is read, which shows whether this is the last page.
            if len(found) > limit:
                break
        shown = found[:limit]
        return OffsetPage(_decoded(stored for _, stored in shown), shown[-1][0] if len(found) > limit else None)

    def partitions(self) -> list[dict[str, Any] | None]:
        """Return the source partitions with an offset in any topic, even if a newer commit elsewhere removed it."""
        every = [table.stored_of(self._connector) for table in self._tables]
        found = {identity: one.partition for table in every for identity, one in table.items() if one.value}
        return [_copied(partition) for partition in found.values()]

    def origins(self) -> set[Origin]:
        """Return the topics that are named by the connector's newest offsets in any of the tables."""
        return set().union(*(table.origins(self._connector) for table in self._tables))

    def is_needed(self, former: OffsetTable, current: Iterable[OffsetTable]) -> bool:
        """Whether `former` has the newest offset of any source partition, and no table in `current` has a copy."""
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
        """Return the source partitions whose newest offset is not in `own`, each with its newest offset.

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
        """Return the newest offsets that `shared` lacks, or has with an original topic other than `origin`.

        Raises DataError if the newest offset is malformed.
        """
        uncopied = []
        for partition in partitions:
            found = self._stored(partition)
            copy = shared.stored(self._connector, partition)
            if found is not None and (copy is None or not _is_copy_of(copy, found, origin)):
                uncopied.append(CommittedOffset(partition, _offset(found), found.mark.time))
        return uncopied

    def _newest(self) -> Mapping[str, StoredOffset]:
        """Return the newest record of each source partition, by `identity_of` of the source partition."""
        own, *others = (table.stored_of(self._connector) for table in self._tables)
        for more in others:
            for identity, stored in more.items():
                if identity not in own or stored.is_newer_than(own[identity]):
                    own[identity] = stored
        return own

    def _stored(self, partition: SourcePartition | None) -> StoredOffset | None:
        every = (table.stored(self._connector, partition) for table in self._tables)
        return newest([stored for stored in every if stored is not None])


def _is_copy_of(copy: StoredOffset, found: StoredOffset, origin: Origin) -> bool:
    """Whether `copy` has the same offset and time as `found`, and names `origin` as its original topic."""
    return copy.mark == OffsetMark(found.mark.time, origin) and copy.value == found.value and not copy.is_buried


def _decoded(found: Iterable[StoredOffset]) -> list[tuple[dict[str, Any] | None, dict[str, Any]]]:
    """Return the source partitions that have an offset, each with its offset."""
    decoded = ((stored.partition, _offset(stored)) for stored in found)
    return [(_copied(partition), offset) for partition, offset in decoded if offset is not None]


def _offset(stored: StoredOffset | None) -> dict[str, Any] | None:
    return None if stored is None else decode_value(stored.value)


def _copied(partition: dict[str, Any] | None) -> dict[str, Any] | None:
    return None if partition is None else dict(partition)
