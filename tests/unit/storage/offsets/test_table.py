"""The latest offset of each source partition, from the records of an offsets topic."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.api.errors import DataError
from fencepost.kafka.records.columns import OutgoingRecord
from fencepost.storage.offsets.codec import CommitAuthor, OffsetMark, Origin, identity_of
from fencepost.storage.offsets.overlay import OffsetView
from fencepost.storage.offsets.table import DAY_SECONDS, OffsetTable
from tests.support.offset_log import apply

_KEY = b'["c",{"a":1,"b":2}]'
_SAME_IN_OTHER_ORDER = b'["c",{"b":2,"a":1}]'
_PARTITION = {"a": 1, "b": 2}


def _key(table: OffsetTable) -> bytes:
    """The record key of a source partition."""
    (record,) = table.records("c", _PARTITION, b"{}")
    return record.key


def test_an_unknown_partition_has_no_offset():
    assert OffsetView("c", OffsetTable()).offset(_PARTITION) is None


def test_the_last_record_of_a_key_counts_even_if_its_clock_was_behind():
    table = OffsetTable()
    apply(table, _KEY, b'{"n":1}', 1000)
    apply(table, _KEY, b'{"n":2}', 999)
    assert OffsetView("c", table).offset(_PARTITION) == {"n": 2}


def test_a_null_value_removes_the_offset():
    table = OffsetTable()
    apply(table, _KEY, b'{"n":1}', 1)
    apply(table, _KEY, None, 2)
    assert OffsetView("c", table).offset(_PARTITION) is None
    assert OffsetView("c", table).offsets() == []


def test_connectors_do_not_see_each_others_offsets():
    table = OffsetTable()
    apply(table, _KEY, b'{"n":1}', 1)
    assert OffsetView("d", table).offset(_PARTITION) is None
    assert OffsetView("d", table).offsets() == []


def test_a_partition_is_found_with_any_order_of_its_names():
    table = OffsetTable()
    apply(table, _SAME_IN_OTHER_ORDER, b'{"n":1}', 1)
    assert OffsetView("c", table).offset(_PARTITION) == {"n": 1}


def test_a_known_partition_is_written_under_the_key_that_it_has():
    table = OffsetTable()
    assert _key(table) == _KEY
    apply(table, _SAME_IN_OTHER_ORDER, b'{"n":1}', 1)
    assert _key(table) == _SAME_IN_OTHER_ORDER


def test_a_removed_partition_keeps_its_key():
    table = OffsetTable()
    apply(table, _SAME_IN_OTHER_ORDER, None, 1)
    assert _key(table) == _SAME_IN_OTHER_ORDER


@given(st.permutations([(_KEY, b'{"n":1}', 1), (_SAME_IN_OTHER_ORDER, b'{"n":2}', 2)]))
def test_the_later_record_of_two_equal_keys_wins_in_any_reading_order(
    records: list[tuple[bytes, bytes, int]],
):
    table = OffsetTable()
    for record in records:
        apply(table, *record)
    assert OffsetView("c", table).offset(_PARTITION) == {"n": 2}
    assert _key(table) == _SAME_IN_OTHER_ORDER


@given(st.permutations([(_KEY, b'{"n":1}', 1), (_SAME_IN_OTHER_ORDER, None, 2)]))
def test_a_removal_under_another_key_is_not_undone_by_an_older_record(records: list[tuple[bytes, bytes | None, int]]):
    table = OffsetTable()
    for record in records:
        apply(table, *record)
    assert OffsetView("c", table).offset(_PARTITION) is None


def test_all_offsets_of_a_connector_are_listed():
    table = OffsetTable()
    apply(table, b'["c",{"t":"0"}]', b'{"n":1}', 1)
    apply(table, b'["c",{"t":"1"}]', b'{"n":2}', 1)
    assert sorted(OffsetView("c", table).offsets(), key=str) == [({"t": "0"}, {"n": 1}), ({"t": "1"}, {"n": 2})]


def test_a_record_with_another_kind_of_key_is_distinguished():
    assert apply(OffsetTable(), b"session-key", b"{}", 1) is False


def test_a_malformed_offset_fails_the_partition_that_it_belongs_to_and_no_other():
    table = OffsetTable()
    apply(table, b'["c",{"t":"0"}]', b"garbage", 1)
    apply(table, b'["c",{"t":"1"}]', b'{"n":2}', 1)
    assert OffsetView("c", table).offset({"t": "1"}) == {"n": 2}
    with pytest.raises(DataError, match="garbage"):
        OffsetView("c", table).offset({"t": "0"})


def test_asking_for_a_partition_that_cannot_be_stored_is_refused():
    with pytest.raises(DataError, match="Connector c"):
        OffsetView("c", OffsetTable()).offset({"t": [1]})


def test_changing_a_returned_offset_does_not_change_the_table():
    table = OffsetTable()
    apply(table, _KEY, b'{"n":1}', 1)
    first = OffsetView("c", table).offset(_PARTITION)
    assert first is not None
    first["n"] = 7
    OffsetView("c", table).offsets()[0][0]["a"] = 7
    assert OffsetView("c", table).offsets() == [(_PARTITION, {"n": 1})]


@given(st.permutations([0, 1]))
def test_of_equal_keys_in_two_partitions_the_newest_counts_in_any_order_of_reading(order: list[int]):
    table = OffsetTable()
    for number in order:
        apply(table, _KEY, b'{"n":%d}' % number, 5 + number, place=3 * number)
    assert OffsetView("c", table).offset(_PARTITION) == {"n": 1}
    assert table.records("c", _PARTITION, b"{}") == [OutgoingRecord(_KEY, b"{}", partition=3)], (
        "where the newest stands"
    )


@given(st.permutations([0, 1]))
def test_of_equal_times_the_later_epoch_of_one_producer_counts(order: list[int]):
    table = OffsetTable()
    for number in order:
        apply(table, _KEY, b'{"n":%d}' % number, 5, place=3 * number, producer=(7, number))
    assert OffsetView("c", table).offset(_PARTITION) == {"n": 1}


@given(st.permutations([(0, 300), (1, 200)]))
def test_each_partition_counts_with_its_last_record(order: list[tuple[int, int]]):
    """A record with a timestamp of a fast clock is replaced by the next record in its own partition."""
    table = OffsetTable()
    for place, timestamp in order:
        apply(table, _KEY, b'{"n":%d}' % timestamp, timestamp, place=place)
    apply(table, _KEY, b'{"n":100}', 100, place=0)
    assert OffsetView("c", table).offset(_PARTITION) == {"n": 200}


def test_an_offset_is_removed_wherever_the_source_partition_has_one():
    """Compaction drops a tombstone, and then an older offset in another partition would be valid again."""
    table = OffsetTable()
    apply(table, _KEY, b'{"n":1}', 1, place=0)
    apply(table, _KEY, b'{"n":2}', 2, place=3)
    apply(table, _SAME_IN_OTHER_ORDER, b'{"n":0}', 0, place=1)
    apply(table, b'["c",{"a":2}]', b'{"n":0}', 0, place=1)
    removed = {(record.key, record.value, record.partition) for record in table.records("c", _PARTITION, None)}
    assert removed == {(_KEY, None, 0), (_KEY, None, 3), (_SAME_IN_OTHER_ORDER, None, 1)}


def test_a_commit_time_counts_more_than_a_timestamp():
    table = OffsetTable()
    apply(table, _KEY, b'{"n":2}', 1, place=1, mark=OffsetMark(10))
    apply(table, _KEY, b'{"n":1}', 9, place=0)
    assert OffsetView("c", table).offset(_PARTITION) == {"n": 2}


def test_a_late_copy_is_detected_and_does_not_replace_a_newer_commit():
    table = OffsetTable()
    apply(table, _KEY, b'{"n":2}', mark=OffsetMark(10))
    apply(table, _KEY, b'{"n":1}', mark=OffsetMark(9, Origin("own")))
    stored = table.stored("c", _PARTITION)
    assert stored is not None
    assert (stored.value, stored.is_buried) == (b'{"n":2}', True)
    apply(table, _KEY, b'{"n":2}', mark=OffsetMark(10, Origin("offsets")))
    stored = table.stored("c", _PARTITION)
    assert stored is not None
    assert (stored.value, stored.is_buried) == (b'{"n":2}', False)


def test_a_record_of_connect_replaces_earlier_ones_in_its_partition():
    table = OffsetTable()
    apply(table, _KEY, b'{"n":2}', mark=OffsetMark(10))
    apply(table, _KEY, b'{"n":1}', 9)
    assert OffsetView("c", table).offset(_PARTITION) == {"n": 1}


def test_offsets_of_a_deleted_topic_count_but_have_no_partition():
    table = OffsetTable()
    apply(table, _KEY, b'{"n":2}', 5, place=7)
    table.leave_places()
    assert OffsetView("c", table).offset(_PARTITION) == {"n": 2}
    assert table.records("c", _PARTITION, b"{}") == [OutgoingRecord(_KEY, b"{}")]
    apply(table, _KEY, b'{"n":1}', 4, place=0)
    assert OffsetView("c", table).offset(_PARTITION) == {"n": 2}, "an older record of the new topic"


def test_a_source_partition_may_be_null():
    table = OffsetTable()
    assert apply(table, b'["c",null]', b'{"n":1}')
    view = OffsetView("c", table)
    assert (view.offset(None), view.offsets(), view.partitions()) == ({"n": 1}, [(None, {"n": 1})], [None])
    assert table.records("c", None, None) == [OutgoingRecord(b'["c",null]', None, partition=0)]


class _Days:
    """A clock that a test advances by days."""

    def __init__(self) -> None:
        self.seconds = 7.0

    def __call__(self) -> float:
        return self.seconds

    def pass_over(self, table: OffsetTable, days: int) -> None:
        for _ in range(days):
            self.seconds += DAY_SECONDS
            table.forget_removed()


@pytest.fixture
def days() -> _Days:
    return _Days()


def test_a_removed_offset_is_forgotten_after_more_than_a_day(days: _Days):
    table = OffsetTable(days)
    apply(table, _KEY, b'{"p":1}', mark=OffsetMark(5, author=CommitAuthor("t-0", "1.1.1")))
    apply(table, _KEY, None, mark=OffsetMark(6))
    days.pass_over(table, 1)
    assert list(table.stored_of("c")) == [identity_of(_PARTITION)]
    days.pass_over(table, 1)
    assert table.stored_of("c") == {}
    # The commit before it is forgotten, too, so another task that shares the source partition is not detected.
    apply(table, _KEY, b'{"p":2}', mark=OffsetMark(5, author=CommitAuthor("t-1", "2.1.1")))
    assert table.shared_partitions("c")[0] == 0
    assert OffsetView("c", table).offset(_PARTITION) == {"p": 2}


def test_an_offset_that_was_removed_again_is_remembered_for_another_day(days: _Days):
    table = OffsetTable(days)
    apply(table, _KEY, None, mark=OffsetMark(5))
    days.pass_over(table, 1)
    apply(table, _KEY, b'{"p":1}', mark=OffsetMark(6))
    apply(table, _KEY, None, mark=OffsetMark(7))
    days.pass_over(table, 1)
    assert list(table.stored_of("c")) == [identity_of(_PARTITION)]
    days.pass_over(table, 1)
    assert table.stored_of("c") == {}


def test_an_offset_that_was_committed_after_its_removal_is_kept(days: _Days):
    table = OffsetTable(days)
    apply(table, _KEY, None, mark=OffsetMark(5))
    apply(table, _KEY, b'{"p":1}', mark=OffsetMark(6))
    days.pass_over(table, 3)
    assert OffsetView("c", table).offset(_PARTITION) == {"p": 1}


def test_a_removal_is_remembered_as_long_as_another_place_has_an_older_offset(days: _Days):
    table = OffsetTable(days)
    apply(table, _KEY, b'{"p":1}', mark=OffsetMark(5), place=3)
    apply(table, _SAME_IN_OTHER_ORDER, None, mark=OffsetMark(6), place=4)
    days.pass_over(table, 3)
    assert OffsetView("c", table).offset(_PARTITION) is None
    # A later removal then reaches both.
    assert {record.partition for record in table.records("c", _PARTITION, None)} == {3, 4}


def test_removals_are_remembered_for_ever_if_another_topic_may_have_the_offset(days: _Days):
    table = OffsetTable(days)
    table.keep_removed("c")
    apply(table, _KEY, None, mark=OffsetMark(5))
    apply(table, b'["copied",{"a":1}]', None, mark=OffsetMark(5, Origin("own")))
    days.pass_over(table, 3)
    assert len(table.stored_of("c")) == len(table.stored_of("copied")) == 1
