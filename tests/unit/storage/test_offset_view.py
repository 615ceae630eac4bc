"""A connector's own offsets laid over those in the worker's topic."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.api.errors import DataError
from fencepost.storage.offset_table import OffsetTable
from fencepost.storage.offset_view import OffsetView

_A, _B, _C = {"t": "a"}, {"t": "b"}, {"t": "c"}
_PARTITIONS = [_A, _B, _C]

# What an offsets topic says of a source partition: nothing, that its offset was removed, or its offset.
_SAYS = st.sampled_from(["nothing", "removed", 1, 2])


def _table(*says: Any, connector: str = "c") -> OffsetTable:
    table = OffsetTable()
    for partition, said in zip(_PARTITIONS, says, strict=False):
        if said != "nothing":
            key = json.dumps([connector, partition]).encode()
            table.apply(key, None if said == "removed" else json.dumps({"n": said}).encode(), 1)
    return table


def _offset(said: Any) -> dict[str, Any] | None:
    return None if said in ("nothing", "removed") else {"n": said}


def test_the_own_topic_counts_for_each_partition_that_it_knows():
    view = OffsetView("c", _table(2), _table(1, 1))
    assert [view.offset(partition) for partition in _PARTITIONS] == [{"n": 2}, {"n": 1}, None]
    assert sorted(view.offsets(), key=str) == [(_A, {"n": 2}), (_B, {"n": 1})]


def test_a_removal_in_the_own_topic_hides_what_the_workers_says():
    view = OffsetView("c", _table("removed"), _table(1))
    assert view.offset(_A) is None
    assert view.offsets() == []


def test_f8_a_reset_concerns_what_a_removal_in_the_own_topic_hides_as_well():
    """Once compaction drops the note of the removal, what it hid would be in force again."""
    view = OffsetView("c", _table("removed", "removed", 2), _table(1, "removed", 1))
    assert view.partitions() == [_A, _C]


def test_a_removal_in_the_workers_topic_leaves_the_own_offset():
    assert OffsetView("c", _table(1), _table("removed")).offset(_A) == {"n": 1}


def test_partitions_are_one_whatever_the_order_of_their_names():
    own, shared = OffsetTable(), OffsetTable()
    own.apply(b'["c",{"a":1,"b":2}]', b'{"n":2}', 1)
    shared.apply(b'["c",{"b":2,"a":1}]', b'{"n":1}', 2)
    view = OffsetView("c", own, shared)
    assert view.offsets() == [({"a": 1, "b": 2}, {"n": 2})]
    assert view.offset({"b": 2, "a": 1}) == {"n": 2}


def test_connectors_do_not_see_each_others_offsets_in_either_topic():
    view = OffsetView("c", _table(2, connector="d"), _table(1, connector="d"))
    assert view.offset(_A) is None
    assert view.offsets() == []


@given(st.lists(_SAYS, min_size=3, max_size=3), st.lists(_SAYS, min_size=3, max_size=3))
def test_each_partition_is_looked_up_by_itself(own: list[Any], shared: list[Any]):
    view = OffsetView("c", _table(*own), _table(*shared))
    expected = [_offset(below if above == "nothing" else above) for above, below in zip(own, shared, strict=True)]
    assert [view.offset(partition) for partition in _PARTITIONS] == expected
    listed = {partition["t"]: offset for partition, offset in view.offsets()}
    assert listed == {p["t"]: offset for p, offset in zip(_PARTITIONS, expected, strict=True) if offset is not None}


@given(st.lists(_SAYS, min_size=3, max_size=3), st.lists(_SAYS, min_size=3, max_size=3))
def test_what_is_not_copied_yet_makes_the_workers_topic_tell_the_same(own: list[Any], shared: list[Any]):
    uncopied = OffsetView("c", _table(*own), _table(*shared)).uncopied(_PARTITIONS)
    copied = _table(*shared)
    for partition, offset in uncopied:
        copied.apply(json.dumps(["c", partition]).encode(), json.dumps(offset).encode() if offset else None, 2)
    alone = OffsetView("c", copied)
    merged = OffsetView("c", _table(*own), _table(*shared))
    assert [alone.offset(partition) for partition in _PARTITIONS] == [merged.offset(p) for p in _PARTITIONS]
    assert len(uncopied) == sum(
        above != "nothing" and _offset(above) != _offset(below) for above, below in zip(own, shared, strict=True)
    )


def test_a_malformed_offset_that_is_hidden_does_no_harm():
    shared = OffsetTable()
    shared.apply(b'["c",{"t":"a"}]', b"garbage", 1)
    view = OffsetView("c", _table(1), shared)
    assert view.offset(_A) == {"n": 1}
    assert view.uncopied([_A]) == [(_A, {"n": 1})]
    with pytest.raises(DataError, match="garbage"):
        OffsetView("c", _table("nothing"), shared).offset(_A)
