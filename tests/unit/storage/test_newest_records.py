"""After an increase of partitions, records of one key may be in two partitions."""

from __future__ import annotations

from itertools import permutations

import pytest

from fencepost.kafka.consumer.fetch_decoder import ConsumedRecord
from fencepost.kafka.records.columns import OutgoingRecord
from fencepost.storage.newest_records import NewestRecords


def _record(partition: int, timestamp: int, value: bytes | None = b"v", epoch: int = 0) -> ConsumedRecord:
    return ConsumedRecord("topic", partition, 0, timestamp, b"k", value, (), (1, epoch))


def test_a_new_key_goes_where_its_hash_says() -> None:
    assert NewestRecords().placed((b"k", b"v")) == [OutgoingRecord(b"k", b"v")]


@pytest.mark.parametrize("order", list(permutations([_record(0, 10), _record(1, 20), _record(2, 20, epoch=1)])))
def test_the_newest_record_counts_whichever_is_read_first(order: tuple[ConsumedRecord, ...]) -> None:
    newest = NewestRecords()
    taken = [record for record in order if newest.take(record)]
    assert taken[-1].partition == 2
    assert newest.placed((b"k", b"w")) == [OutgoingRecord(b"k", b"w", partition=2)]


def test_within_a_partition_the_last_record_is_the_newest() -> None:
    newest = NewestRecords()
    assert newest.take(_record(0, 20))
    assert newest.take(_record(0, 10))


def test_a_deletion_goes_to_each_partition_that_has_the_key() -> None:
    newest = NewestRecords()
    newest.take(_record(0, 10))
    newest.take(_record(3, 20))
    assert {row.partition for row in newest.placed((b"k", None))} == {0, 3}
    newest.clear()
    assert newest.placed((b"k", None)) == [OutgoingRecord(b"k", None)]


def test_a_record_without_a_key_is_always_taken() -> None:
    record = _record(0, 10)._replace(key=None)
    newest = NewestRecords()
    assert newest.take(record)
    assert newest.take(record._replace(partition=1, timestamp=0))
