"""Makes records from rows of plain Python values, which have no schema. Columns define the parts of a record.

The columns that properties name become Arrow columns, separately for rows whose values have other types. RecordColumns
makes the parts of the records from these Arrow columns. All other columns stay as they are.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import types as t
from pyspark.sql.pandas.types import from_arrow_type

from fencepost.api.errors import ConfigError
from fencepost.api.plain_values import instead_of
from fencepost.api.plugin_calls import kind_of
from fencepost.connectors.rows.record_mapping import RecordColumns
from fencepost.connectors.rows.row_types import MisfitError

_WITHOUT_ZONE: Final = "a datetime without a zone"
_WITH_ZONE: Final = "a datetime with a zone"
_TIMES: Final[Mapping[Hashable, pa.DataType]] = {
    _WITHOUT_ZONE: pa.timestamp("us"),
    _WITH_ZONE: pa.timestamp("us", tz="UTC"),
}


class RecordParts(NamedTuple):
    """The parts of a record other than its value. None means that no column defines the part."""

    key: Any = None
    topic: str | None = None
    timestamp: int | None = None
    headers: Sequence[tuple[str, str | None]] = ()


class Misfit(NamedTuple):
    """The reason why a row cannot become a record."""

    reason: str


class PythonRows:
    """Makes the parts of records from columns of rows."""

    def __init__(self, record: RecordColumns) -> None:
        self._record = record
        topics = [name for _, name in record.topic if name is not None]
        times = [] if record.timestamp is None else [record.timestamp]
        # Columns of keys are left out, because keys go to their converter unchanged.
        self._typed = tuple(dict.fromkeys([*topics, *times, *record.headers]))
        self._needed = frozenset([*record.keys, *self._typed])

    def parts(self, rows: Sequence[Any]) -> list[RecordParts | Misfit]:
        """Return, for each row, the parts of its record, or the reason why it cannot become a record."""
        found: list[RecordParts | Misfit] = [Misfit("")] * len(rows)
        alike: dict[tuple[Hashable, ...], list[int]] = {}
        for position, row in enumerate(rows):
            # There are many rows, and isinstance with Mapping takes longer than comparing types.
            if not ((type(row) is dict or isinstance(row, Mapping)) and self._needed <= row.keys()):
                found[position] = self._misfit(row)
            elif self._typed:
                kinds = tuple([_kind(row[name]) for name in self._typed])
                alike.setdefault(kinds, []).append(position)
            else:
                found[position] = RecordParts(self._key(row))
        for positions in alike.values():
            made = self._made([rows[position] for position in positions])
            for position, part in zip(positions, made, strict=True):
                found[position] = part
        return found

    def _misfit(self, row: Any) -> Misfit:
        """Return the error for a row that lacks some of the columns."""
        if not isinstance(row, Mapping):
            return Misfit(f"it is {kind_of(row)}, which has no columns: yield a dict")
        try:
            self._record.check_names([name for name in row if isinstance(name, str)])
        except ConfigError as error:
            return Misfit(str(error))
        return Misfit("its columns changed while it was read")

    def _made(self, rows: Sequence[Mapping[str, Any]]) -> Iterator[RecordParts | Misfit]:
        """Yield, for each row, the parts of its record, or its error. The values of all rows have the same types."""
        try:
            made = self._attributes(rows)
        except ConfigError as error:
            # This is an error of the types, so it is the same for all rows.
            yield from [Misfit(str(error))] * len(rows)
        except MisfitError as error:
            if len(rows) == 1:
                yield Misfit(str(error))
                return
            middle = len(rows) // 2
            yield from self._made(rows[:middle])
            yield from self._made(rows[middle:])
        else:
            nothing = [None] * len(rows)
            topics, times = made.get("topic", nothing), made.get("timestamp", nothing)
            headers = made.get("headers", [()] * len(rows))
            for row, topic, timestamp, pairs in zip(rows, topics, times, headers, strict=True):
                yield RecordParts(self._key(row), topic, timestamp, [(pair["key"], pair["value"]) for pair in pairs])

    def _key(self, row: Mapping[str, Any]) -> Any:
        keys = self._record.keys
        if len(keys) == 1:
            return row[keys[0]]
        return {name: row[name] for name in keys} if keys else None

    def _attributes(self, rows: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
        """Return topics, timestamps and headers.

        Raises ConfigError for a wrong type, and MisfitError for a wrong value.
        """
        columns = {name: self._column(name, [row[name] for row in rows]) for name in self._typed}
        self._record.check_types(
            t.StructType(
                [t.StructField(name, _spark_type(name, column, rows[0][name])) for name, column in columns.items()]
            )
        )
        return {name: column.to_pylist() for name, column in self._record.attributes(columns).items()}

    def _column(self, name: str, values: list[Any]) -> pa.Array:
        kind = _kind(values[0])
        wanted = _TIMES.get(kind)
        if kind is None:
            # A null gets the type that its column must have.
            wanted = pa.int64() if name == self._record.timestamp and not self._record.timestamp_format else pa.string()
        try:
            return pa.array(values, type=wanted)
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            found = values[0]
            foreign = isinstance(found, np.generic) or type(found).__module__.startswith("pandas.")
            raise MisfitError(_unusable(name, found) if foreign else f"column {name}: {error}") from None


def _kind(value: Any) -> Hashable:
    """Return the kind of a value.

    Values of one kind share an Arrow column. Decimals of different scales are of different kinds: in one column, all
    would get the largest scale.
    """
    if value is None:
        return None
    if isinstance(value, datetime):
        return _WITHOUT_ZONE if value.tzinfo is None else _WITH_ZONE
    if isinstance(value, Decimal):
        return Decimal, value.as_tuple().exponent
    kind: type = type(value)
    return kind


def _spark_type(name: str, column: pa.Array, first: Any) -> t.DataType:
    try:
        return from_arrow_type(column.type, prefer_timestamp_ntz=True)
    except PySparkException:
        raise MisfitError(_unusable(name, first)) from None


def _unusable(name: str, value: Any) -> str:
    is_time = isinstance(value, np.datetime64) and not np.isnat(value)
    instead = "value.astype('datetime64[us]').item()" if is_time else instead_of(value)
    return f"column {name} has {kind_of(value)}, of which nothing can be made. Give {instead} in its place"
