"""Decides which rows of a chunk may be written to Kafka, given the changes that the stream had meanwhile.

A chunk is read by a SELECT, and written at a later place in the stream. For each row, this place must come after all
changes that the SELECT saw, and before all other changes of the row. The first condition holds because the place is
past all commits before the end of the SELECT. For the second condition, PostgreSQL reports which transactions the
SELECT saw (`pg_current_snapshot`), and the stream has the transaction of each change. If the SELECT did not see a
change of a row, the row of the chunk is older than the stream, and is left out. The log may contain a commit for a
while before other sessions see it, so this also applies to changes that came before the SELECT.

    log       commit A ... commit B ........... commit C ..... high
    SELECT                  sees A, not B
    written                                                    without the rows of B and C
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from fencepost.connectors.postgres.changes.events.envelope import without_events
from fencepost.connectors.postgres.changes.incremental import Key
from fencepost.connectors.postgres.changes.stream.decoder import TRUNCATE, UPDATE, Changes
from fencepost.connectors.postgres.changes.stream.relation import Relation, ReplicaIdentity
from fencepost.connectors.postgres.server.pg_snapshot import Snapshot

Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class KeyChanges:
    """The keys of a table's changes, in parallel arrays. An update that changes the key has two items: one per key.

    `xid` has the lower 32 bits of the transaction's number. A null key means that the change may be of any row.
    `partial` is true if the change cannot replace the chunk's row: it has no event, or it lacks a large value, because
    the server does not send large values that are unchanged.
    """

    xid: Array
    key: pa.Array
    partial: Array


@dataclass(frozen=True, slots=True)
class Chunk:
    """Consecutive rows of a table, in the order of their keys.

    `key` and `columns` are columns of texts; `matches` marks the rows to write. `high` is an LSN after all commits that
    `snapshot` contains. `complete` means that there are no further rows up to the greatest key.
    """

    snapshot: Snapshot
    high: int
    key: Sequence[pa.Array]
    columns: Sequence[pa.Array]
    matches: Array
    complete: bool

    def __len__(self) -> int:
        return len(self.matches)

    def key_at(self, row: int) -> Key:
        """Return the key of a row."""
        return tuple(column[row].as_py() for column in self.key)


@dataclass(frozen=True, slots=True)
class Settled:
    """The first `count` rows of a chunk are settled; `rows` are the indexes of the settled rows that are to be written.

    The rows after the first `count` must be read again.
    """

    count: int
    rows: Array


def settle(chunk: Chunk, changes: Sequence[KeyChanges]) -> Settled:
    """Return which rows of a chunk may be written after the stream had `changes`.

    A row is read again if the chunk did not see a change of it and this change is partial: otherwise neither the
    chunk's row nor the change would contain the whole row.
    """
    parts = [(part, ~ended(chunk.snapshot, part.xid)) for part in changes]
    keys = _concatenated([part.key.filter(pa.array(unseen)) for part, unseen in parts])
    if keys.null_count:
        return Settled(0, np.zeros(0, np.int64))
    partial = _concatenated([part.key.filter(pa.array(unseen & part.partial)) for part, unseen in parts])
    own = joined(chunk.key)
    again = np.flatnonzero(_is_in(own, partial))
    count = int(again[0]) if len(again) else len(chunk)
    return Settled(count, np.flatnonzero(chunk.matches[:count] & ~_is_in(own, keys)[:count]))


def unseen_changes(snapshot: Snapshot, changes: Sequence[KeyChanges]) -> list[KeyChanges]:
    """Return the changes that a snapshot did not see. They must be kept: a later snapshot may not see them either."""
    left = []
    for part in changes:
        unseen = np.flatnonzero(~ended(snapshot, part.xid))
        if len(unseen):
            left.append(KeyChanges(part.xid[unseen], part.key.take(pa.array(unseen)), part.partial[unseen]))
    return left


def ended(snapshot: Snapshot, xid: Array) -> Array:
    """Return which transactions had ended when a snapshot was taken. `xid` has the lower 32 bits of their ids.

    The whole ids follow from these bits, because all ids that the server still knows are less than 2^31 apart.
    """
    whole = snapshot.xmax + (xid.astype(np.int64) - snapshot.xmax + (1 << 31)) % (1 << 32) - (1 << 31)
    found: Array = (whole < snapshot.xmax) & ~np.isin(whole, np.array(snapshot.running, np.int64))
    return found


def key_changes(
    changes: Changes, key: Sequence[str], table: Relation, wanted: Sequence[str], skipped: Collection[str]
) -> KeyChanges:
    """Return the keys of changes. `key` are the key columns of `table`; `wanted` are the columns of its events.

    `skipped` are letters of operations that produce no events.

    If the key columns differ from `table`, the keys are null: a change may be of any row.
    """
    relation, count = changes.relation, len(changes)
    places = {column.name: place for place, column in enumerate(relation.columns)}
    if _columns(relation, key) != _columns(table, key):
        return KeyChanges(changes.xid, pa.nulls(count, pa.string()), np.zeros(count, bool))
    parts = []
    for rows in (changes.new, changes.old):
        at = np.flatnonzero(rows.index >= 0)
        found = joined([rows.columns[places[name]].values for name in key])
        parts.append((at, found.take(pa.array(rows.index[at]))))
    emptied = np.flatnonzero(changes.operation == TRUNCATE)
    parts.append((emptied, pa.nulls(len(emptied), pa.string())))
    at = np.concatenate([rows for rows, _ in parts])
    lacking = _lacking(changes, [places[name] for name in wanted if name in places])
    lacking |= without_events(changes.operation, skipped)
    return KeyChanges(changes.xid[at], pa.concat_arrays([keys for _, keys in parts]), lacking[at])


def joined(columns: Sequence[pa.Array]) -> pa.Array:
    """Return one text for the texts of several columns.

    The joined text differs for different keys, and is null if one of the texts is null.
    """
    if len(columns) == 1:
        return columns[0]
    parts = [part for column in columns for part in (pc.binary_length(column).cast(pa.string()), column)]
    return pc.binary_join_element_wise(*parts, ":")


def _columns(relation: Relation, names: Sequence[str]) -> list[tuple[str, int, int]]:
    return sorted((c.name, c.type_oid, c.modifier) for c in relation.columns if c.name in names)


def _lacking(changes: Changes, wanted: Sequence[int]) -> Array:
    lacking = np.zeros(len(changes), bool)
    if changes.relation.identity is ReplicaIdentity.FULL:
        return lacking
    updates = np.flatnonzero((changes.operation == UPDATE) & (changes.new.index >= 0))
    for place in wanted:
        unchanged = changes.new.columns[place].unchanged
        if unchanged is not None:
            lacking[updates] |= unchanged[changes.new.index[updates]]
    return lacking


def _concatenated(parts: Sequence[pa.Array]) -> pa.Array:
    return pa.concat_arrays([pa.nulls(0, pa.string()), *parts])


def _is_in(keys: pa.Array, some: pa.Array) -> Array:
    found: Array = pc.is_in(keys, value_set=some).to_numpy(zero_copy_only=False)
    return found
