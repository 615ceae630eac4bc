"""The columns of a SourceBatch's rows as transforms see them: all columns of records, with the types of records."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import types as t

from fencepost.api.errors import DataError
from fencepost.api.required_fields import check_required, relabelled
from fencepost.engine.column_types import COLUMNS
from fencepost.engine.conversion import ROW
from fencepost.kafka.records.columns import normalize_timestamp

_TEXT_HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.string())]))


def completed(rows: pa.RecordBatch, topic: str | None) -> pa.RecordBatch:
    """Return rows with all columns of a record. `topic` is used for rows that name no topic.

    The column with the rows' positions in a batch, if there is one, is kept. Timestamps are converted to milliseconds,
    and partitions to INT. Raises DataError for timestamps of another type, and for partitions that do not fit.
    """
    absent = {
        "topic": pa.string(), "partition": pa.int32(), "key": pa.null(), "timestamp": pa.int64(), "headers": _TEXT_HEADERS,
    }  # fmt: skip
    columns = {
        name: rows[name] if name in rows.schema.names else pa.nulls(rows.num_rows, absent[name]) for name in COLUMNS
    }
    if topic is not None:
        columns["topic"] = pc.fill_null(columns["topic"].cast(pa.string()), topic)
    columns["timestamp"] = normalize_timestamp(columns["timestamp"])
    try:
        columns["partition"] = columns["partition"].cast(pa.int32())
    except pa.ArrowInvalid as error:
        raise DataError(f"The column 'partition' has a number that no partition has: {error}") from error
    if ROW in rows.schema.names:
        columns[ROW] = rows[ROW]
    return pa.RecordBatch.from_pydict(columns)


def as_declared(rows: pa.RecordBatch, declared: Mapping[str, t.DataType | None]) -> pa.RecordBatch:
    """Return the rows, with the declared nullability in the types of their structs.

    A reader's arrays may declare another nullability.

    The arrays are relabelled, because Arrow does not cast a null struct to a type whose fields may not be null. Raises
    DataError for a null in a field that may not be null.
    """
    columns = {name: rows[name] for name in rows.schema.names}
    for name, kind in declared.items():
        if kind is not None and name in columns:
            columns[name] = _labelled(columns[name], kind, name)
    return pa.RecordBatch.from_pydict(columns)


def _labelled(array: pa.Array, declared: t.DataType, name: str) -> pa.Array:
    kind = _label(array.type, declared)
    if kind != array.type:
        check_required(array, pa.field(name, kind), name)
    return relabelled(array, kind)


def _label(kind: pa.DataType, declared: t.DataType) -> pa.DataType:
    """The Arrow type with the nullability of the declared type.

    If the types are of different kinds, the Arrow type is kept, and Spark will refuse it.
    """
    if isinstance(declared, t.StructType) and pa.types.is_struct(kind) and kind.num_fields == len(declared):
        return pa.struct(
            [
                pa.field(given.name, _label(given.type, field.dataType), field.nullable)
                for given, field in zip(kind, declared.fields, strict=True)
            ]
        )
    if isinstance(declared, t.ArrayType) and pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_label(kind.value_type, declared.elementType)))
    if isinstance(declared, t.MapType) and pa.types.is_map(kind):
        return pa.map_(
            kind.key_field.with_type(_label(kind.key_type, declared.keyType)),
            kind.item_field.with_type(_label(kind.item_type, declared.valueType)),
        )
    return kind
