"""The modes incrementing, timestamp and timestamp+incrementing: rows after the last id or timestamp read.

A row gets its id and timestamp when it is written, but it becomes visible when its transaction ends. A row is lost if
its transaction ends after a poll has read a row with a higher id or later timestamp. `timestamp.delay.interval.ms`
makes a loss less likely. Only with a single writer is a loss impossible.

All rows of one timestamp are read together, because the next poll requests later timestamps. `query.suffix` may contain
a limit that is unknown here. So with `query.suffix`, the remaining rows with the last timestamp are read by a separate
query.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from decimal import Decimal
from typing import Final

import pyarrow as pa

from fencepost.api.errors import DataError
from fencepost.connectors.jdbc.offsets import ColumnOffset, Offset
from fencepost.connectors.jdbc.postgres.reader import PolledRows, QuerySource, Reader
from fencepost.connectors.jdbc.postgres.row_shape import RowShape
from fencepost.connectors.jdbc.postgres.server import OpenServer
from fencepost.connectors.jdbc.properties import (
    BATCH_ROWS,
    INCREMENTING_COLUMN,
    QUERY_SUFFIX,
    TIMESTAMP_COLUMNS,
    TIMESTAMP_DELAY,
    TIMESTAMP_INITIAL,
    VALIDATE_NON_NULL,
)
from fencepost.connectors.jdbc.tables import JdbcColumn
from fencepost.connectors.postgres.server.quoting import quoted

_log: Final = logging.getLogger(__name__)

_NUMBERS: Final = ("int2", "int4", "int8", "numeric", "oid")
_MOMENTS: Final = ("timestamp", "timestamptz", "date")


class ColumnReader(Reader):
    """Reads the rows of a table or query by the values of columns."""

    def __init__(self, source: QuerySource, partition: Mapping[str, str], offset: Offset | None) -> None:
        super().__init__(source, partition)
        self._offset = ColumnOffset() if offset is None else ColumnOffset.of(offset)
        self._first = offset is None
        self._uncommitted = False
        """Whether the offset is the time of the first read and was not returned yet.

        The offset is returned even without rows: without it, a restarted task would use a later time.
        """
        self._has_read = offset is not None
        """Whether the offset belongs to a row.

        An offset from `timestamp.initial` belongs to no row, and shows nothing about the server's clock.
        """
        self._clock_behind = False

    def read(self, server: OpenServer) -> PolledRows | None:
        """Return the next rows: at most `batch.max.rows`, and all further rows with the same last timestamp."""
        config, connection = self.source.config, server.connection
        with connection.transaction():
            shape = self.source.describe(connection)
            id_column = self._id_column(shape) if config.uses_incrementing else None
            moment = self._moment(shape) if config.uses_timestamp else None
            if self._first:
                self._begin(server)
            first = _place(moment, id_column)
            order = ", ".join([*([moment] if moment else []), *([_name(id_column)] if id_column else [])])
            rest = f"{self._where(id_column, moment)} order by {order}"
            if not config.values[QUERY_SUFFIX]:
                rest += f" fetch first {config.values[BATCH_ROWS]} rows with ties"
            select = self.source.select(first, shape, rest)
            places, rows = self.source.copy(connection, select, shape, first=pa.string())
            found = rows.num_rows
            if not found:
                if moment is not None:
                    self._check_clock(server)
                if not self._uncommitted:
                    return None
            after = self._after(places, id_column) if found else self._offset
            if found and config.values[QUERY_SUFFIX]:
                tied = self.source.select(first, shape, f"where {_at(after, moment, id_column)}", suffix=False)
                _, last = self.source.copy(connection, tied, shape, first=pa.string())
                rows = pa.concat_batches([rows[: _first_at(places, after)], last])
        self._uncommitted = False
        self._offset = after
        if found:
            # A limit in query.suffix is unknown, so some rows may have been left out.
            self.whole = not config.values[QUERY_SUFFIX] and found < int(config.values[BATCH_ROWS])
            self._has_read = True
        return PolledRows(self.source.topic, shape, rows, self._offset.as_offset())

    def _begin(self, server: OpenServer) -> None:
        """Start at the time in `timestamp.initial`."""
        initial = self.source.config.values[TIMESTAMP_INITIAL]
        if initial is not None and self.source.config.uses_timestamp:
            if initial < 0:
                self._uncommitted = True
                initial = int(server.one("select (extract(epoch from clock_timestamp()) * 1000)::bigint"))
            self._offset = ColumnOffset(None, initial * 1000)
        self._first = False

    def _check_clock(self, server: OpenServer) -> None:
        """Warn once if the server's clock was set back: new rows then get timestamps before the offset."""
        last = self._offset.timestamp
        if last is None or not self._has_read:
            return
        now = int(server.one("select (extract(epoch from clock_timestamp()) * 1000000)::bigint"))
        if now < last and not self._clock_behind:
            _log.warning(
                "The clock of PostgreSQL at %s is %.1f s behind the last timestamp that was read from %s: rows that get "
                "their timestamps before the clock has caught up are not read. The mode snapshot reads them",
                server.name, (last - now) / 1_000_000, self.source.title,
            )  # fmt: skip
        self._clock_behind = now < last

    def _where(self, id_column: JdbcColumn | None, moment: str | None) -> str:
        last_id, last_moment = self._offset.incrementing, self._offset.timestamp
        conditions = []
        if moment is not None:
            delay = self.source.config.values[TIMESTAMP_DELAY]
            conditions.append(f"{moment} < clock_timestamp() - interval '{delay} milliseconds'")
            if last_moment is not None:
                then = _timestamp(last_moment)
                if id_column is None or last_id is None:
                    conditions.append(f"{moment} > {then}")
                else:
                    conditions.append(f"({moment}, {_name(id_column)}) > ({then}, {last_id:f})")
        elif last_id is not None:
            conditions.append(f"{_name(id_column)} > {last_id:f}")
        else:
            conditions.append(f"{_name(id_column)} is not null")
        return f"where {' and '.join(conditions)}"

    def _after(self, places: pa.Array, id_column: JdbcColumn | None) -> ColumnOffset:
        offset = _offset_of(places[-1])
        found = offset.incrementing
        if id_column is not None and (found is None or not found.is_finite()):
            raise DataError(
                f"The column {id_column.label} of {self.source.title} is {found or 'null'} in a row: rows after it cannot be "
                "distinguished from earlier ones. Correct the row and make the column NOT NULL, or use the mode snapshot"
            )
        return offset

    def _id_column(self, shape: RowShape) -> JdbcColumn:
        name = self.source.config.incrementing_column
        if name:
            column = self._column(shape, name, INCREMENTING_COLUMN)
        else:
            numbered = [column for column in shape.columns if column.numbered]
            if len(numbered) != 1:
                raise DataError(
                    f"{shape.title[0].upper()}{shape.title[1:]} has {len(numbered)} identity or serial columns: name the "
                    f"one to use with {INCREMENTING_COLUMN}"
                )
            column = numbered[0]
        if column.type.name not in _NUMBERS or not column.type.built_in:
            raise DataError(
                f"The column {column.label} of {shape.title} has no exact numbers, as integers and numeric are: correct "
                f"{INCREMENTING_COLUMN}"
            )
        return column

    def _moment(self, shape: RowShape) -> str:
        """Return the SQL expression of a row's timestamp, of type timestamptz."""
        columns = [self._column(shape, name, TIMESTAMP_COLUMNS) for name in self.source.config.timestamp_columns]
        names = []
        for column in columns:
            if column.type.name not in _MOMENTS:
                raise DataError(
                    f"The column {column.label} of {shape.title} has no timestamps: correct {TIMESTAMP_COLUMNS}"
                )
            zone = "" if column.type.name == "timestamptz" else f" at time zone '{self.source.config.time_zone}'"
            names.append(f"{_name(column)}{'::timestamp' if column.type.name == 'date' else ''}{zone}")
        return f"({names[0]})" if len(names) == 1 else f"coalesce({', '.join(names)})"

    def _column(self, shape: RowShape, name: str, property_name: str) -> JdbcColumn:
        column = next((column for column in shape.columns if column.name == name), None)
        if column is None:
            raise DataError(f"{shape.title[0].upper()}{shape.title[1:]} has no column {name}: correct {property_name}")
        of_several = property_name == TIMESTAMP_COLUMNS and len(self.source.config.timestamp_columns) > 1
        checked = self.source.config.values[VALIDATE_NON_NULL] and self.source.table is not None and not of_several
        if checked and not column.not_null:
            raise DataError(
                f"The column {column.label} of {shape.title} may be null, and rows with a null in it would never be read: "
                f"make it NOT NULL, or set {VALIDATE_NON_NULL}=false"
            )
        return column


def _place(moment: str | None, id_column: JdbcColumn | None) -> str:
    """Return the SQL of a row's position as text: microseconds since 1970, a space, and the id.

    A part that the mode does not use is empty. The id is in the server's form, because the column's type in the record
    may have fewer digits.
    """
    micros = f"(extract(epoch from {moment}) * 1000000)::bigint" if moment else "''"
    return f"concat({micros}, ' ', {_name(id_column) if id_column is not None else 'null'})"


def _offset_of(place: pa.Scalar) -> ColumnOffset:
    moment, _, last_id = place.as_py().partition(" ")
    return ColumnOffset(Decimal(last_id) if last_id else None, int(moment) if moment else None)


def _first_at(places: pa.Array, offset: ColumnOffset) -> int:
    """Return the index of the first row with the given offset. The rows with this offset are the last rows.

    Offsets are compared as numbers, because equal ids may have different texts.
    """
    first = len(places) - 1
    while first and _offset_of(places[first - 1]) == offset:
        first -= 1
    return first


def _timestamp(micros: int) -> str:
    return f"(timestamptz 'epoch' + {micros} * interval '1 microsecond')"


def _at(offset: ColumnOffset, moment: str | None, id_column: JdbcColumn | None) -> str:
    """Return the SQL condition for the rows at an offset."""
    conditions = []
    if moment is not None and offset.timestamp is not None:
        conditions.append(f"{moment} = {_timestamp(offset.timestamp)}")
    if id_column is not None and offset.incrementing is not None:
        conditions.append(f"{_name(id_column)} = {offset.incrementing:f}")
    return " and ".join(conditions)


def _name(column: JdbcColumn | None) -> str:
    assert column is not None  # noqa: S101
    return f"t.{quoted(column.name)}"
