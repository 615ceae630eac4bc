"""Source partitions and offsets of JdbcSource.

Offsets of the modes incrementing and timestamp have the same form as in the well-known JDBC source connector, so
that one connector can replace the other and continue:

    {"protocol": "1", "table": "schema.table"}   {"incrementing": 17, "timestamp": 1700000000123,
                                                  "timestamp_nanos": 123456000}
    {"query": "query"}                           the same

`incrementing` is a text if the id has a fraction or more than 64 bits: "17.250". `timestamp` is in milliseconds since
1970; `timestamp_nanos` is the fraction of its second in nanoseconds. The mode snapshot has the same partitions; its
offset contains a Snapshot and identifies the server. The mode bulk stores the time of its last read.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from fencepost.api.errors import DataError
from fencepost.connectors.jdbc.tables import TableId
from fencepost.connectors.postgres.server.lsn import lsn_text, parse_lsn
from fencepost.connectors.postgres.server.pg_snapshot import Snapshot

Offset = Mapping[str, Any]

_TABLE: Final = "table"
_PROTOCOL: Final = "protocol"
QUERY_PARTITION: Final = {"query": "query"}

_INCREMENTING: Final = "incrementing"
_TIMESTAMP: Final = "timestamp"
_NANOS: Final = "timestamp_nanos"
_SNAPSHOT: Final = "snapshot"
_COLUMN: Final = "transaction_column"
_SYSTEM: Final = "system_identifier"
_TIMELINE: Final = "timeline"
_LSN: Final = "lsn"
_RELATIONS: Final = "relations"
_BULK: Final = "bulk"

_NUMBER: Final = re.compile(r"-?\d+(\.\d+)?")
_INT64: Final = (-(1 << 63), (1 << 63) - 1)

_REMEDY: Final = "Correct it, or delete the connector's offsets to read from the start"


def table_partition(table: TableId) -> dict[str, str]:
    """Return the source partition of a table."""
    return named_partition(str(table))


def named_partition(name: str) -> dict[str, str]:
    """Return the source partition of a table, given the table's name with its schema."""
    return {_PROTOCOL: "1", _TABLE: name}


def table_partitions(table: TableId, database: str) -> list[dict[str, str]]:
    """Return the source partitions that a connector may have used for a table, the current one first."""
    return [
        table_partition(table),
        # Old versions wrote this partition, if the driver reported the name of the database.
        {_PROTOCOL: "1", _TABLE: f"{database}.{table}"},
        {_TABLE: table.name},
    ]


def is_partition(partition: Mapping[str, Any]) -> bool:
    """Return whether a partition is a source partition of JdbcSource."""
    return dict(partition) == QUERY_PARTITION or {_TABLE} <= set(partition) <= {_TABLE, _PROTOCOL, _BULK}


def bulk_partition(partition: Mapping[str, str]) -> dict[str, str]:
    """Return the source partition for bulk reads.

    The other modes use another source partition. So a connector that is changed to mode=bulk, and later back,
    continues from the offset of the earlier mode.
    """
    return {**partition, _BULK: "true"}


@dataclass(frozen=True, slots=True)
class ColumnOffset:
    """The last id and timestamp that were read.

    `timestamp` is in microseconds since 1970. Values that are not used are None.
    """

    incrementing: Decimal | None = None
    timestamp: int | None = None

    @classmethod
    def of(cls, offset: Offset) -> ColumnOffset:
        """Parse a committed offset. Raises DataError."""
        incrementing, millis, nanos = (offset.get(name) for name in (_INCREMENTING, _TIMESTAMP, _NANOS))
        last_id = None if incrementing is None else _number(incrementing)
        if (last_id is None) != (incrementing is None) or any(
            value is not None and (isinstance(value, bool) or not isinstance(value, int)) for value in (millis, nanos)
        ):
            raise DataError(
                f"The offset {dict(offset)} has a value that is not a number as the connector writes it. {_REMEDY}"
            )
        if (incrementing is None and millis is None) or set(offset) - {_INCREMENTING, _TIMESTAMP, _NANOS}:
            raise DataError(
                f"The offset {dict(offset)} is not one of the modes incrementing and timestamp: set the former mode, or "
                "delete the connector's offsets to read from the start"
            )
        if millis is None:
            return cls(last_id)
        fraction = (millis % 1000) * 1000 if nanos is None else nanos // 1000
        return cls(last_id, millis // 1000 * 1_000_000 + fraction)

    def as_offset(self) -> dict[str, int | str]:
        """Return the offset to commit."""
        found: dict[str, int | str] = {}
        if self.incrementing is not None:
            last_id = whole_if_small(self.incrementing)
            found[_INCREMENTING] = last_id if isinstance(last_id, int) else format(last_id, "f")
        if self.timestamp is not None:
            found[_TIMESTAMP] = self.timestamp // 1000
            found[_NANOS] = self.timestamp % 1_000_000 * 1000
        return found


def whole_if_small(number: Decimal) -> int | Decimal:
    """Return a number as an int if it is whole and has at most 64 bits, else unchanged."""
    return int(number) if _INT64[0] <= number <= _INT64[1] and number == int(number) else number


def _number(value: Any) -> Decimal | None:
    """Return a number that an offset stores as an int or a text; None for any other value."""
    if isinstance(value, int) and not isinstance(value, bool):
        return Decimal(value)
    return Decimal(value) if isinstance(value, str) and _NUMBER.fullmatch(value) else None


@dataclass(frozen=True, slots=True)
class SnapshotOffset:
    """The delivered part of a table: the rows of the transactions in `snapshot`.

    `column` is the column that contains the transaction of each row; None stands for PostgreSQL's own column xmin.
    `system` is the system identifier of the server's data, and `timeline` is its timeline, which changes at a failover.
    The server's WAL is flushed up to the position `lsn`, and all commits of transactions in the snapshot are before
    this position. `relations` are the numbers (oid) of the tables that were read, see `relations`; None in offsets of
    old versions.
    """

    snapshot: Snapshot
    column: str | None
    system: str
    timeline: int
    lsn: int
    relations: tuple[int, ...] | None = None

    @classmethod
    def of(cls, offset: Offset) -> SnapshotOffset:
        """Parse a committed offset. Raises DataError."""
        if _SNAPSHOT not in offset:
            raise DataError(
                f"The offset {dict(offset)} is not one of the mode snapshot, and does not tell which rows were read: set "
                "the former mode, or delete the connector's offsets to read from the start"
            )
        try:
            column, relations = offset.get(_COLUMN), offset.get(_RELATIONS)
            return cls(
                Snapshot.parse(str(offset[_SNAPSHOT])),
                None if column is None else str(column),
                str(offset[_SYSTEM]),
                int(offset[_TIMELINE]),
                parse_lsn(str(offset[_LSN])),
                None if relations is None else tuple(int(oid) for oid in str(relations).split(",") if oid),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise DataError(f"The offset {dict(offset)} is not valid: {error!r}. {_REMEDY}") from None

    def as_offset(self) -> dict[str, Any]:
        """Return the offset to commit."""
        offset: dict[str, Any] = {
            _SNAPSHOT: str(self.snapshot),
            _COLUMN: self.column,
            _SYSTEM: self.system,
            _TIMELINE: self.timeline,
            _LSN: lsn_text(self.lsn),
        }
        # Offsets cannot contain nested values.
        return offset if self.relations is None else offset | {_RELATIONS: ",".join(map(str, self.relations))}


def bulk_offset(milliseconds: int) -> dict[str, int]:
    """Return the offset of a bulk read that began at this time, in milliseconds since 1970."""
    return {_BULK: milliseconds}


def bulk_time(offset: Offset | None) -> int | None:
    """Return the start of the last bulk read in milliseconds since 1970, None if there was none. Raises DataError."""
    if offset is None:
        return None
    if not isinstance(offset.get(_BULK), int):
        raise DataError(f"The offset {dict(offset)} is not one of the mode bulk. {_REMEDY}")
    return int(offset[_BULK])


def first_found(offsets: Sequence[Offset | None]) -> tuple[int, Offset | None]:
    """Return the first offset that exists, with its partition's index; if there is no offset, index 0."""
    return next(((i, offset) for i, offset in enumerate(offsets) if offset is not None), (0, None))
