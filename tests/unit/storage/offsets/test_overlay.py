"""A connector's offsets in several topics, of which the newest commit counts."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.api.errors import DataError
from fencepost.storage.offsets.codec import OffsetMark, Origin
from fencepost.storage.offsets.overlay import CommittedOffset, OffsetPage, OffsetView
from fencepost.storage.offsets.table import OffsetTable
from tests.support.offset_log import apply

_A, _B, _C = {"t": "a"}, {"t": "b"}, {"t": "c"}
_PARTITIONS = [_A, _B, _C]
_OWN = Origin("own")

# An offsets topic may have no record of a source partition, a removal, or an offset.
_SAYS = st.sampled_from(["nothing", "removed", 1, 2])


def _table(*says: Any, connector: str = "c", time: int = 1, origin: Origin | None = None) -> OffsetTable:
    table = OffsetTable()
    for partition, said in zip(_PARTITIONS, says, strict=False):
        if said != "nothing":
            key = json.dumps([connector, partition]).encode()
            value = None if said == "removed" else json.dumps({"n": said}).encode()
            apply(table, key, value, mark=OffsetMark(time, origin))
    return table


def _offset(said: Any) -> dict[str, Any] | None:
    return None if said in ("nothing", "removed") else {"n": said}


@pytest.mark.parametrize("newer", ["own", "shared", "former"])
def test_the_newest_commit_counts_wherever_it_stands(newer: str):
    tables = {place: _table(1, 1, time=5) for place in ("own", "shared", "former")}
    tables[newer] = _table(2, "removed", time=6)
    view = OffsetView("c", *tables.values())
    assert [view.offset(partition) for partition in _PARTITIONS] == [{"n": 2}, None, None]
    assert view.offsets() == [(_A, {"n": 2})]
    assert [view.time(partition) for partition in _PARTITIONS] == [6, 6, 0]


def test_of_one_commit_and_its_copy_the_commit_counts():
    """A removal that was copied first takes effect with its commit."""
    own, shared = _table(1, time=5), _table("removed", time=5, origin=_OWN)
    assert OffsetView("c", own, shared).offset(_A) == OffsetView("c", shared, own).offset(_A) == {"n": 1}


def test_pages_have_each_offset_once_in_the_same_order_on_any_worker():
    own, shared = _table(1, "removed", 2, time=5), _table(2, 1, 1, time=4)
    apply(shared, b'["c",{"t":"d"}]', b'{"n":3}', mark=OffsetMark(9))
    apply(shared, b'["c",null]', b'{"n":4}', mark=OffsetMark(9))
    expected = [(None, {"n": 4}), (_A, {"n": 1}), (_C, {"n": 2}), ({"t": "d"}, {"n": 3})]
    for tables in ((own, shared), (shared, own)):
        view = OffsetView("c", *tables)
        for limit in (1, 2, 3, 4, 9):
            shown, after = [], ""
            while after is not None:
                page = view.page(after, limit)
                assert len(page.offsets) == min(limit, len(expected) - len(shown))
                shown += page.offsets
                after = page.next
            assert shown == expected
    assert OffsetView("other", own).page("", 5) == OffsetPage([], None)


def test_a_page_has_what_was_committed_since_the_one_before():
    table = _table("nothing", 2)
    view = OffsetView("c", table)
    assert view.page("", 9).offsets == [(_B, {"n": 2})]
    apply(table, b'["c",{"t":"a"}]', b'{"n":1}', mark=OffsetMark(9))
    apply(table, b'["c",{"t":"b"}]', None, mark=OffsetMark(9))
    assert view.page("", 9) == OffsetPage([(_A, {"n": 1})], None)


def test_a_malformed_offset_affects_only_its_own_page():
    table = _table(1, 1)
    apply(table, b'["c",{"t":"b"}]', b"[]", mark=OffsetMark(9))
    view = OffsetView("c", table)
    page = view.page("", 1)
    assert page.offsets == [(_A, {"n": 1})]
    with pytest.raises(DataError, match="is not a source offset"):
        view.page(page.next or "", 1)


def test_a_reset_includes_offsets_hidden_by_a_removal_in_the_own_topic():
    """Once compaction drops the tombstone, the offset that it hid would be valid again."""
    view = OffsetView("c", _table("removed", "removed", 2), _table(1, "removed", 1))
    assert sorted(view.partitions(), key=str) == [_A, _C]


def test_partitions_are_equal_with_any_order_of_their_names():
    own, shared = OffsetTable(), OffsetTable()
    apply(own, b'["c",{"a":1,"b":2}]', b'{"n":2}', 2)
    apply(shared, b'["c",{"b":2,"a":1}]', b'{"n":1}', 1)
    view = OffsetView("c", own, shared)
    assert view.offsets() == [({"a": 1, "b": 2}, {"n": 2})]
    assert view.offset({"b": 2, "a": 1}) == {"n": 2}


def test_connectors_do_not_see_each_others_offsets_in_either_topic():
    view = OffsetView("c", _table(2, connector="d"), _table(1, connector="d"))
    assert view.offset(_A) is None
    assert view.offsets() == []


@given(st.lists(_SAYS, min_size=3, max_size=3), st.lists(_SAYS, min_size=3, max_size=3))
def test_each_partition_is_looked_up_separately(own: list[Any], shared: list[Any]):
    view = OffsetView("c", _table(*own), _table(*shared))
    expected = [_offset(below if above == "nothing" else above) for above, below in zip(own, shared, strict=True)]
    assert [view.offset(partition) for partition in _PARTITIONS] == expected
    listed = {partition["t"]: offset for partition, offset in view.offsets()}
    assert listed == {p["t"]: offset for p, offset in zip(_PARTITIONS, expected, strict=True) if offset is not None}


@given(st.lists(_SAYS, min_size=3, max_size=3), st.lists(_SAYS, min_size=3, max_size=3))
def test_a_missing_copy_of_an_offset_is_written_to_the_workers_topic(own: list[Any], shared: list[Any]):
    tables = _table(*own, time=2), _table(*shared, time=1)
    merged, copied = OffsetView("c", *tables), tables[1]
    expected = [merged.offset(partition) for partition in _PARTITIONS]
    for uncopied in merged.uncopied(_PARTITIONS, tables[1], _OWN):
        value = None if uncopied.offset is None else json.dumps(uncopied.offset).encode()
        apply(copied, json.dumps(["c", uncopied.partition]).encode(), value, mark=OffsetMark(uncopied.time, _OWN))
    alone = OffsetView("c", copied)
    assert [alone.offset(partition) for partition in _PARTITIONS] == expected
    assert OffsetView("c", *tables).uncopied(_PARTITIONS, copied, _OWN) == []


def test_an_offset_of_the_workers_topic_is_copied_to_say_where_the_next_will_be():
    shared = _table(1, time=3)
    assert OffsetView("c", OffsetTable(), shared).uncopied([_A], shared, _OWN) == [CommittedOffset(_A, {"n": 1}, 3)]
    copied = _table(1, time=3, origin=_OWN)
    assert OffsetView("c", OffsetTable(), copied).uncopied([_A], copied, _OWN) == []
    assert OffsetView("c", OffsetTable(), copied).origins() == {_OWN}


def test_only_the_newest_record_names_the_topic_of_commits():
    shared = _table(1, 1, time=3, origin=_OWN)
    apply(shared, b'["c",{"t":"a"}]', b'{"n":2}', mark=OffsetMark(4))
    apply(shared, b'["c",{"t":"b"}]', b'{"n":2}', mark=OffsetMark(4))
    assert OffsetView("c", shared).origins() == set()


def test_a_malformed_offset_that_is_superseded_is_harmless():
    shared = OffsetTable()
    apply(shared, b'["c",{"t":"a"}]', b"garbage", 1)
    view = OffsetView("c", _table(1, time=2), shared)
    assert view.offset(_A) == {"n": 1}
    assert view.uncopied([_A], shared, _OWN) == [CommittedOffset(_A, {"n": 1}, 2)]
    with pytest.raises(DataError, match="garbage"):
        OffsetView("c", _table("nothing"), shared).offset(_A)
