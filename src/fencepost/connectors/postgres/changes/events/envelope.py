"""Change events: keys and values of Kafka records in Debezium's form, built column by column.

A value has the fields `before`, `after`, `source`, `op`, `ts_ms` and `transaction`; `op` is c (create), u (update), d
(delete), r (read by a snapshot) or t (truncate). A delete is followed by a tombstone. An update that changes the key
becomes a delete of the old key and a create of the new key, so that each key's last record shows its state. Each of
these two events has the other event's key in a header.

https://debezium.io/documentation/reference/stable/connectors/postgresql.html#postgresql-events
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from fencepost.api.errors import DataError
from fencepost.api.schema_name import named_field
from fencepost.api.spark_names import backticked
from fencepost.connectors.postgres.changes.stream.decoder import (
    DELETE,
    INSERT,
    TRUNCATE,
    UPDATE,
    Changes,
    Rows,
    TextColumn,
)
from fencepost.connectors.postgres.changes.stream.relation import Relation
from fencepost.connectors.postgres.types.value_types import ValueType, read_column
from fencepost.version import __version__

SOURCE_DDL: Final = (
    "STRUCT<version: STRING NOT NULL, connector: STRING NOT NULL, name: STRING NOT NULL, ts_ms: BIGINT NOT NULL, "
    "snapshot: STRING, db: STRING NOT NULL, sequence: STRING, ts_us: BIGINT, ts_ns: BIGINT, schema: STRING NOT NULL, "
    "table: STRING NOT NULL, txId: BIGINT, lsn: BIGINT, xmin: BIGINT>"
)
TRANSACTION_DDL: Final = (
    "STRUCT<id: STRING NOT NULL, total_order: BIGINT NOT NULL, data_collection_order: BIGINT NOT NULL>"
)
_TRANSACTION: Final = pa.struct(
    [("id", pa.string()), ("total_order", pa.int64()), ("data_collection_order", pa.int64())]
)
_OPERATIONS: Final = {INSERT: "c", UPDATE: "u", DELETE: "d", TRUNCATE: "t"}
# The events that a change can become. The index in this list is the code of an event.
_CREATE, _UPDATE, _DELETE, _TOMBSTONE, _TRUNCATE = range(5)
_LETTERS: Final = pa.array(["c", "u", "d", "d", "t"])
_OLD_KEY: Final = "__debezium.oldkey"
_NEW_KEY: Final = "__debezium.newkey"

KEY_REMEDY: Final = (
    "With REPLICA IDENTITY FULL the log does not have former primary keys: name the columns of the key with "
    "message.key.columns, until the changes before the alteration are read"
)

Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class EnvelopeSettings:
    """The settings that all events of a connector share. `skipped` are letters of operations that produce no events."""

    prefix: str
    database: str
    tombstones: bool = True
    skipped: Collection[str] = ()
    placeholder: str = "__debezium_unavailable_value"


@dataclass(frozen=True, slots=True)
class TableColumn:
    """A column of events.

    `position` is the column's index in the relation. `nullable_key` says that the column may be null in keys, as in a
    configured key. `key_type` is the type that represents values in keys, None if it is the same as in rows.
    """

    name: str
    position: int
    type: ValueType
    key: bool
    nullable_key: bool = False
    key_type: ValueType | None = None

    def ddl(self) -> str:
        """Return the column's field in a row's schema, as DDL. A comment has Debezium's schema name for the type."""
        return _field(self.name, self.type, nullable=True)

    def key_ddl(self) -> str:
        """Return the column's field in a key's schema, as DDL."""
        return _field(self.name, self.key_type or self.type, nullable=self.nullable_key)


@dataclass(frozen=True, slots=True)
class TableEvents:
    """Makes events from the changes of one table."""

    settings: EnvelopeSettings
    relation: Relation
    columns: Sequence[TableColumn]
    topic: str = field(default="")

    @property
    def _keys(self) -> list[TableColumn]:
        return [column for column in self.columns if column.key]

    @property
    def key_names(self) -> tuple[str, ...]:
        """The columns of the key."""
        return tuple(column.name for column in self._keys)

    @property
    def schema(self) -> str:
        """The DDL of the columns `key` (if the table has a key) and `value`."""
        row = ", ".join(column.ddl() for column in self.columns)
        value = (
            f"STRUCT<before: STRUCT<{row}>, after: STRUCT<{row}>, source: {SOURCE_DDL} NOT NULL, op: STRING NOT NULL, "
            f"ts_ms: BIGINT, transaction: {TRANSACTION_DDL}>"
        )
        topic = "topic STRING, "
        return f"{topic}key {self.key_ddl}, value {value}" if self._keys else f"{topic}value {value}"

    @property
    def key_ddl(self) -> str:
        """The DDL of the key type."""
        return f"STRUCT<{', '.join(column.key_ddl() for column in self._keys)}>"

    def draft(self, changes: Changes) -> Draft | None:
        """Return a draft of the events, None if there are no events.

        Raises DataError for values that cannot be represented.
        """
        new, old = self._read(changes.new, changes), self._read(changes.old, None)
        rows, codes = self._events(changes)
        return Draft(self, changes, new, old, rows, codes) if len(rows) else None

    def drafted(self, draft: Draft, now_ms: int, transaction: pa.Array | None) -> pa.RecordBatch:
        """Return the events of a draft as the columns `topic`, `key`, `value` and, if a key was updated, `headers`."""
        changes, rows, codes = draft.changes, draft.rows, draft.codes
        after = np.where(codes <= _UPDATE, changes.new.index[rows], -1)
        before = np.where((codes == _UPDATE) | (codes == _DELETE), changes.old.index[rows], -1)
        value = _value(
            self._struct(draft.old, before), self._struct(draft.new, after), self._source(changes, rows),
            _LETTERS.take(pa.array(codes)), now_ms, codes == _TOMBSTONE, transaction,
        )  # fmt: skip
        events = self._batch(value, self._key(changes, draft.new, draft.old, rows, codes))
        return events.append_column("headers", self._headers(draft)) if draft.moved.any() else events

    def snapshot(self, texts: Sequence[pa.Array], lsn: int, now_ms: int, kind: str = "true") -> pa.RecordBatch:
        """Return events for rows that a snapshot has read. The rows are given as columns of texts.

        `kind` is the value of `source.snapshot`: true, or incremental.
        """
        count = len(texts[0]) if texts else 0
        read = [
            self._column(column, TextColumn(text), column.type)
            for column, text in zip(self.columns, texts, strict=True)
        ]
        after = pa.StructArray.from_arrays(read, [column.name for column in self.columns])
        source = self._source_struct(
            count, pa.repeat(pa.scalar(now_ms * 1000, pa.int64()), count), kind, pa.nulls(count, pa.string()), _none(count),
            pa.repeat(pa.scalar(lsn, pa.int64()), count),
        )  # fmt: skip
        value = _value(pa.nulls(count, after.type), after, source, pa.repeat("r", count), now_ms, np.zeros(count, bool))
        keys = [
            array if column.key_type is None else self._column(column, TextColumn(text), column.key_type)
            for column, array, text in zip(self.columns, read, texts, strict=True)
            if column.key
        ]
        key = pa.StructArray.from_arrays(keys, [column.name for column in self._keys]) if keys else None
        return self._batch(value, key)

    def _batch(self, value: pa.Array, key: pa.Array | None) -> pa.RecordBatch:
        columns = {"topic": pa.repeat(self.topic, len(value)), "key": key, "value": value}
        return pa.record_batch({name: column for name, column in columns.items() if column is not None})

    def _read(self, rows: Rows, changes: Changes | None) -> list[pa.Array]:
        """Return the columns of rows.

        New rows need `changes`, because unchanged values may exist only in the old row.
        """
        return [
            self._column(column, _completed(rows.columns[column.position], column.position, changes), column.type)
            for column in self.columns
        ]

    def _column(self, column: TableColumn, found: TextColumn, kind: ValueType) -> pa.Array:
        where = f"{self.relation.name}.{column.name}"
        if found.unchanged is None:
            return read_column(kind, found.values, where)
        if kind.marker is None:
            raise DataError(
                f"The server did not send a large value of the column {where} that an update left unchanged, and a "
                f"{kind.ddl} cannot say so. Run ALTER TABLE {self.relation.name} REPLICA IDENTITY FULL "
                "before such updates, or leave the column out with column.exclude.list"
            )
        unchanged = pa.array(found.unchanged)
        values = read_column(kind, pc.if_else(unchanged, pa.scalar(None, found.values.type), found.values), where)
        return pc.if_else(unchanged, pa.scalar(kind.marker(self.settings.placeholder), kind.arrow), values)

    def _events(self, changes: Changes) -> tuple[Array, Array]:
        """Return, for each event, the index of its change and the event's code."""
        operation = changes.operation
        moved = self._moved(changes)
        skipped = without_events(operation, self.settings.skipped)
        # A change makes up to three events: a delete, the tombstone of the delete, and the new row.
        deleted = ((operation == DELETE) | moved) & ~skipped
        with_tombstone = deleted & self.settings.tombstones & bool(self._keys)
        with_event = (operation != DELETE) & ~skipped
        last = np.select([operation == TRUNCATE, (operation == UPDATE) & ~moved], [_TRUNCATE, _UPDATE], _CREATE)
        present = np.stack((deleted, with_tombstone, with_event), axis=1)
        codes = np.stack((np.full(len(operation), _DELETE), np.full(len(operation), _TOMBSTONE), last), axis=1)
        rows = np.repeat(np.arange(len(operation)), present.sum(axis=1))
        return rows, codes[present]

    def _moved(self, changes: Changes) -> Array:
        """Return which changes are updates of a row's key.

        The keys are compared as PostgreSQL's texts, because Arrow cannot compare values of all types.
        """
        moved = np.zeros(len(changes), bool)
        rows = np.flatnonzero((changes.operation == UPDATE) & (changes.old.index >= 0))
        if not len(rows):
            return moved
        for column in self.columns:
            if column.key:
                place = column.position
                now = _completed(changes.new.columns[place], place, changes).values
                after = now.take(pa.array(changes.new.index[rows]))
                before = changes.old.columns[place].values.take(pa.array(changes.old.index[rows]))
                same = pc.coalesce(pc.equal(after, before), pc.and_(after.is_null(), before.is_null()))
                moved[rows] |= ~same.to_numpy(zero_copy_only=False)
        return moved

    def _struct(self, columns: list[pa.Array], index: Array) -> pa.Array:
        """Return rows as structs, null where `index` is negative."""
        missing = index < 0
        names = [column.name for column in self.columns]
        if missing.all():
            return pa.nulls(len(index), pa.struct([(column.name, column.type.arrow) for column in self.columns]))
        if not missing.any():
            if len(index) == len(columns[0]) and (index == np.arange(len(index))).all():
                return pa.StructArray.from_arrays(columns, names)
            return pa.StructArray.from_arrays([column.take(pa.array(index)) for column in columns], names)
        take = pa.array(index, mask=missing)
        return pa.StructArray.from_arrays([column.take(take) for column in columns], names, mask=pa.array(missing))

    def _key(
        self, changes: Changes, new: list[pa.Array], old: list[pa.Array], rows: Array, codes: Array
    ) -> pa.Array | None:
        if not self._keys:
            return None
        from_new = codes <= _UPDATE
        index = np.where(from_new, changes.new.index[rows], changes.old.index[rows] + changes.new.count)
        index = np.where(codes == _TRUNCATE, -1, index)
        both = [
            pa.concat_arrays([now, then] if column.key_type is None else self._key_column(column, changes))
            for column, now, then in zip(self.columns, new, old, strict=True)
            if column.key
        ]
        missing = index < 0
        take = pa.array(index, mask=missing) if missing.any() else pa.array(index)
        mask = pa.array(missing) if missing.any() else None
        parts = [part.take(take) for part in both]
        for column, part in zip(self._keys, parts, strict=True):
            if not column.nullable_key and part.null_count > int(missing.sum()):
                raise DataError(
                    f"A row of {self.relation.name} has no {column.name}, which is a column of its primary key now: the "
                    f"key was altered after that row was written. {KEY_REMEDY}"
                )
        return pa.StructArray.from_arrays(parts, [column.name for column in self._keys], mask=mask)

    def _headers(self, draft: Draft) -> pa.Array:
        """Return the headers of the events.

        An update of a key makes two events, and each of them has the other event's key as a header.
        """
        moved = draft.moved
        created = draft.codes[moved] == _CREATE
        others = np.where(created, _DELETE, _CREATE)
        keys = self._key(draft.changes, draft.new, draft.old, draft.rows[moved], others)
        names = pa.array(np.where(created, _OLD_KEY, _NEW_KEY), pa.string())
        ends = np.concatenate(([0], np.cumsum(moved))).astype(np.int32)
        return pa.ListArray.from_arrays(ends, pa.StructArray.from_arrays([names, keys], ["key", "value"]))

    def _key_column(self, column: TableColumn, changes: Changes) -> list[pa.Array]:
        """Return the new and the old rows' values of a column that has another type in keys than in rows."""
        assert column.key_type is not None  # noqa: S101 - see above
        new, old = (rows.columns[column.position] for rows in (changes.new, changes.old))
        found = (_completed(new, column.position, changes), old)
        return [self._column(column, texts, column.key_type) for texts in found]

    def _source(self, changes: Changes, rows: Array) -> pa.Array:
        commit, number = pa.array(changes.commit_lsn[rows]), pa.array(changes.number[rows])
        sequence = pc.binary_join_element_wise(
            '["', commit.cast(pa.string()), '","', number.cast(pa.string()), '"]', ""
        )
        return self._source_struct(
            len(rows), pa.array(changes.commit_us[rows]), "false", sequence, pa.array(changes.xid[rows]),
            pa.array(changes.lsn[rows]),
        )  # fmt: skip

    def _source_struct(  # noqa: PLR0917 - columns of the same rows
        self, count: int, us: pa.Array, snapshot: str, sequence: pa.Array, xid: pa.Array, lsn: pa.Array
    ) -> pa.Array:
        fields: dict[str, pa.Array] = {
            "version": pa.repeat(__version__, count),
            "connector": pa.repeat("postgresql", count),
            "name": pa.repeat(self.settings.prefix, count),
            "ts_ms": pc.divide(us, 1000),
            "snapshot": pa.repeat(snapshot, count),
            "db": pa.repeat(self.settings.database, count),
            "sequence": sequence,
            "ts_us": us,
            "ts_ns": pc.multiply(us, 1000),
            "schema": pa.repeat(self.relation.schema, count),
            "table": pa.repeat(self.relation.table, count),
            "txId": xid,
            "lsn": lsn,
            "xmin": _none(count),
        }
        return pa.StructArray.from_arrays(list(fields.values()), list(fields))


@dataclass(frozen=True, slots=True)
class Draft:
    """A draft of the events for the changes of one table.

    `new` and `old` are the values of the new and old rows, column by column. For each event, `rows` has the index of
    its change, and `codes` the event's code.
    """

    table: TableEvents
    changes: Changes
    new: list[pa.Array]
    old: list[pa.Array]
    rows: Array
    codes: Array

    @property
    def counted(self) -> Array:
        """Which events are not tombstones."""
        counted: Array = self.codes != _TOMBSTONE
        return counted

    @property
    def moved(self) -> Array:
        """Which events come from updates of a key: each such update makes a delete and a create."""
        moved: Array = (self.changes.operation[self.rows] == UPDATE) & np.isin(self.codes, (_CREATE, _DELETE))
        return moved

    @property
    def schema(self) -> str:
        """The DDL of the events' columns: the table's own columns, and headers if a key was updated."""
        headers = f", headers ARRAY<STRUCT<key: STRING, value: {self.table.key_ddl}>>" if self.moved.any() else ""
        return self.table.schema + headers

    def events(self, now_ms: int, transaction: pa.Array | None = None) -> pa.RecordBatch:
        """Return the events. `transaction` contains each event's place in its transaction."""
        return self.table.drafted(self, now_ms, transaction)


def without_events(operation: Array, skipped: Collection[str]) -> Array:
    """Return which operations have a letter in `skipped`."""
    found: Array = np.isin(operation, [code for code, letter in _OPERATIONS.items() if letter in skipped])
    return found


def _value(  # noqa: PLR0917 - columns of the same rows
    before: pa.Array,
    after: pa.Array,
    source: pa.Array,
    op: pa.Array,
    now_ms: int,
    tombstones: Array,
    transaction: pa.Array | None = None,
) -> pa.Array:
    count = len(op)
    fields = {
        "before": before,
        "after": after,
        "source": source,
        "op": op,
        "ts_ms": pa.repeat(pa.scalar(now_ms, pa.int64()), count),
        "transaction": pa.nulls(count, _TRANSACTION) if transaction is None else transaction,
    }
    mask = pa.array(tombstones) if tombstones.any() else None
    return pa.StructArray.from_arrays(list(fields.values()), list(fields), mask=mask)


def _completed(column: TextColumn, position: int, changes: Changes | None) -> TextColumn:
    """Fill in values that were not sent because they did not change, if the old row contains them."""
    if column.unchanged is None or changes is None or not changes.old.count:
        return column
    old = np.full(changes.new.count, -1)
    with_new = changes.new.index >= 0
    old[changes.new.index[with_new]] = changes.old.index[with_new]
    former = changes.old.columns[position].values.take(pa.array(old, mask=old < 0))
    unchanged = column.unchanged & ~former.is_valid().to_numpy(zero_copy_only=False)
    values = pc.if_else(pa.array(column.unchanged), former, column.values)
    return TextColumn(values, unchanged if unchanged.any() else None)


def _field(name: str, kind: ValueType, *, nullable: bool) -> str:
    comment = "" if kind.semantic is None else f" {named_field(kind.semantic)}"
    return f"{backticked(name)}: {kind.ddl}{'' if nullable else ' NOT NULL'}{comment}"


def _none(count: int) -> pa.Array:
    return pa.nulls(count, pa.int64())
