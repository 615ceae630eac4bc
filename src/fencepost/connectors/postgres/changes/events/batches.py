"""Converts decoded changes to batches for `poll`: one batch for each table in a block."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from fencepost.api.record import SourceBatch, SourceOffset, SourcePartition
from fencepost.connectors.postgres.changes.events.envelope import Draft, TableEvents
from fencepost.connectors.postgres.changes.stream.decoder import Changes
from fencepost.connectors.postgres.changes.stream.relation import Relation

_log: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ReadyRows:
    """An ArrowReader of rows that are already in memory: each split is a RecordBatch of rows."""

    schema: str

    def read(self, split: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Yield the batch."""
        yield split


class TableBatches:
    """Makes drafts of events from the changes of captured tables.

    `find` returns the event maker of a relation, None if the relation has no events.
    """

    def __init__(self, find: Callable[[Relation], TableEvents | None]) -> None:
        self._find = find
        self._tables: dict[Relation, TableEvents | None] = {}
        self._keys: dict[int, tuple[str, ...]] = {}
        """The key columns that each table had last."""

    def learn(self, relation: Relation) -> None:
        """Find the event maker of a relation that the stream has just described. Warn if the table's key has changed.

        If the key is the primary key, it is looked up each time, because the stream does not contain it.
        """
        if relation not in self._tables or relation.primary_key_counts:
            self._tables[relation] = self._find(relation)
        events = self._tables[relation]
        if events is None:
            return
        former, key = self._keys.get(relation.oid), events.key_names
        self._keys[relation.oid] = key
        if former is not None and former != key:
            _log.warning(
                "The key of %s was (%s), and is (%s) from now on: its primary key or replica identity was altered. Records "
                "with former keys stay in the topic %s, and no delete removes them; for a clean one, read the table into "
                "another topic",
                relation.name, ", ".join(former), ", ".join(key), events.topic,
            )  # fmt: skip

    def drafts(self, changes: Iterable[Changes]) -> list[Draft]:
        """Return drafts of the events for these changes."""
        tables = [(self._tables[part.relation], part) for part in changes]
        found = [events.draft(part) for events, part in tables if events is not None]
        return [draft for draft in found if draft is not None]


def batches_of(drafts: Sequence[Draft], now_ms: int, transactions: Sequence[pa.Array | None]) -> list[SourceBatch]:
    """Return a batch of events for each draft, without offsets.

    `transactions` has an item for each draft: the values of the field `transaction` of its events, or None.
    """
    return [
        ready(draft.schema, [draft.events(now_ms, transaction)])
        for draft, transaction in zip(drafts, transactions, strict=True)
    ]


_HEARTBEAT: Final = "topic STRING, key STRUCT<serverName: STRING NOT NULL>, value STRUCT<ts_ms: BIGINT NOT NULL>"


def heartbeat(topic: str, server: str, now_ms: int) -> SourceBatch:
    """Return a batch with a heartbeat record, in Debezium's form, which shows that the connector is alive."""
    row = {"topic": topic, "key": {"serverName": server}, "value": {"ts_ms": now_ms}}
    return ready(_HEARTBEAT, [pa.RecordBatch.from_pylist([row])])


def ready(
    schema: str, rows: Sequence[pa.RecordBatch], offsets: Sequence[tuple[SourcePartition, SourceOffset]] = ()
) -> SourceBatch:
    """Return a batch of rows that are already in memory."""
    return SourceBatch(reader=ReadyRows(schema), splits=rows, offsets=offsets, bytes=0)
