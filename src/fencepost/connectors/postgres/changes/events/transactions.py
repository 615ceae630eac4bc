"""Transaction metadata in Debezium's form: each event's place in its transaction, and the transaction's boundaries.

The events of a block are numbered across all tables of the block. A transaction may continue in the next block, or in
the next Kafka transaction if it is divided. Then its counts so far are a PartialTransaction, which is part of the
source offset.

Only change events count: tombstones, logical messages and events of the snapshot do not count. For a transaction
without change events there are no metadata records.

https://debezium.io/documentation/reference/stable/connectors/postgresql.html#postgresql-transaction-metadata
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from fencepost.api.record import SourceBatch
from fencepost.connectors.postgres.changes.events.batches import ready
from fencepost.connectors.postgres.changes.events.envelope import Draft
from fencepost.connectors.postgres.changes.position import PartialTransaction

_DDL: Final = (
    "topic STRING, key STRUCT<id: STRING NOT NULL>, value STRUCT<status: STRING NOT NULL, id: STRING NOT NULL, "
    "event_count: BIGINT, data_collections: ARRAY<STRUCT<data_collection: STRING NOT NULL, event_count: BIGINT NOT NULL>>, "
    "ts_ms: BIGINT NOT NULL>"
)
_STATUS: Final = pa.array(["BEGIN", "END"])

Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class TransactionMetadata:
    """The transaction metadata of a block.

    `blocks` has, for each draft, the values of the field `transaction` of its events. `boundaries` are the keys and
    values of the BEGIN and END records, None if the block has no boundary. `after` is the transaction that continues in
    the next block.
    """

    blocks: list[pa.Array]
    boundaries: pa.RecordBatch | None
    after: PartialTransaction | None

    def batch(self, topic: str) -> SourceBatch | None:
        """Return the records of BEGIN and END."""
        if self.boundaries is None:
            return None
        columns = [pa.repeat(topic, len(self.boundaries)), *self.boundaries.columns]
        return ready(_DDL, [pa.RecordBatch.from_arrays(columns, names=["topic", "key", "value"])])


@dataclass(frozen=True, slots=True)
class _Events:
    """The events of all drafts. `table` is the index of each event's table in the list of all table names."""

    commit_lsn: Array
    number: Array
    xid: Array
    commit_us: Array
    table: Array


@dataclass(frozen=True, slots=True)
class _Transactions:
    """The transactions of a block in commit order, and how many events each transaction has so far for each table.

    `of`, `table` and `size` are parallel arrays: the index of a transaction, the index of a table, and the number of
    events. They are ordered by transaction and then by table.
    """

    commit_lsn: Array
    xid: Array
    commit_us: Array
    ids: pa.Array
    of: Array
    table: Array
    size: Array


def transaction_metadata(
    drafts: Sequence[Draft], before: PartialTransaction | None, unfinished: int | None
) -> TransactionMetadata:
    """Number the events of a block, and find where the transactions in it begin and end.

    `before` is the transaction that the previous block left open. `unfinished` is the commit LSN of the transaction
    that this block leaves open, None if the block ends between transactions.
    """
    names = sorted({draft.table.relation.name for draft in drafts} | set(before.events if before else ()))
    events = _gathered(drafts, names)
    if before is None and not len(events.number):
        return TransactionMetadata([], None, None)
    found = _transactions(events, before, names)
    return TransactionMetadata(
        _blocks(drafts, _numbered(events, found, before, names)),
        _boundaries(found, names, begun=None if before is None else before.commit_lsn, unfinished=unfinished),
        _left_open(found, names, unfinished),
    )


def _gathered(drafts: Sequence[Draft], names: Sequence[str]) -> _Events:
    places = {name: place for place, name in enumerate(names)}
    rows = [draft.rows[draft.counted] for draft in drafts]

    def joined(attribute: str) -> Array:
        parts = [getattr(draft.changes, attribute)[mine] for draft, mine in zip(drafts, rows, strict=True)]
        return np.concatenate((np.zeros(0, np.int64), *parts))

    tables = [np.full(len(mine), places[draft.table.relation.name]) for draft, mine in zip(drafts, rows, strict=True)]
    return _Events(
        joined("commit_lsn"), joined("number"), joined("xid"), joined("commit_us"),
        np.concatenate((np.zeros(0, np.int64), *tables)),
    )  # fmt: skip


def _transactions(events: _Events, before: PartialTransaction | None, names: Sequence[str]) -> _Transactions:
    lsn, xid, us = events.commit_lsn, events.xid, events.commit_us
    if before is not None:
        lsn = np.concatenate((lsn, [before.commit_lsn]))
        xid, us = np.concatenate((xid, [before.xid])), np.concatenate((us, [before.commit_us]))
    commits, first = np.unique(lsn, return_index=True)
    groups, sizes = np.unique(
        np.searchsorted(commits, events.commit_lsn) * len(names) + events.table, return_counts=True
    )
    if before is not None:
        # The transaction `before` commits before all others.
        groups = np.concatenate((groups, [names.index(name) for name in before.events]))
        groups, place = np.unique(groups, return_inverse=True)
        sizes = np.bincount(place, np.concatenate((sizes, list(before.events.values()))))
    ids = pc.binary_join_element_wise(pa.array(xid[first]).cast(pa.string()), pa.array(commits).cast(pa.string()), ":")
    return _Transactions(
        commits, xid[first], us[first], ids, groups // len(names), groups % len(names), sizes.astype(np.int64)
    )


def _numbered(
    events: _Events, found: _Transactions, before: PartialTransaction | None, names: Sequence[str]
) -> pa.Array:
    """Return the field `transaction` of each event."""
    lsn, number, table = events.commit_lsn, events.number, events.table
    total, own = np.empty(len(lsn), np.int64), np.empty(len(lsn), np.int64)
    # The sort is stable: the delete and the create of one change stay in order, and so do the tables of one TRUNCATE.
    order = np.lexsort((number, lsn))
    total[order] = _ranks(lsn[order])
    order = np.lexsort((number, table, lsn))
    own[order] = _ranks(lsn[order], table[order])
    if before is not None:
        mine = lsn == before.commit_lsn
        total[mine] += sum(before.events.values())
        own[mine] += np.array([before.events.get(name, 0) for name in names])[table[mine]]
    ids = found.ids.take(pa.array(np.searchsorted(found.commit_lsn, lsn)))
    return pa.StructArray.from_arrays(
        [ids, pa.array(total), pa.array(own)], ["id", "total_order", "data_collection_order"]
    )


def _ranks(*keys: Array) -> Array:
    """Return the rank of each item, from 1, among neighbouring items with the same keys."""
    at = np.arange(len(keys[0]))
    first = np.ones(len(at), bool)
    first[1:] = np.any([key[1:] != key[:-1] for key in keys], axis=0)
    ranks: Array = at - np.maximum.accumulate(np.where(first, at, 0)) + 1
    return ranks


def _blocks(drafts: Sequence[Draft], numbered: pa.Array) -> list[pa.Array]:
    blocks, start = [], 0
    for draft in drafts:
        counted = draft.counted
        # A tombstone gets the same item as the delete before it, so that the array has an item for each record. The
        # item is never written, because a tombstone has no value.
        index = start + np.cumsum(counted) - 1
        blocks.append(numbered.take(pa.array(index)))
        start += int(counted.sum())
    return blocks


def _boundaries(
    found: _Transactions, names: Sequence[str], *, begun: int | None, unfinished: int | None
) -> pa.RecordBatch | None:
    """Return the BEGIN records of all transactions except `begun`, and the END records of all except `unfinished`."""
    count = len(found.commit_lsn)
    begins = np.ones(count, bool) if begun is None else found.commit_lsn != begun
    ends = np.ones(count, bool) if unfinished is None else found.commit_lsn != unfinished
    present = np.stack((begins, ends), axis=1)
    rows = np.repeat(np.arange(count), present.sum(axis=1))
    if not len(rows):
        return None
    status = np.stack((np.zeros(count, np.int8), np.ones(count, np.int8)), axis=1)[present]
    begin = pa.array(status == 0)
    total = np.bincount(found.of, found.size, minlength=count).astype(np.int64)
    ids = found.ids.take(pa.array(rows))
    fields = {
        "status": _STATUS.take(pa.array(status)),
        "id": ids,
        "event_count": pa.array(total[rows], mask=status == 0),
        "data_collections": _collections(found, names, ends, np.where(status == 0, 0, rows + 1), begin),
        "ts_ms": pa.array(found.commit_us[rows] // 1000),
    }
    value = pa.StructArray.from_arrays(list(fields.values()), list(fields))
    return pa.RecordBatch.from_arrays([pa.StructArray.from_arrays([ids], ["id"]), value], names=["key", "value"])


def _collections(found: _Transactions, names: Sequence[str], ends: Array, ended: Array, begin: pa.Array) -> pa.Array:
    """Return the field `data_collections` of each record: the number of events per table, null for a BEGIN.

    `ended` is 0 for a BEGIN, and the index of the transaction plus 1 for an END.
    """
    of_ended = ends[found.of]
    tables = pa.array(names, pa.string()).take(pa.array(found.table[of_ended]))
    items = pa.StructArray.from_arrays([tables, pa.array(found.size[of_ended])], ["data_collection", "event_count"])
    lengths = np.concatenate(([0], np.bincount(found.of, minlength=len(ends))))[ended]
    offsets = np.concatenate((np.zeros(1, np.int32), np.cumsum(lengths, dtype=np.int32)))
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), items, mask=begin)


def _left_open(found: _Transactions, names: Sequence[str], unfinished: int | None) -> PartialTransaction | None:
    if unfinished is None or unfinished not in found.commit_lsn:
        return None
    at = int(np.searchsorted(found.commit_lsn, unfinished))
    mine = found.of == at
    return PartialTransaction(
        unfinished, int(found.xid[at]), int(found.commit_us[at]),
        {names[table]: size for table, size in zip(found.table[mine].tolist(), found.size[mine].tolist(), strict=True)},
    )  # fmt: skip
