"""The columns of a SourceBatch's rows as transforms see them: all that a record has, of the types that records have."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from fencepost.api.errors import DataError
from fencepost.engine.column_types import COLUMNS
from fencepost.engine.conversion import ROW

_TEXT_HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.string())]))
_TICKS_PER_MS = {"us": 1_000, "ns": 1_000_000}


def completed(rows: pa.RecordBatch, topic: str | None) -> pa.RecordBatch:
    """Return rows with all columns of a record; `topic` is for those that name none.

    The positions of rows in a batch, if they have them, stay. Timestamps become milliseconds, partitions INT. Raises DataError for a time before 1970, and for numbers that do not
    fit.
    """
    absent = {
        "topic": pa.string(), "partition": pa.int32(), "key": pa.null(), "timestamp": pa.int64(), "headers": _TEXT_HEADERS,
    }  # fmt: skip
    columns = {
        name: rows[name] if name in rows.schema.names else pa.nulls(rows.num_rows, absent[name]) for name in COLUMNS
    }
    if topic is not None:
        columns["topic"] = pc.fill_null(columns["topic"].cast(pa.string()), topic)
    columns["timestamp"] = _milliseconds(columns["timestamp"])
    try:
        columns["partition"] = columns["partition"].cast(pa.int32())
    except pa.ArrowInvalid as error:
        raise DataError(f"The column 'partition' has a number that no partition has: {error}") from error
    if ROW in rows.schema.names:
        columns[ROW] = rows[ROW]
    return pa.RecordBatch.from_pydict(columns)


def _milliseconds(times: pa.Array) -> pa.Array:
    if not pa.types.is_timestamp(times.type):
        return times.cast(pa.int64())
    numbers = times.cast(pa.int64())
    unit = times.type.unit
    if unit == "s":
        numbers = pc.multiply_checked(numbers, 1_000)
    elif unit != "ms":
        numbers = pc.divide(numbers, _TICKS_PER_MS[unit])
    before = pc.fill_null(pc.less(times.cast(pa.int64()), 0), False)
    if pc.any(before).as_py():
        (first, *_) = times.cast(pa.int64()).filter(before).to_pylist()
        raise DataError(f"The column 'timestamp' has a time before 1970, {first} as a number: Kafka has no such times")
    return numbers
