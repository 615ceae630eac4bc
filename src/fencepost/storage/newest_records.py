"""Where the newest record of each key stands, in a compacted topic that may have got more partitions; no I/O.

The hash of a key belongs to another partition then. So equal keys stand in two of them, and a reader gets the records of
partitions in any order. Who writes a key where it stands makes no second one.
"""

from __future__ import annotations

from fencepost.kafka.consumer.fetch_decoder import ConsumedRecord
from fencepost.kafka.records.columns import OutgoingRecord, Row


class NewestRecords:
    """Follows a topic, record by record. One thread takes records in, others may place rows meanwhile."""

    def __init__(self) -> None:
        self._places: dict[bytes, dict[int, tuple[int, tuple[int, int]]]] = {}

    def take(self, record: ConsumedRecord) -> bool:
        """Take note of a record. False if a newer one of its key stands in another partition.

        In its own partition a record is the newest. Of two partitions that is the one with the later timestamp, then the
        one with the later epoch of one and the same producer.
        """
        if record.key is None:
            return True
        places = self._places.get(record.key, {})
        others = [age for partition, age in places.items() if partition != record.partition]
        self._places[record.key] = places | {record.partition: (record.timestamp, record.producer)}
        return not any(_is_later(age, (record.timestamp, record.producer)) for age in others)

    def placed(self, row: Row) -> list[OutgoingRecord]:
        """Return a row as a record for the partition where its key stands; a removal for each of them.

        Compaction drops the note of a removal, and what was left in another partition would be in force again.
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
        """Forget all, for another topic of that name."""
        self._places = {}


def _is_later(one: tuple[int, tuple[int, int]], other: tuple[int, tuple[int, int]]) -> bool:
    (time, (producer, epoch)), (other_time, (other_producer, other_epoch)) = one, other
    return time > other_time or (time == other_time and producer == other_producer and epoch > other_epoch)
