"""Tracks which partition of a compacted topic has each key's newest record, even if partitions were added. No I/O.

If a topic gets more partitions, a key's hash leads to another partition. So two partitions may have records with the
same key, and a reader gets the records of different partitions in any order. So each key is always written to the
partition that already has it.
"""

from __future__ import annotations

from fencepost.kafka.consumer.fetch_decoder import ConsumedRecord
from fencepost.kafka.records.columns import OutgoingRecord, Row


class NewestRecords:
    """Follows a topic, record by record.

    One thread adds records. Other threads may call `placed` meanwhile.
    """

    def __init__(self) -> None:
        self._places: dict[bytes, dict[int, tuple[int, tuple[int, int]]]] = {}

    def take(self, record: ConsumedRecord) -> bool:
        """Add a record. Returns False if another partition has a newer record with the same key.

        Within its partition, the added record is always the newest. Between two partitions, the record with the later
        timestamp is newer; with equal timestamps, the record with the later epoch of the same producer.
        """
        if record.key is None:
            return True
        places = self._places.get(record.key, {})
        others = [age for partition, age in places.items() if partition != record.partition]
        self._places[record.key] = places | {record.partition: (record.timestamp, record.producer)}
        return not any(_is_later(age, (record.timestamp, record.producer)) for age in others)

    def placed(self, row: Row) -> list[OutgoingRecord]:
        """Return the records to write for a row: one record, for the partition with the key's newest record.

        For a tombstone, there is one record for each partition that has the key.

        Otherwise an older record in another partition would be valid again after compaction drops the tombstone.
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
        """Forget all records, because the topic was deleted and created again."""
        self._places = {}


def _is_later(one: tuple[int, tuple[int, int]], other: tuple[int, tuple[int, int]]) -> bool:
    (time, (producer, epoch)), (other_time, (other_producer, other_epoch)) = one, other
    return time > other_time or (time == other_time and producer == other_producer and epoch > other_epoch)
