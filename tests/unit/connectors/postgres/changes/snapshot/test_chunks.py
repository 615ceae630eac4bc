"""A chunk's row is written only if the stream has no other version of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.connectors.postgres.changes.position import Position
from fencepost.connectors.postgres.changes.snapshot.chunks import (
    Chunk,
    KeyChanges,
    ended,
    joined,
    key_changes,
    settle,
    unseen_changes,
)
from fencepost.connectors.postgres.changes.stream.decoder import Decoder
from fencepost.connectors.postgres.changes.stream.relation import Column, Relation, ReplicaIdentity
from fencepost.connectors.postgres.changes.stream.replication_frames import find_frames
from fencepost.connectors.postgres.server.pg_snapshot import Snapshot
from tests.unit.connectors.postgres.changes.messages import (
    ACCOUNTS,
    UNCHANGED,
    begin,
    buffer,
    commit,
    delete,
    insert,
    relation,
    truncate,
    update,
)

KEYS = ("a", "b", "c", "d")
XID = 1000
WIDE = 1 << 32


def chunk(rows: dict[str, Any], snapshot: Snapshot) -> Chunk:
    """A chunk with all the rows of a table."""
    keys = pa.array(sorted(rows), pa.string())
    values = pa.array([str(rows[key]) for key in sorted(rows)], pa.string())
    return Chunk(snapshot, 0, [keys], [keys, values], np.ones(len(rows), bool), complete=True)


def one_change(xid: int, key: str | None, *, partial: bool = False) -> KeyChanges:
    return KeyChanges(np.array([xid % WIDE]), pa.array([key], pa.string()), np.array([partial]))


@st.composite
def histories(draw: st.DrawFn) -> tuple[list[tuple[str, int | None]], list[bool]]:
    """Transactions in commit order, each of which sets or deletes (None) a key, and whether a SELECT saw each.

    Transactions on one key wait for each other, so the SELECT saw the first ones of each key. On different keys, it may
    see later ones and miss earlier ones.
    """
    changes = draw(st.lists(st.tuples(st.sampled_from(KEYS), st.none() | st.integers(0, 9)), max_size=12))
    left = {key: draw(st.integers(0, 12)) for key in KEYS}
    seen = []
    for key, _ in changes:
        seen.append(left[key] > 0)
        left[key] -= 1
    return changes, seen


def applied(changes: Sequence[tuple[str, int | None]]) -> dict[str, int]:
    rows: dict[str, int] = {}
    for key, value in changes:
        rows.pop(key, None)
        if value is not None:
            rows[key] = value
    return rows


@given(histories(), st.integers(0, 5) | st.just(WIDE - XID - 3))
def test_rows_are_written_as_all_changes_before_them_leave_them(
    history: tuple[list[tuple[str, int | None]], list[bool]], first: int
):
    changes, seen = history
    xids = [XID + first + number for number in range(len(changes))]
    unseen = [xid for xid, was in zip(xids, seen, strict=True) if not was]
    snapshot = Snapshot.of(max([xid for xid, was in zip(xids, seen, strict=True) if was], default=xids[0] - 1 if xids else 5) + 1, unseen)  # fmt: skip
    read = chunk(applied([change for change, was in zip(changes, seen, strict=True) if was]), snapshot)
    noted = [one_change(xid, key) for xid, (key, _) in zip(xids, changes, strict=True)]

    settled = settle(read, noted)

    now = applied(changes)
    written = {read.columns[0][row].as_py(): read.columns[1][row].as_py() for row in settled.rows.tolist()}
    assert settled.count == len(read)
    assert written == {key: str(now[key]) for key in written}
    changed = {key for (key, _), was in zip(changes, seen, strict=True) if not was}
    assert written.keys() == set(read.columns[0].to_pylist()) - changed
    # Changes that a later snapshot may not see either are kept.
    kept = [key for part in unseen_changes(snapshot, noted) for key in part.key.to_pylist()]
    assert kept == [key for (key, _), was in zip(changes, seen, strict=True) if not was]


def test_a_row_with_a_change_that_lacks_a_value_is_read_again_with_those_after_it():
    read = chunk({"a": 1, "b": 2, "c": 3}, Snapshot(XID))
    settled = settle(read, [one_change(XID, "b", partial=True), one_change(XID + 1, "a")])
    assert (settled.count, settled.rows.tolist()) == (1, [])
    settled = settle(read, [one_change(XID - 1, "b", partial=True)])
    assert (settled.count, settled.rows.tolist()) == (3, [0, 1, 2])


def test_a_chunk_is_read_again_after_a_change_of_any_row():
    read = chunk({"a": 1, "b": 2}, Snapshot(XID))
    assert settle(read, [one_change(XID, None)]).count == 0
    assert settle(read, [one_change(XID - 1, None)]).count == 2


def test_rows_that_are_not_asked_for_are_not_written():
    read = replace(chunk({"a": 1, "b": 2, "c": 3}, Snapshot(XID)), matches=np.array([True, False, True]))
    settled = settle(read, [])
    assert (settled.count, settled.rows.tolist()) == (3, [0, 2])


@pytest.mark.parametrize("xmax", [100, WIDE - 1, WIDE, WIDE + 2, 5 * WIDE + 7])
def test_transactions_are_known_by_the_lower_half_of_their_numbers(xmax: int):
    snapshot = Snapshot.of(xmax, [xmax - 3])
    whole = np.array([xmax - 90, xmax - 4, xmax - 3, xmax - 2, xmax - 1, xmax, xmax + 1, xmax + 90])
    assert ended(snapshot, whole % WIDE).tolist() == [True, True, False, True, True, False, False, False]


def test_keys_of_several_columns_are_distinguished():
    columns = [pa.array(["a", "a:1", "", "1:a", None]), pa.array(["1:b", "b", "a", "", "x"])]
    found = joined(columns).to_pylist()
    assert found[-1] is None
    assert len(set(found)) == len(found)


def noted(
    of: Relation, *messages: bytes, key: Sequence[str] = ("id",), skipped: str = ""
) -> list[tuple[int, str | None, bool]]:
    data = buffer(begin(100, xid=7), relation(of), *messages, commit(100, 110))
    decoded = Decoder(Position(1)).decode(data, find_frames(data, len(data) - 64)[0])
    found = [key_changes(part, key, ACCOUNTS, ["id", "owner", "note"], skipped) for part in decoded.changes]
    return [
        row
        for part in found
        for row in zip(part.xid.tolist(), part.key.to_pylist(), part.partial.tolist(), strict=True)
    ]


def test_changes_concern_the_keys_before_and_after_them():
    found = noted(
        ACCOUNTS,
        insert(ACCOUNTS, ["1", "ann", None]),
        update(ACCOUNTS, ["3", "bob", None], old=["2", None, None]),
        update(ACCOUNTS, ["4", "bob", UNCHANGED]),
        delete(ACCOUNTS, ["5", None, None]),
        truncate(ACCOUNTS),
    )
    assert sorted(found, key=str) == [
        (7, "1", False), (7, "2", False), (7, "3", False), (7, "4", True), (7, "5", False), (7, None, False),
    ]  # fmt: skip


def test_changes_without_events_leave_their_rows_to_the_next_chunk():
    messages = insert(ACCOUNTS, ["1", "ann", None]), update(ACCOUNTS, ["2", "bob", None]), delete(ACCOUNTS, ["3"] * 3)
    assert noted(ACCOUNTS, *messages, skipped="cu") == [(7, "1", True), (7, "2", True), (7, "3", False)]


def test_a_complete_old_row_has_the_values_that_an_update_lacks():
    whole = replace(ACCOUNTS, identity=ReplicaIdentity.FULL)
    found = noted(whole, update(whole, ["1", "bob", UNCHANGED], old=["1", "ann", "x"], full=True))
    assert found == [(7, "1", False), (7, "1", False)]


@pytest.mark.parametrize("key", [Column("id", 20, -1, identity=True), Column("number", 23, -1, identity=True)])
def test_a_change_concerns_any_row_if_the_key_was_altered(key: Column):
    altered = replace(ACCOUNTS, columns=(key, *ACCOUNTS.columns[1:]))
    assert noted(altered, insert(altered, ["1", "ann", None])) == [(7, None, False)]
