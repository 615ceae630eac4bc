"""The latest source offset of every source partition, according to the records of an offsets topic. No I/O.

    source partition ──> one StoredOffset for each place ──> the newest of them

A place is a key in a partition of the topic. A source partition may have several places, for two reasons. Connectors
may order the names of the same map differently, which makes different bytes. And when partitions are added to the
topic, the hash of a key leads to another partition.
"""

from __future__ import annotations

import threading
import time
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from fencepost.api.record import SourcePartition
from fencepost.kafka.consumer.fetch_decoder import NO_PRODUCER, ConsumedRecord
from fencepost.kafka.records.columns import OutgoingRecord
from fencepost.storage.offsets.codec import OffsetKey, OffsetMark, Origin, decode_key, encode_key, identity_of, mark_of
from fencepost.storage.offsets.shared_partitions import SharedPartition, SharedPartitions

DAY_SECONDS: Final = 86_400.0
"""The minimum time for which a removed offset is remembered: Kafka's default of `delete.retention.ms`."""

_NOWHERE: Final = -1


@dataclass(frozen=True, slots=True)
class StoredOffset:
    """A source partition's record in the topic. `value` is None if the offset was removed.

    `place` is the partition of the topic; -1 for a deleted topic. `is_buried` means that an older copy follows the
    record in the log, so that compaction would keep the copy.
    """

    key: bytes
    value: bytes | None
    mark: OffsetMark
    partition: dict[str, Any] | None
    place: int = _NOWHERE
    producer: tuple[int, int] = NO_PRODUCER
    is_buried: bool = False

    def is_newer_than(self, other: StoredOffset) -> bool:
        """Whether this was committed after the other, by time; for equal times, by the epoch of the same producer.

        With equal times, a commit is newer than a copy, because a removal is copied before it is committed.
        """
        if self.mark.time != other.mark.time:
            return self.mark.time > other.mark.time
        if (self.mark.origin is None) != (other.mark.origin is None):
            return self.mark.origin is None
        return self.producer[0] == other.producer[0] and self.producer[1] > other.producer[1]


class OffsetTable:
    """Follows an offsets topic, record by record. Thread-safe.

    Within one place, the last record is valid, as in Kafka itself, except that a copy never replaces a newer commit.
    Among several places, the newest record is valid. New offsets are written to the place of the valid record, so that
    compaction replaces it. For this reason removed offsets are remembered as well, but not for ever: after a day,
    compaction drops their tombstones.

    `clock` returns seconds that never go back.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._connectors: dict[str, dict[str, tuple[StoredOffset, ...]]] = {}
        # The identities of a connector's source partitions in order, once they were asked for. A list is never changed.
        self._ordered: dict[str, list[str]] = {}
        # The decoded keys. Before compaction, a topic has many records with the same key.
        self._named: dict[bytes, OffsetKey] = {}
        self._shared = SharedPartitions()
        self._with_origins: set[str] = set()
        # Connectors whose offsets are also in another topic.
        self._elsewhere: set[str] = set()
        # The offsets that were removed in the current period of a day, and in the period before it.
        self._removed: tuple[set[tuple[str, str]], set[tuple[str, str]]] = set(), set()
        self._day_ends_at = clock() + DAY_SECONDS
        self._lock = threading.Lock()

    def apply(self, record: ConsumedRecord) -> bool:
        """Add a record of the topic. Returns False if its key is not the key of an offset record."""
        key = record.key
        if key is None:
            return False
        named = self._named.get(key) or decode_key(key)
        if named is None:
            return False
        mark = mark_of(record.headers, record.timestamp)
        stored = StoredOffset(key, record.value, mark, named.partition, record.partition, record.producer)
        with self._lock:
            self._named[key] = named
            known = self._connectors.setdefault(named.connector, {})
            if named.identity not in known:
                self._ordered.pop(named.connector, None)
            known[named.identity] = _with(known.get(named.identity, ()), stored)
            if mark.origin is not None or mark.former:
                self._with_origins.add(named.connector)
            if record.value is None:
                self._removed[0].add((named.connector, named.identity))
            if mark.author is not None:
                self._shared.commit(named.connector, named.identity, mark.author, mark.time)
        return True

    def shared_partitions(self, connector: str) -> tuple[int, SharedPartition | None]:
        """Return the number of commits that have shown a shared source partition, and the last SharedPartition."""
        with self._lock:
            return self._shared.found(connector)

    def keep_removed(self, connector: str) -> None:
        """Remember the removed offsets of a connector for ever: another topic may have a copy of these offsets."""
        with self._lock:
            self._elsewhere.add(connector)

    def forget_removed(self) -> None:
        """Forget offsets that were removed more than a day ago, in all of their places.

        Call this only after the topic was read to its end: otherwise an older record in another place would be valid
        again.
        """
        now = self._clock()
        with self._lock:
            if now < self._day_ends_at:
                return
            today, yesterday = self._removed
            self._removed, self._day_ends_at = (set(), today), now + DAY_SECONDS
            for connector, identity in yesterday - today:
                places = self._connectors[connector][identity]
                alone = connector not in self._with_origins and connector not in self._elsewhere
                if alone and all(place.value is None for place in places):
                    del self._connectors[connector][identity]
                    self._ordered.pop(connector, None)
                    self._shared.forget(connector, identity)
                    for place in places:
                        self._named.pop(place.key, None)

    def leave_places(self) -> None:
        """Clear the places, because the topic was deleted and created again. The offsets stay valid."""
        with self._lock:
            for known in self._connectors.values():
                for identity, places in known.items():
                    known[identity] = (replace(_newest(places), place=_NOWHERE, is_buried=False),)

    def records(self, connector: str, partition: SourcePartition | None, value: bytes | None) -> list[OutgoingRecord]:
        """Return records, without headers, that set a source partition's offset, or remove it if `value` is None.

        An offset is removed in all its places: compaction drops tombstones after a while, and then any remaining record
        would be valid again. Raises DataError if the source partition cannot be stored.
        """
        key = encode_key(connector, partition)
        places = self._places(connector, partition)
        if not places:
            return [OutgoingRecord(key, value)]
        newest = _newest(places)
        written = [newest] + [place for place in places if value is None and place.value and place is not newest]
        return [
            OutgoingRecord(stored.key, value, partition=None if stored.place == _NOWHERE else stored.place)
            for stored in written
        ]

    def stored_of(self, connector: str) -> dict[str, StoredOffset]:
        """Return a connector's records in the topic, by `identity_of` of the source partition."""
        with self._lock:
            return {identity: _newest(places) for identity, places in self._connectors.get(connector, {}).items()}

    def identities_after(self, connector: str, after: str) -> Iterator[str]:
        """Yield the identities of a connector's source partitions in order, from the first one after `after`.

        Source partitions that are added meanwhile are not yielded.
        """
        with self._lock:
            ordered = self._ordered.get(connector)
            if ordered is None:
                ordered = self._ordered[connector] = sorted(self._connectors.get(connector, ()))
        return map(ordered.__getitem__, range(bisect_right(ordered, after), len(ordered)))

    def stored_as(self, connector: str, identity: str) -> StoredOffset | None:
        """Return the record of the source partition with this identity; None if it is unknown."""
        with self._lock:
            places = self._connectors.get(connector, {}).get(identity, ())
        return _newest(places) if places else None

    def stored(self, connector: str, partition: SourcePartition | None) -> StoredOffset | None:
        """Return a source partition's record in the topic; None if it is unknown."""
        places = self._places(connector, partition)
        return _newest(places) if places else None

    def origins(self, connector: str) -> set[Origin]:
        """Return the topics that a connector's copies and commits in this topic name."""
        # Few connectors have their own topic. The offsets of other connectors name no topics, so they are not searched.
        if connector not in self._with_origins:
            return set()
        marks = [stored.mark for stored in self.stored_of(connector).values()]
        return {mark.origin for mark in marks if mark.origin is not None}.union(*(mark.former for mark in marks))

    def _places(self, connector: str, partition: SourcePartition | None) -> tuple[StoredOffset, ...]:
        with self._lock:
            return self._connectors.get(connector, {}).get(identity_of(partition), ())


def newest(found: Sequence[StoredOffset]) -> StoredOffset | None:
    """Return the newest of a source partition's records in several tables.

    If several records are equally new, the first of these is returned.
    """
    return _newest(found) if found else None


def _newest(places: Sequence[StoredOffset]) -> StoredOffset:
    found = places[0]
    for stored in places[1:]:
        if stored.is_newer_than(found):
            found = stored
    return found


def _with(places: tuple[StoredOffset, ...], record: StoredOffset) -> tuple[StoredOffset, ...]:
    """Return the records of a source partition, by place, after the addition of a record."""
    for number, stored in enumerate(places):
        if (stored.place, stored.key) == (record.place, record.key):
            late = record.mark.origin is not None and stored.mark.time > record.mark.time
            last = replace(stored, is_buried=True) if late else record
            return (*places[:number], last, *places[number + 1 :])
    return (*places, record)
