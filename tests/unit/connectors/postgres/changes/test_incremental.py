"""The progress of incremental snapshots, stored in source offsets."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.api.errors import DataError
from fencepost.connectors.postgres.changes.incremental import SnapshotProgress, TableRead
from fencepost.connectors.postgres.changes.position import Position, SourceState

ORDERS, LINES = TableRead("public.orders", "s-1"), TableRead("public.lines", "s-1", "id > 5")
STATE = SourceState("slot", "7", 1, Position(100))


def texts(size: int) -> st.SearchStrategy[tuple[str, ...]]:
    return st.tuples(*[st.text(max_size=5)] * size)


@st.composite
def progresses(draw: st.DrawFn) -> SnapshotProgress:
    tables = draw(st.lists(st.builds(TableRead, st.text(), st.text(), st.none() | st.text(min_size=1)), min_size=1))
    progress = SnapshotProgress(tuple(tables), paused=draw(st.booleans()))
    width = draw(st.integers(0, 3))
    if not width:
        return progress
    progress = progress.began(draw(texts(width)), draw(texts(width)))
    return progress.advanced(draw(texts(width))) if draw(st.booleans()) else progress


@given(progresses())
def test_an_offset_keeps_the_progress(progress: SnapshotProgress):
    state = replace(STATE, incremental=progress)
    assert SourceState.of(state.offset()) == state


def test_an_offset_without_incremental_snapshots_has_no_field_for_them():
    assert STATE.offset().keys() == {"slot", "system_identifier", "timeline", "lsn"}


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"tables":[["a"]]}', '{"tables":[["a","b",null]],"key":["id"]}', 5])
def test_an_offset_with_another_progress_is_refused(text: Any):
    with pytest.raises(DataError, match=r"incremental_snapshot .* remove it"):
        SourceState.of(STATE.offset() | {"incremental_snapshot": text})


def test_tables_are_read_one_after_the_other_in_the_order_of_their_signals():
    progress = SnapshotProgress().requested([ORDERS]).requested([LINES])
    began = progress.began(("id",), ("9",)).advanced(("4",))
    assert (began.tables, began.last, began.end) == ((ORDERS, LINES), ("4",), ("9",))
    assert began.table_done() == SnapshotProgress((LINES,))
    assert began.table_done().table_done() == SnapshotProgress()


def test_a_signal_can_stop_the_table_that_is_being_read_or_a_later_one():
    progress = SnapshotProgress((ORDERS, LINES)).began(("id",), ("9",)).advanced(("4",))
    assert progress.stopped(lambda table: table == "public.lines") == replace(progress, tables=(ORDERS,))
    assert progress.stopped(lambda table: table == "public.orders") == SnapshotProgress((LINES,))
    assert progress.stopped(lambda _: True) == SnapshotProgress()
    assert progress.stopped(lambda _: False) == progress


def test_a_pause_is_not_active_and_ends_with_the_last_table():
    paused = SnapshotProgress((ORDERS,)).with_pause(paused=True)
    assert not paused.active
    assert paused.with_pause(paused=False).active
    assert paused.stopped(lambda _: True) == SnapshotProgress()
