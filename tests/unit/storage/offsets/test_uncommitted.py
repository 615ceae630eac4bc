"""The records that a task has to commit: the last offset of each source partition."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.api.errors import DataError
from fencepost.kafka.producer.partitioner import partition_for_keys
from fencepost.storage.offsets.codec import OffsetMark
from fencepost.storage.offsets.table import OffsetTable
from fencepost.storage.offsets.uncommitted import OffsetRecords
from tests.support.offset_log import apply


def _records(offsets: OffsetRecords, partitions: int = 1) -> list[tuple[bytes, bytes | None]]:
    return [
        (key, value)
        for _, records in offsets.by_partition(partitions)
        for key, value in zip(_list(records.key), _list(records.value), strict=True)
    ]


def _list(column: Any) -> list[Any]:
    return [] if column is None else column.to_pylist()


def test_only_the_last_offset_of_a_partition_is_written():
    offsets = OffsetRecords("c", OffsetTable())
    for position in range(100):
        offsets.put({"file": "a"}, {"position": position})
    offsets.put({"file": "b"}, {"position": 7})
    assert _records(offsets) == [
        (b'["c",{"file":"a"}]', b'{"position":99}'),
        (b'["c",{"file":"b"}]', b'{"position":7}'),
    ]


def test_equal_partitions_in_another_order_are_one():
    offsets = OffsetRecords("c", OffsetTable())
    offsets.put({"a": 1, "b": 2}, {"n": 1})
    offsets.put({"b": 2, "a": 1}, {"n": 2})
    assert [value for _, value in _records(offsets)] == [b'{"n":2}']


def test_partitions_that_only_python_takes_for_equal_are_kept_apart():
    offsets = OffsetRecords("c", OffsetTable())
    for value in (1, 1.0, True):
        offsets.put({"p": value}, {"n": 1})
    assert [key for key, _ in _records(offsets)] == [b'["c",{"p":1}]', b'["c",{"p":1.0}]', b'["c",{"p":true}]']


def test_a_mapping_that_the_task_changes_later_is_committed_unchanged():
    offsets = OffsetRecords("c", OffsetTable())
    partition, offset = {"file": "a"}, {"position": 1}
    offsets.put(partition, offset)
    partition["file"], offset["position"] = "b", 2
    assert _records(offsets) == [(b'["c",{"file":"a"}]', b'{"position":1}')]


def test_the_latest_offsets_are_one_for_each_partition_with_removals():
    offsets = OffsetRecords("c", OffsetTable())
    offsets.update([({"a": 1, "b": 2}, {"n": 1}), ({"c": 3}, None), ({"b": 2, "a": 1}, {"n": 2})])
    assert offsets.latest() == [({"b": 2, "a": 1}, {"n": 2}), ({"c": 3}, None)]


def test_an_offset_of_none_is_a_removal():
    offsets = OffsetRecords("c", OffsetTable())
    offsets.put({"file": "a"}, None)
    assert _records(offsets) == [(b'["c",{"file":"a"}]', None)]


def test_a_partition_keeps_its_key_in_the_topic():
    table = OffsetTable()
    apply(table, b'["c", {"b":2, "a":1}]', b'{"n":1}', 1)
    offsets = OffsetRecords("c", table)
    offsets.put({"a": 1, "b": 2}, {"n": 2})
    assert _records(offsets) == [(b'["c", {"b":2, "a":1}]', b'{"n":2}')]


@given(st.sets(st.text(), min_size=1, max_size=50), st.integers(1, 30))
def test_every_record_goes_where_kafka_hashes_its_key_to(files: set[str], partitions: int):
    offsets = OffsetRecords("c", OffsetTable())
    offsets.update(({"file": file}, {"n": 1}) for file in files)
    routed = offsets.by_partition(partitions)
    for partition, records in routed:
        assert set(partition_for_keys(records.key, partitions)) == {partition}
    assert sum(len(records) for _, records in routed) == len(files)


def test_no_offsets_give_no_records():
    offsets = OffsetRecords("c", OffsetTable())
    assert not offsets
    assert offsets.by_partition(25) == []


def test_cleared_offsets_are_not_written_again():
    offsets = OffsetRecords("c", OffsetTable())
    offsets.put({"file": "a"}, {"n": 1})
    offsets.clear()
    assert not offsets


@pytest.mark.parametrize("partition", [{"f": [1]}, {"f": {"a": 1}}, 7, "text"])
def test_a_partition_that_cannot_be_stored_is_refused_when_it_is_put(partition: Any):
    with pytest.raises(DataError, match="Connector orders"):
        OffsetRecords("orders", OffsetTable()).put(partition, {"n": 1})


def test_an_offset_that_cannot_be_stored_is_refused_when_it_is_written():
    offsets = OffsetRecords("orders", OffsetTable())
    offsets.put({"f": "a"}, {"at": object()})
    with pytest.raises(DataError, match="Connector orders: 'at'"):
        offsets.by_partition(25)


def test_only_committed_offsets_are_reported():
    reported: list[Any] = []
    offsets = OffsetRecords("c", OffsetTable(), on_commit=reported.append)
    offsets.put({"file": "a"}, {"n": 1})
    offsets.written()
    assert not offsets
    offsets.put({"file": "a"}, {"n": 2})
    assert reported == []
    offsets.committed()
    ((committed,),) = reported
    assert (committed.partition, committed.offset) == ({"file": "a"}, {"n": 1})


def test_offsets_that_were_discarded_are_not_reported_as_committed():
    reported: list[Any] = []
    offsets = OffsetRecords("c", OffsetTable(), on_commit=reported.append)
    offsets.put({"file": "a"}, {"n": 1})
    offsets.written()
    offsets.clear()
    offsets.committed()
    assert reported == [[]]


def _headers(offsets: OffsetRecords) -> set[bytes]:
    """The commit times in the written records."""
    every = [records.headers for _, records in offsets.by_partition(25)]
    return {
        header["value"] for headers in every if headers is not None for row in headers.to_pylist() for header in row
    }


def test_a_commit_time_is_later_than_all_read_ones_even_with_a_slow_clock():
    """The latest commit time counts between two topics, or two partitions of one topic."""
    table = OffsetTable()
    ahead = 10**15
    apply(table, b'["c",{"file":"a"}]', b'{"n":1}', mark=OffsetMark(ahead))
    offsets = OffsetRecords("c", table)
    offsets.put({"file": "a"}, {"n": 2})
    offsets.put({"file": "b"}, {"n": 2})
    assert _headers(offsets) == {b"%d" % (ahead + 1)}
    assert _headers(offsets) == {b"%d" % (ahead + 2)}


def test_offsets_are_written_to_the_partition_of_the_newest_record():
    table = OffsetTable()
    for number in range(20):
        apply(table, b'["c",{"file":"%d"}]' % number, b'{"n":1}', place=7)
    offsets = OffsetRecords("c", table)
    offsets.update([({"file": str(number)}, {"n": 2}) for number in range(20)])
    assert [target for target, _ in offsets.by_partition(25)] == [7]
    assert len(offsets.by_partition(5)) > 1, "the topic was made again with fewer partitions"


def test_a_null_source_partition_is_written_and_reported():
    reported: list[Any] = []
    offsets = OffsetRecords("c", OffsetTable(), on_commit=reported.append)
    offsets.put(None, {"n": 1})
    assert _records(offsets) == [(b'["c",null]', b'{"n":1}')]
    offsets.written()
    offsets.committed()
    assert reported[0][0].partition is None
