"""Finds the Spark types of Arrow columns and converts their values, for files and for frames of source functions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt
from pyspark.sql import types as t

from fencepost.api.errors import DataError
from fencepost.api.map_keys import has_key_twice, maps_as_lists
from fencepost.api.record import RefusedRow
from fencepost.connectors.rows.record_mapping import RecordColumns
from fencepost.connectors.rows.row_types import MisfitError, arrow_type, plain_row, row_as_json

_MOST_DIGITS: Final = 38
_MOST_OF_256_BITS: Final = 76

_SIMPLE: Final[tuple[tuple[Callable[[Any], bool], t.DataType], ...]] = (
    (pt.is_boolean, t.BooleanType()),
    (pt.is_int8, t.ByteType()),
    (lambda kind: pt.is_int16(kind) or pt.is_uint8(kind), t.ShortType()),
    (lambda kind: pt.is_int32(kind) or pt.is_uint16(kind), t.IntegerType()),
    (lambda kind: pt.is_int64(kind) or pt.is_uint32(kind), t.LongType()),
    (pt.is_uint64, t.DecimalType(20, 0)),
    (lambda kind: pt.is_float16(kind) or pt.is_float32(kind), t.FloatType()),
    (pt.is_float64, t.DoubleType()),
    (lambda kind: pt.is_string(kind) or pt.is_large_string(kind) or pt.is_string_view(kind), t.StringType()),
    (lambda kind: pt.is_binary(kind) or pt.is_large_binary(kind) or pt.is_binary_view(kind), t.BinaryType()),
    (pt.is_fixed_size_binary, t.BinaryType()),
    (pt.is_date, t.DateType()),
    # The type of a column that is null in all rows.
    (pt.is_null, t.StringType()),
)


def spark_columns(schema: pa.Schema, where: str) -> t.StructType:
    """Return the columns of an Arrow schema.

    `where` names the origin of the columns, such as "the file /data/a.parquet".

    Raises DataError, naming the column, for a column without a name, a duplicate name, and a type that has no Spark
    type.
    """
    if "" in schema.names:
        raise DataError(
            f"The column number {schema.names.index('') + 1} of {where} has no name: give each column a name of its own"
        )
    for name in schema.names:
        if schema.names.count(name) > 1:
            raise DataError(f"The column {name} is twice in {where}: give each column a name of its own")
    try:
        return t.StructType(
            [t.StructField(field.name, _spark(field.type, field.name), field.nullable) for field in schema]
        )
    except _UnsupportedError as error:
        raise DataError(
            f"The column {error.args[1]} of {where} {error.args[0]}, which has no form in Kafka Connect's "
            "data: leave it out, or make it another type, such as a text or a number"
        ) from None


def records_or_refused(
    batch: pa.RecordBatch,
    columns: t.StructType,
    record: RecordColumns,
    place: Callable[[int], Mapping[str, str]],
    *,
    exact: bool = False,
    first: int = 0,
    alone: bool = False,
) -> Iterator[pa.RecordBatch | list[RefusedRow]]:
    """Yield the records of rows.

    A row without topic or timestamp, or with a value that does not fit, is yielded as a RefusedRow.

    `place` returns a row's place in its source for messages and dead letters, given the row's number; `first` is the
    number of the batch's first row. With `exact`, times that are finer than a microsecond are refused; otherwise they
    are rounded down. `alone` says that the batch is not a slice of a larger batch.
    """
    try:
        yield record.records(columns, _cast_columns(batch, columns, exact=exact))
    except MisfitError as error:
        if batch.num_rows == 1 and alone:
            yield [RefusedRow(row_as_json(plain_row(batch)), str(error), place(first))]
            return
        # Rows are copied, not sliced: Arrow casts the items of all lists under a slice, which include values of other
        # rows.
        rows, middle = pa.array(range(batch.num_rows)), batch.num_rows // 2
        for half, start in ((rows[:middle], first), (rows[middle:], first + middle)):
            if len(half):
                part = batch.take(half)
                yield from records_or_refused(part, columns, record, place, exact=exact, first=start, alone=True)


def _cast_columns(batch: pa.RecordBatch, columns: t.StructType, *, exact: bool) -> list[pa.Array]:
    """Return the values in the types of the columns.

    Raises MisfitError, naming the column, for a value that does not fit.
    """
    return [_cast(array, field, exact=exact) for field, array in zip(columns.fields, batch.columns, strict=True)]


def _cast(array: pa.Array, field: t.StructField, *, exact: bool) -> pa.Array:
    values, kind = _storage(array), arrow_type(field.dataType)
    try:
        if not exact and _has(values.type, _is_nanoseconds):
            values = _microseconds(values)
        if _has(values.type, _is_unchecked):
            # A cast to the same type checks nothing, and readers check neither UTF-8 nor the number of digits of
            # decimals.
            values = values.cast(_unchecked(values.type))
        cast = values.cast(kind)
    except pa.ArrowInvalid as error:
        raise MisfitError(f"column {field.name}: {error}") from None
    if _has(kind, pt.is_map) and has_key_twice(cast):
        raise MisfitError(f"column {field.name}: a map has a key twice, of which readers would see one")
    return cast


def _microseconds(array: pa.Array) -> pa.Array:
    """Return values with microseconds in place of nanoseconds. Times before 1970 are also rounded down."""
    kind = array.type
    if _is_nanoseconds(kind):
        return _floored(array.cast(pa.timestamp("ns")).view(pa.int64())).view(pa.timestamp("us", kind.tz))
    if not _has(kind, _is_nanoseconds):
        return array
    if pt.is_struct(kind):
        fields = [_microseconds(inner) for inner in array.flatten()]
        return pa.StructArray.from_arrays(fields, names=[field.name for field in kind], mask=array.is_null())
    lists = maps_as_lists(array) if pt.is_map(kind) else array
    lengths = pc.fill_null(pc.list_value_length(lists), 0).to_numpy()
    ends, null = pa.array(np.append(0, np.cumsum(lengths)), pa.int32()), array.is_null()
    if pt.is_map(kind):
        keys, items = lists.flatten().flatten()
        return pa.MapArray.from_arrays(ends, _microseconds(keys), _microseconds(items), mask=null)
    return pa.ListArray.from_arrays(ends, _microseconds(lists.flatten()), mask=null)


def _floored(nanoseconds: pa.Array) -> pa.Array:
    # Arrow's floor_temporal overflows for the smallest nanosecond values.
    towards_zero = pc.divide(nanoseconds, 1_000)
    return pc.subtract(towards_zero, pc.greater(pc.multiply(towards_zero, 1_000), nanoseconds).cast(pa.int64()))


def _is_unchecked(kind: pa.DataType) -> bool:
    return bool(pt.is_decimal(kind) or pt.is_string(kind) or pt.is_large_string(kind) or pt.is_string_view(kind))


def _unchecked(kind: pa.DataType) -> pa.DataType:
    """Return a type that can hold any texts and decimals, so that a cast back to the original type checks them."""
    if pt.is_decimal(kind):
        return pa.decimal256(_MOST_OF_256_BITS, kind.scale)
    if pt.is_struct(kind):
        return pa.struct([field.with_type(_unchecked(field.type)) for field in kind])
    if pt.is_map(kind):
        return pa.map_(
            kind.key_field.with_type(_unchecked(kind.key_type)), kind.item_field.with_type(_unchecked(kind.item_type))
        )
    if pt.is_list(kind) or pt.is_large_list(kind) or pt.is_fixed_size_list(kind):
        return pa.list_(kind.value_field.with_type(_unchecked(kind.value_type)))
    if pt.is_dictionary(kind):
        return _unchecked(kind.value_type)
    return pa.binary() if _is_unchecked(kind) else kind


class _UnsupportedError(Exception):
    """The error for an unsupported type, with the path to its column."""


def _spark(kind: pa.DataType, place: str) -> t.DataType:
    if isinstance(kind, pa.BaseExtensionType):
        return _spark(kind.storage_type, place)
    if pt.is_dictionary(kind):
        return _spark(kind.value_type, place)
    return _simple(kind) or _nested(kind, place)


def _simple(kind: pa.DataType) -> t.DataType | None:
    for matches, simple in _SIMPLE:
        if matches(kind):
            return simple
    if pt.is_timestamp(kind):
        return t.TimestampType() if kind.tz else t.TimestampNTZType()
    if pt.is_decimal(kind) and kind.precision <= _MOST_DIGITS and 0 <= kind.scale <= kind.precision:
        return t.DecimalType(kind.precision, kind.scale)
    return None


def _nested(kind: pa.DataType, place: str) -> t.DataType:
    if pt.is_struct(kind) and kind.num_fields:
        names = [field.name for field in kind]
        if "" in names:
            raise _UnsupportedError("has a field without a name", place)
        if twice := next((name for name in names if names.count(name) > 1), None):
            raise _UnsupportedError(f"has the field {twice} twice", place)
        return t.StructType([t.StructField(field.name, _spark(field.type, f"{place}.{field.name}")) for field in kind])
    if pt.is_map(kind):
        return t.MapType(_spark(kind.key_type, f"{place}[key]"), _spark(kind.item_type, f"{place}[value]"))
    if pt.is_list(kind) or pt.is_large_list(kind) or pt.is_fixed_size_list(kind):
        return t.ArrayType(_spark(kind.value_type, f"{place}[]"))
    raise _UnsupportedError(f"is of the type {kind}", place)


def _storage(array: pa.Array) -> pa.Array:
    return array.storage if isinstance(array, pa.ExtensionArray) else array


def _has(kind: pa.DataType, found: Callable[[pa.DataType], bool]) -> bool:
    if pt.is_dictionary(kind):
        return _has(kind.value_type, found)
    return found(kind) or any(_has(kind.field(number).type, found) for number in range(kind.num_fields))


def _is_nanoseconds(kind: pa.DataType) -> bool:
    return bool(pt.is_timestamp(kind) and kind.unit == "ns")
