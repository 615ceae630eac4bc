"""Tracks the partition of each key's newest record, in a compacted topic that may have got more partitions; no I/O.

With more partitions a key's hash leads to another partition. So equal keys may be in two partitions, and a reader gets the
records of partitions in any order. Writing a key to its existing partition avoids a second one.
"""

from __future__ import annotations

from fencepost.kafka.consumer.fetch_decoder import ConsumedRecord
from fencepost.kafka.records.columns import OutgoingRecord, Row


class NewestRecords:
    """Follows a topic, record by record. One thread adds records; other threads may ask meanwhile where to write rows."""

    def __init__(self) -> None:
        self._places: dict[bytes, dict[int, tuple[int, tuple[int, int]]]] = {}

    def take(self, record: ConsumedRecord) -> bool:
        """Add a record. Returns False if another partition has a newer one of its key.

        Within its partition a record is the newest. Between two partitions the newest is the one with the later
        timestamp, then the one with the later epoch of the same producer.
        """
        if record.key is None:
            return True
        places = self._places.get(record.key, {})
        others = [age for partition, age in places.items() if partition != record.partition]
        self._places[record.key] = places | {record.partition: (record.timestamp, record.producer)}
        return not any(_is_later(age, (record.timestamp, record.producer)) for age in others)

    def placed(self, row: Row) -> list[OutgoingRecord]:
        """Return a row as a record for the partition of its key; a tombstone for each such partition.

        Compaction drops tombstones, and a record left in another partition would be valid again.
        """
        key, value = row
        places = self._places.get(key, {})
        if not places:
            return [OutgoingRecord(key, value)]
        if value is None:
            return [OutgoingRecord(key, None, partition=place) for place in places]
        newest = next(iter(places))
        for place, age in places.items():
            newest = place if _is_later(age, places[newest]) else newest
        return [OutgoingRecord(key, value, partition=newest)]

    def clear(self) -> None:
        """Clear everything, for another topic of that name."""
        self._places = {}


def _is_later(one: tuple[int, tuple[int, int]], other: tuple[int, tuple[int, int]]) -> bool:
    (time, (producer, epoch)), (other_time, (other_producer, other_epoch)) = one, other
    return time > other_time or (time == other_time and producer == other_producer and epoch > other_epoch)
