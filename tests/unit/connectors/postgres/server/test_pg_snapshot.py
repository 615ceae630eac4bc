"""PostgreSQL's snapshots: sets of transactions that have ended."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.connectors.postgres.server.pg_snapshot import NOTHING, Snapshot

_XIDS = range(3, 40)


@st.composite
def growing(draw: st.DrawFn) -> tuple[Snapshot, Snapshot]:
    """Two snapshots of a server, one taken later: transactions that had ended are ended in both."""
    older_xmax, newer_xmax = sorted((draw(st.integers(3, 30)), draw(st.integers(3, 39))))
    running = draw(st.sets(st.sampled_from(range(3, 40))))
    ended = draw(st.sets(st.sampled_from(range(3, 40))))
    older = Snapshot.of(older_xmax, running)
    newer = Snapshot.of(newer_xmax, {xid for xid in running if xid >= older_xmax or xid not in ended})
    return older, newer


@given(growing())
def test_a_snapshot_is_read_back_from_its_text(pair: tuple[Snapshot, Snapshot]) -> None:
    for snapshot in pair:
        assert Snapshot.parse(str(snapshot)) == snapshot


@pytest.mark.parametrize("text", ["", "1", "5:4:", "4:6:7", "4:8:6,5", "0:1:", "a:b:", "4:6:3"])
def test_an_invalid_snapshot_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"snapshot"):
        Snapshot.parse(text)


def test_transactions_before_the_first_running_one_have_ended() -> None:
    snapshot = Snapshot.parse("10:20:14,15")

    assert [xid for xid in range(8, 22) if xid not in snapshot] == [14, 15, 20, 21]
    assert str(snapshot) == "14:20:14,15"
    assert not any(xid in NOTHING for xid in _XIDS)


@given(growing(), st.data())
def test_a_part_of_a_poll_adds_the_transactions_up_to_its_last(
    pair: tuple[Snapshot, Snapshot], data: st.DataObject
) -> None:
    older, newer = pair
    news = [xid for xid in _XIDS if xid in newer and xid not in older]
    if not news:
        return
    last = data.draw(st.sampled_from(news))

    part = older.through(newer, last)

    assert [xid for xid in _XIDS if xid in part] == [
        xid for xid in _XIDS if xid in older or (xid in newer and xid <= last)
    ]
    assert Snapshot.parse(str(part)) == part


@given(growing())
def test_unknown_transactions_are_those_missing_in_the_older_snapshot(
    pair: tuple[Snapshot, Snapshot],
) -> None:
    older, newer = pair

    some, more = older.unknown_in(newer)

    assert {*some, *more} == {xid for xid in range(newer.xmin, newer.xmax) if xid not in older}
