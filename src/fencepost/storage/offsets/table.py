"""The latest source offset of every source partition, built from the records of an offsets topic; no I/O.

    source partition ──> one StoredOffset for each place ──> the newest of them

A place is a key in a partition of the topic. A source partition may have several: connectors may order the names of the
same map differently, which gives other bytes; and after partitions are added, the hash of a key belongs to another one.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from fencepost.api.record import SourcePartition
from fencepost.kafka.consumer.fetch_decoder import NO_PRODUCER, ConsumedRecord
from fencepost.kafka.records.columns import OutgoingRecord
from fencepost.storage.offsets.codec import OffsetKey, OffsetMark, Origin, decode_key, encode_key, identity_of, mark_of
from fencepost.storage.offsets.shared_partitions import SharedPartition, SharedPartitions

DAY_SECONDS: Final = 86_400.0
"""How long a removed offset is remembered at least: Kafka's default of `delete.retention.ms`."""

_NOWHERE: Final = -1


@dataclass(frozen=True, slots=True)
class StoredOffset:
    """A source partition's record in the topic. `value` is None if the offset was removed.

    `place` is the partition of the topic; -1 for a deleted topic. `is_buried`: an older copy follows it in the log, which
    compaction would keep instead.
    """

    key: bytes
    value: bytes | None
    mark: OffsetMark
    partition: dict[str, Any] | None
    place: int = _NOWHERE
    producer: tuple[int, int] = NO_PRODUCER
    is_buried: bool = False

    def is_newer_than(self, other: StoredOffset) -> bool:
        """Whether this was committed after the other: by the time, then by the epoch of the same producer.

        A commit is newer than its copy, because a removal is copied before it is committed.
        """
        if self.mark.time != other.mark.time:
            return self.mark.time > other.mark.time
        if (self.mark.origin is None) != (other.mark.origin is None):
            return self.mark.origin is None
        return self.producer[0] == other.producer[0] and self.producer[1] > other.producer[1]


class OffsetTable:
    """Follows an offsets topic, record by record. Thread-safe.

    In one place the last record counts, as in Kafka itself, except that a copy never replaces a newer commit. Between
    several places the newest record counts, and offsets are written there from then on, so that compaction replaces the
    record that counts. This is why removed offsets are remembered too, but not for ever: after a day compaction drops them.

    `clock` returns seconds that never go back.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._connectors: dict[str, dict[str, tuple[StoredOffset, ...]]] = {}
        # Before compaction a topic has many records of each key.
        self._named: dict[bytes, OffsetKey] = {}
        self._shared = SharedPartitions()
        self._with_origins: set[str] = set()
        # Connectors whose offsets another topic has, too.
        self._elsewhere: set[str] = set()
        # The offsets that were removed on this day, and on the day before.
        self._removed: tuple[set[tuple[str, str]], set[tuple[str, str]]] = set(), set()
        self._day_ends_at = clock() + DAY_SECONDS
        self._lock = threading.Lock()

    def apply(self, record: ConsumedRecord) -> bool:
        """Add a record of the topic. Returns False if its key is not an offset record's."""
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
            known[named.identity] = _with(known.get(named.identity, ()), stored)
            if mark.origin is not None or mark.former:
                self._with_origins.add(named.connector)
            if record.value is None:
                self._removed[0].add((named.connector, named.identity))
            if mark.author is not None:
                self._shared.commit(named.connector, named.identity, mark.author, mark.time)
        return True

    def shared_partitions(self, connector: str) -> tuple[int, SharedPartition | None]:
        """Return the number of commits that showed that two tasks share a source partition, and the last finding."""
        with self._lock:
            return self._shared.found(connector)

    def keep_removed(self, connector: str) -> None:
        """Remember the removed offsets of a connector for ever: another topic may have a copy of what they replaced."""
        with self._lock:
            self._elsewhere.add(connector)

    def forget_removed(self) -> None:
        """Forget offsets that were removed more than a day ago, in all of their places.

        Call it with the topic read to its end: an older record in another place would be valid again.
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
                    self._shared.forget(connector, identity)
                    for place in places:
                        self._named.pop(place.key, None)

    def leave_places(self) -> None:
        """Record that the topic was replaced by another one with its name: the offsets stay, but have no place."""
        with self._lock:
            for known in self._connectors.values():
                for identity, places in known.items():
                    known[identity] = (replace(_newest(places), place=_NOWHERE, is_buried=False),)

    def records(self, connector: str, partition: SourcePartition | None, value: bytes | None) -> list[OutgoingRecord]:
        """Return the records, without headers, that set a source partition's offset, or remove it with the value None.

        An offset is removed in all places: compaction drops tombstones after a while, and any remaining record would be
        valid again. Raises DataError if the source partition cannot be stored.
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
        """Return a connector's records in the topic, by `identity_of` the source partition."""
        with self._lock:
            return {identity: _newest(places) for identity, places in self._connectors.get(connector, {}).items()}

    def stored(self, connector: str, partition: SourcePartition | None) -> StoredOffset | None:
        """Return a source partition's record in the topic, None if it is unknown."""
        places = self._places(connector, partition)
        return _newest(places) if places else None

    def origins(self, connector: str) -> set[Origin]:
        """Return the topics named by a connector's copies and commits in this topic."""
        # Few connectors have a topic of their own. The offsets of others name none, and need no search.
        if connector not in self._with_origins:
            return set()
        marks = [stored.mark for stored in self.stored_of(connector).values()]
        return {mark.origin for mark in marks if mark.origin is not None}.union(*(mark.former for mark in marks))

    def _places(self, connector: str, partition: SourcePartition | None) -> tuple[StoredOffset, ...]:
        with self._lock:
            return self._connectors.get(connector, {}).get(identity_of(partition), ())


def newest(found: Sequence[StoredOffset]) -> StoredOffset | None:
    """Return the newest of a source partition's records in several tables; of equal ones the first."""
    return _newest(found) if found else None


def _newest(places: Sequence[StoredOffset]) -> StoredOffset:
    found = places[0]
    for stored in places[1:]:
        if stored.is_newer_than(found):
            found = stored
    return found


def _with(places: tuple[StoredOffset, ...], record: StoredOffset) -> tuple[StoredOffset, ...]:
    """The places of a source partition with one more record."""
    for number, stored in enumerate(places):
        if (stored.place, stored.key) == (record.place, record.key):
            late = record.mark.origin is not None and stored.mark.time > record.mark.time
            last = replace(stored, is_buried=True) if late else record
            return (*places[:number], last, *places[number + 1 :])
    return (*places, record)
