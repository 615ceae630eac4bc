"""Decodes blocks of pgoutput messages, protocol version 1, to Arrow columns of text, without a step for each row.

    {Begin, {Relation | Type | Insert | Update | Delete | Truncate | Message}, Commit | Message}

Version 1 sends whole transactions in commit order, with all values as text. The rows of a table are decoded column by
column, all rows together. The values of a column are in order in the block, so the block itself is used as
the data of an Arrow array in which every second value is a gap; `take` then copies the values.

https://www.postgresql.org/docs/current/protocol-logicalrep-message-formats.html
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fencepost.connectors.postgres.changes.position import Position
from fencepost.connectors.postgres.changes.stream.messages import Message, parse_message
from fencepost.connectors.postgres.changes.stream.relation import Relation, TypeName, parse_relation, parse_type
from fencepost.connectors.postgres.changes.stream.replication_frames import (
    KEEPALIVE,
    MESSAGE,
    PAYLOAD,
    XLOG_DATA,
    Positions,
)

EPOCH_US: Final = 946_684_800_000_000
"""PostgreSQL's epoch, 2000-01-01, in microseconds since 1970."""

INSERT, UPDATE, DELETE, TRUNCATE = b"IUDT"
_BEGIN, _COMMIT, _RELATION, _TYPE, _MESSAGE = b"BCRYM"
_NEW: Final = ord("N")
# The length of a change's header: the tag of the change, and the number of its relation.
_HEADER: Final = 5
_VALUE, _UNCHANGED = b"tu"

Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class TextColumn:
    """A column's values as PostgreSQL's texts.

    `unchanged` marks TOASTed values that are missing because they did not change.
    """

    values: pa.Array
    unchanged: Array | None = None


@dataclass(frozen=True, slots=True)
class Rows:
    """Some rows of a table. `index` has, for each change, the index of its row, or -1 for a change without a row."""

    columns: Sequence[TextColumn]
    index: Array
    count: int


@dataclass(frozen=True, slots=True)
class Changes:
    """Consecutive changes of one table, in order. The arrays have one item for each change.

    `operation` is INSERT, UPDATE, DELETE or TRUNCATE. `number` is the number of a change in its transaction, from 0,
    across all tables. `new` are the rows after the changes; `old` are the previous keys or rows, as far as the replica
    identity includes them.
    """

    relation: Relation
    operation: Array
    lsn: Array
    number: Array
    commit_lsn: Array
    commit_us: Array
    xid: Array
    new: Rows
    old: Rows

    def __len__(self) -> int:
        return len(self.operation)


@dataclass(slots=True)
class Decoded:
    """The content of a block.

    `wal_end` is 0 if there was no keepalive. `reply` means that the server requests a reply.
    """

    changes: list[Changes] = field(default_factory=list)
    messages: list[Message] = field(default_factory=list)
    wal_end: int = 0
    reply: bool = False


@dataclass(frozen=True, slots=True)
class _Transaction:
    commit_lsn: int = 0
    commit_us: int = 0
    xid: int = 0
    changes: int = 0


class Decoder:
    """Decodes one stream, block by block.

    `resume` is the end position of an earlier stream: the changes of its unfinished transaction that were already read
    are skipped. `describe` is called with each new or changed relation, and again with a relation whose primary key may
    have changed.
    """

    def __init__(self, resume: Position, describe: Callable[[Relation], None] = lambda _: None) -> None:
        self._resume = resume
        self._describe = describe
        self._relations: dict[int, Relation] = {}
        self._named: dict[str, int] = {}
        """The last OID of each table name."""
        self._type_names: dict[int, TypeName] = {}
        self._transaction = _Transaction()
        self._in_transaction = False
        self._end = resume.lsn

    @property
    def position(self) -> Position:
        """The position after everything that was decoded."""
        current, resume = self._transaction, self._resume
        if self._in_transaction and current.commit_lsn != resume.commit_lsn:
            return Position(self._end, current.commit_lsn, current.changes) if current.changes else Position(self._end)
        if self._end > resume.commit_lsn:
            return Position(self._end)
        # The transaction that was partly read has not ended: the server may not even have started to send it again.
        read = max(resume.changes, current.changes if self._in_transaction else 0)
        return Position(self._end, resume.commit_lsn, read)

    def decode(self, data: bytearray, starts: Positions) -> Decoded:
        """Decode the messages that start at `starts`."""
        decoded = Decoded()
        if not len(starts):
            return decoded
        block = _Block.of(data, starts)
        if len(block.keepalives):
            decoded.wal_end = int(block.be64[block.keepalives[-1] + PAYLOAD + 1])
            decoded.reply = bool((block.u8[block.keepalives + PAYLOAD + 17] == 1).any())
        if len(block.starts):
            non_transactional = self._non_transactional_messages(block)
            changes = self._numbered(block, non_transactional)
            decoded.messages = [*_messages(block, changes), *(_message(block, int(at)) for at in non_transactional)]
            decoded.changes = [
                part for low, high in self._runs(block) for part in self._tables(block, changes, low, high)
            ]
        if decoded.wal_end and not self._in_transaction:
            # The server has sent all published changes before this LSN. Transactions without such changes are not sent.
            self._end = max(self._end, decoded.wal_end)
        return decoded

    def _non_transactional_messages(self, block: _Block) -> Array:
        """Return which messages of the block are logical messages outside of transactions."""
        found = np.flatnonzero(block.tags == _MESSAGE)
        non_transactional: Array = found[block.u8[block.starts[found] + MESSAGE + 1] == 0]
        return non_transactional

    def _numbered(self, block: _Block, non_transactional: Array) -> _Numbered:
        """Find each change's transaction, and the change's number in it.

        `non_transactional` are the messages outside of transactions.
        """
        tags, starts = block.tags, block.starts
        at = np.flatnonzero(np.isin(tags, (INSERT, UPDATE, DELETE, TRUNCATE, _MESSAGE)))
        if len(non_transactional):
            at = np.setdiff1d(at, non_transactional)
            # A new stream also gets a message that is exactly at its start position, so the position is one further.
            self._end = max(self._end, int(block.be64[starts[non_transactional[-1]] + MESSAGE + 2]) + 1)
        begins = np.flatnonzero(tags == _BEGIN)
        where = starts[begins] + MESSAGE + 1
        former = self._transaction
        commit_lsn = np.concatenate(([former.commit_lsn], block.be64[where].astype(np.int64)))
        commit_us = np.concatenate(([former.commit_us], block.be64[where + 8].astype(np.int64) + EPOCH_US))
        xid = np.concatenate(([former.xid], block.be32[where + 16].astype(np.int64)))
        of = np.searchsorted(begins, at)
        first = np.concatenate(([-former.changes], np.searchsorted(at, begins)))
        number = np.arange(len(at)) - first[of]
        self._transaction = _Transaction(
            int(commit_lsn[-1]), int(commit_us[-1]), int(xid[-1]), len(at) - int(first[-1])
        )
        commits = np.flatnonzero(tags == _COMMIT)
        last_begin, last_commit = begins[-1:], commits[-1:]
        if len(last_commit):
            self._end = max(self._end, int(block.be64[starts[last_commit[0]] + MESSAGE + 10]))
        if len(last_begin) or len(last_commit):
            self._in_transaction = len(last_begin) > 0 and (not len(last_commit) or last_begin[0] > last_commit[0])
        known = (commit_lsn[of] == self._resume.commit_lsn) & (number < self._resume.changes)
        if known.any():
            at, of, number = at[~known], of[~known], number[~known]
        return _Numbered(at, number, commit_lsn[of], commit_us[of], xid[of])

    def _runs(self, block: _Block) -> Iterator[tuple[int, int]]:
        """Yield ranges of messages that can be decoded together, and process the relation messages between them.

        A new range begins where a relation was altered, or where a table's name was taken by another table.
        """
        low = 0
        for at in np.flatnonzero(np.isin(block.tags, (_RELATION, _TYPE))).tolist():
            if block.tags[at] == _TYPE:
                # Messages of type Y before a relation describe its types in their state at this place in the log.
                oid, name = parse_type(block.message(at))
                self._type_names[oid] = name
                continue
            relation = parse_relation(block.message(at), self._type_names)
            former = self._relations.get(relation.oid)
            if former == relation:
                if relation.primary_key_counts:
                    # The server describes a table again after each command that altered the table.
                    self._describe(relation)
                continue
            # The rows of a run are grouped by OID, but two tables with the same name in one run would share a topic.
            if former is not None or self._named.get(relation.name, relation.oid) != relation.oid:
                yield low, at
                low = at
            self._describe(relation)
            self._relations[relation.oid] = relation
            self._named[relation.name] = relation.oid
        yield low, len(block.starts)

    def _tables(self, block: _Block, changes: _Numbered, low: int, high: int) -> Iterator[Changes]:
        in_run = (changes.at >= low) & (changes.at < high)
        part = changes.part(np.flatnonzero(in_run & (block.tags[changes.at] != _MESSAGE)))
        if not len(part.at):
            return
        tags = block.tags[part.at]
        truncates = np.flatnonzero(tags == TRUNCATE)
        # A TRUNCATE, possibly of several tables, separates the changes before it from the changes after it.
        for begin, end in _between(truncates, len(part.at)):
            if begin < end:
                yield from self._rows(block, part.part(np.arange(begin, end)))
            if end < len(part.at):
                yield from self._truncates(block, part.part(np.arange(end, end + 1)))

    def _rows(self, block: _Block, part: _Numbered) -> Iterator[Changes]:
        oids = block.be32[block.starts[part.at] + MESSAGE + 1]
        for oid in np.unique(oids).tolist():
            mine = part if len(part.at) and (oids == oid).all() else part.part(np.flatnonzero(oids == oid))
            starts, operation = block.starts[mine.at], block.tags[mine.at]
            relation = self._relations[oid]
            # A marker of the row's kind (K, O or N) and the number of columns precede the columns.
            marker = starts + MESSAGE + _HEADER
            has_old = block.u8[marker] != _NEW
            old, ends = block.rows(np.where(has_old, marker + 3, -1), relation)
            after = np.where(has_old, ends + 3, marker + 3)
            new, _ = block.rows(np.where(operation == DELETE, -1, after), relation)
            yield mine.changes(block, relation, new, old)

    def _truncates(self, block: _Block, part: _Numbered) -> Iterator[Changes]:
        message = block.message(int(part.at[0]))
        (count,) = struct.unpack_from(">I", message, 1)
        for oid in struct.unpack_from(f">{count}I", message, 6):
            relation = self._relations[oid]
            none, _ = block.rows(np.array([-1]), relation)
            yield part.changes(block, relation, none, none)


@dataclass(frozen=True, slots=True)
class _Numbered:
    """The changes of a block.

    `at` has the indexes of the changes among the block's messages; the other fields are the same as in Changes.
    """

    at: Array
    number: Array
    commit_lsn: Array
    commit_us: Array
    xid: Array

    def part(self, rows: Array) -> _Numbered:
        return _Numbered(self.at[rows], self.number[rows], self.commit_lsn[rows], self.commit_us[rows], self.xid[rows])

    def changes(self, block: _Block, relation: Relation, new: Rows, old: Rows) -> Changes:
        lsn = block.be64[block.starts[self.at] + PAYLOAD + 1].astype(np.int64)
        return Changes(
            relation, block.tags[self.at], lsn, self.number, self.commit_lsn, self.commit_us, self.xid, new, old
        )


@dataclass(frozen=True, slots=True)
class _Block:
    """A block, viewed as bytes and as big-endian numbers at any position.

    `starts` and `tags` are the positions and pgoutput types of its XLogData messages. `keepalives` are the positions of
    its keepalives.
    """

    data: bytearray
    u8: Array
    be32: Array
    be64: Array
    starts: Positions
    tags: Array
    keepalives: Positions

    @classmethod
    def of(cls, data: bytearray, starts: Positions) -> _Block:
        u8 = np.frombuffer(data, np.uint8)
        live = u8[starts + PAYLOAD] == XLOG_DATA
        keepalives = starts[u8[starts + PAYLOAD] == KEEPALIVE]
        return cls(
            data,
            u8,
            np.ndarray((len(data) - 3,), ">u4", data, 0, (1,)),
            np.ndarray((len(data) - 7,), ">u8", data, 0, (1,)),
            starts[live],
            u8[starts[live] + MESSAGE],
            keepalives,
        )

    def message(self, number: int) -> bytes:
        start = int(self.starts[number])
        return bytes(self.data[start + MESSAGE : start + 1 + int(self.be32[start + 1])])

    def rows(self, columns_at: Array, relation: Relation) -> tuple[Rows, Array]:
        """Decode the rows whose columns start at `columns_at`, -1 for no row. Also return where each row ends."""
        present = columns_at >= 0
        index = np.where(present, np.cumsum(present) - 1, -1)
        position = columns_at[present]
        columns = []
        for _ in relation.columns:
            column, position = self._column(position)
            columns.append(column)
        ends = np.full(len(columns_at), -1)
        ends[present] = position
        return Rows(columns, index, int(present.sum())), ends

    def _column(self, position: Array) -> tuple[TextColumn, Array]:
        """Decode one column of the rows. Also return where the next column of each row starts."""
        count = len(position)
        if not count:
            return TextColumn(pa.nulls(0, pa.string())), position
        kinds = self.u8[position]
        sent = kinds == _VALUE
        starts = position + 1 + 4 * sent
        ends = starts + self.be32[position + 1] * sent
        offsets = np.empty(2 * count + 1, np.int32)
        offsets[0:-1:2], offsets[1::2], offsets[-1] = starts, ends, ends[-1]
        gaps = pa.Array.from_buffers(pa.string(), 2 * count, [None, pa.py_buffer(offsets), pa.py_buffer(self.data)])
        even = np.arange(0, 2 * count, 2, dtype=np.int32)
        values = gaps.take(pa.array(even) if sent.all() else pa.array(even, mask=~sent))
        unchanged = kinds == _UNCHANGED
        return TextColumn(values, unchanged if unchanged.any() else None), ends


def _messages(block: _Block, changes: _Numbered) -> Iterator[Message]:
    for row in np.flatnonzero(block.tags[changes.at] == _MESSAGE).tolist():
        numbers = (changes.number[row], changes.commit_lsn[row], changes.commit_us[row], changes.xid[row])
        yield _message(block, int(changes.at[row]), *map(int, numbers))


def _message(block: _Block, at: int, *place: int) -> Message:
    """Return a logical message. `place` is its place in the transaction: `number` and the fields after it."""
    data = block.message(at)
    (lsn,) = struct.unpack_from(">Q", data, 2)
    return Message(*parse_message(data), lsn, *place)


def _between(cuts: Array, count: int) -> Iterator[tuple[int, int]]:
    low = 0
    for cut in cuts.tolist():
        yield low, cut
        low = cut + 1
    yield low, count
