"""The latest offset of each source partition, from the records of an offsets topic."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.api.errors import DataError
from fencepost.storage.offset_table import OffsetTable
from fencepost.storage.offset_view import OffsetView

_KEY = b'["c",{"a":1,"b":2}]'
_SAME_IN_OTHER_ORDER = b'["c",{"b":2,"a":1}]'
_PARTITION = {"a": 1, "b": 2}


def test_an_unknown_partition_has_no_offset():
    assert OffsetView("c", OffsetTable()).offset(_PARTITION) is None


def test_the_last_record_of_a_key_counts_even_if_its_clock_was_behind():
    table = OffsetTable()
    table.apply(_KEY, b'{"n":1}', 1000)
    table.apply(_KEY, b'{"n":2}', 999)
    assert OffsetView("c", table).offset(_PARTITION) == {"n": 2}


def test_a_null_value_removes_the_offset():
    table = OffsetTable()
    table.apply(_KEY, b'{"n":1}', 1)
    table.apply(_KEY, None, 2)
    assert OffsetView("c", table).offset(_PARTITION) is None
    assert OffsetView("c", table).offsets() == []


def test_connectors_do_not_see_each_others_offsets():
    table = OffsetTable()
    table.apply(_KEY, b'{"n":1}', 1)
    assert OffsetView("d", table).offset(_PARTITION) is None
    assert OffsetView("d", table).offsets() == []


def test_a_partition_is_found_whatever_the_order_of_its_names():
    table = OffsetTable()
    table.apply(_SAME_IN_OTHER_ORDER, b'{"n":1}', 1)
    assert OffsetView("c", table).offset(_PARTITION) == {"n": 1}


def test_a_known_partition_is_written_under_the_key_that_it_has():
    table = OffsetTable()
    assert table.key("c", _PARTITION) == _KEY
    table.apply(_SAME_IN_OTHER_ORDER, b'{"n":1}', 1)
    assert table.key("c", _PARTITION) == _SAME_IN_OTHER_ORDER


def test_a_removed_partition_keeps_its_key():
    table = OffsetTable()
    table.apply(_SAME_IN_OTHER_ORDER, None, 1)
    assert table.key("c", _PARTITION) == _SAME_IN_OTHER_ORDER


@given(st.permutations([(_KEY, b'{"n":1}', 1), (_SAME_IN_OTHER_ORDER, b'{"n":2}', 2)]))
def test_of_two_keys_for_one_partition_the_later_record_counts_in_any_order_of_reading(
    records: list[tuple[bytes, bytes, int]],
):
    table = OffsetTable()
    for record in records:
        table.apply(*record)
    assert OffsetView("c", table).offset(_PARTITION) == {"n": 2}
    assert table.key("c", _PARTITION) == _SAME_IN_OTHER_ORDER


@given(st.permutations([(_KEY, b'{"n":1}', 1), (_SAME_IN_OTHER_ORDER, None, 2)]))
def test_a_removal_under_another_key_is_not_undone_by_an_older_record(records: list[tuple[bytes, bytes | None, int]]):
    table = OffsetTable()
    for record in records:
        table.apply(*record)
    assert OffsetView("c", table).offset(_PARTITION) is None


def test_all_offsets_of_a_connector_are_listed():
    table = OffsetTable()
    table.apply(b'["c",{"t":"0"}]', b'{"n":1}', 1)
    table.apply(b'["c",{"t":"1"}]', b'{"n":2}', 1)
    assert sorted(OffsetView("c", table).offsets(), key=str) == [({"t": "0"}, {"n": 1}), ({"t": "1"}, {"n": 2})]


def test_a_record_with_another_kind_of_key_is_told_apart():
    assert OffsetTable().apply(b"session-key", b"{}", 1) is False


def test_a_malformed_offset_fails_the_partition_that_it_belongs_to_and_no_other():
    table = OffsetTable()
    table.apply(b'["c",{"t":"0"}]', b"garbage", 1)
    table.apply(b'["c",{"t":"1"}]', b'{"n":2}', 1)
    assert OffsetView("c", table).offset({"t": "1"}) == {"n": 2}
    with pytest.raises(DataError, match="garbage"):
        OffsetView("c", table).offset({"t": "0"})


def test_asking_for_a_partition_that_cannot_be_stored_is_refused():
    with pytest.raises(DataError, match="Connector c"):
        OffsetView("c", OffsetTable()).offset({"t": [1]})


def test_what_was_read_can_be_changed_without_changing_the_table():
    table = OffsetTable()
    table.apply(_KEY, b'{"n":1}', 1)
    first = OffsetView("c", table).offset(_PARTITION)
    assert first is not None
    first["n"] = 7
    OffsetView("c", table).offsets()[0][0]["a"] = 7
    assert OffsetView("c", table).offsets() == [(_PARTITION, {"n": 1})]
