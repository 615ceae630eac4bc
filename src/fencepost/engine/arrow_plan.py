"""A chain of transforms as Arrow evaluates it, in the stage that reads and writes the rows: they never leave Python.

    reader's rows ──> completed types ──> filters and projections, as Catalyst's optimizer left them ──> rows to convert

Made by `fencepost.engine.spark.arrow_plans`, from expressions that Arrow evaluates exactly as Spark does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from pyspark.sql import types as t

from fencepost.api.errors import DataError
from fencepost.engine.arrow_expressions import ArrowExpression, PlanRows, arrow_type, bare
from fencepost.engine.batch_columns import as_declared


@dataclass(frozen=True, slots=True)
class PlanColumn:
    """A column of rows: its name, its number in the plan, its declared type, and whether it may be null."""

    name: str
    number: int
    kind: t.DataType
    nullable: bool = True


@dataclass(frozen=True, slots=True)
class FilterStep:
    """Keeps the rows for which a condition is true."""

    condition: ArrowExpression

    def applied(self, rows: PlanRows) -> PlanRows:
        """Return the rows that are kept."""
        return rows.filter(self.condition.value(rows))


@dataclass(frozen=True, slots=True)
class ProjectionStep:
    """Makes columns, by their numbers."""

    columns: Sequence[tuple[int, ArrowExpression]]

    def applied(self, rows: PlanRows) -> PlanRows:
        """Return the rows with these columns."""
        return PlanRows(rows.count, {number: rows.filled(made.value(rows)) for number, made in self.columns})


@dataclass(frozen=True, slots=True)
class ArrowPlan:
    """Filters and projections from a reader's columns to the `result`. Pickled to executors."""

    given: Sequence[PlanColumn]
    steps: Sequence[FilterStep | ProjectionStep]
    result: Sequence[PlanColumn]

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows that are kept, with the columns of the result.

        Raises DataError for columns of other types than the reader declares, and for nulls that it does not declare.
        """
        rows = PlanRows(batch.num_rows, {column.number: _given(batch, column) for column in self.given})
        for step in self.steps:
            rows = step.applied(rows)
        made = pa.RecordBatch.from_pydict({column.name: rows.column((column.number,)) for column in self.result})
        return as_declared(made, {column.name: column.kind for column in self.result})


def _given(batch: pa.RecordBatch, column: PlanColumn) -> pa.Array:
    if column.name not in batch.schema.names:
        raise DataError(f"A reader gives no column {column.name}, which is in its schema")
    array = batch[column.name]
    if array.null_count and not column.nullable:
        raise DataError(f"A reader gives a null in the column {column.name}, which its schema declares NOT NULL")
    if not _fits(array.type, column.kind):
        raise _unfit(array, column)
    # First what is required, then all may be null, as in the types of expressions.
    declared = as_declared(pa.RecordBatch.from_pydict({column.name: array}), {column.name: column.kind})
    free = bare(column.kind)
    array, wanted = as_declared(declared, {column.name: free})[column.name], arrow_type(free)
    if array.type == wanted:
        return array
    try:
        return array.cast(wanted)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise _unfit(array, column, f": {error}") from error


def _unfit(array: pa.Array, column: PlanColumn, reason: str = "") -> DataError:
    return DataError(
        f"A reader gives the column {column.name} as {array.type}, which does not fit {column.kind.simpleString()} in its "
        f"schema{reason}"
    )


_TEXTS: Final = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
_BYTES: Final = (
    pa.types.is_binary,
    pa.types.is_large_binary,
    pa.types.is_binary_view,
    pa.types.is_fixed_size_binary,
)
_TIMES: Final = (pa.types.is_timestamp, pa.types.is_int64)
_KEEP: Final[
    Sequence[tuple[type[t.DataType] | tuple[type[t.DataType], ...], Sequence[Callable[[pa.DataType], bool]]]]
] = (
    (t.StringType, _TEXTS),
    (t.BinaryType, _BYTES),
    ((t.ByteType, t.ShortType, t.IntegerType, t.LongType), (pa.types.is_signed_integer,)),
    ((t.FloatType, t.DoubleType), (pa.types.is_floating,)),
    (t.DecimalType, (pa.types.is_decimal,)),
    (t.DateType, (pa.types.is_date,)),
    ((t.TimestampType, t.TimestampNTZType), _TIMES),
)
"""Types of arrays whose values a type of Spark can hold: a cast keeps them, or is refused."""


def _fits(given: pa.DataType, declared: t.DataType) -> bool:
    """Whether a cast keeps all values. Arrow's own reads texts as numbers, and fills fields of other names with nulls."""
    if pa.types.is_dictionary(given):
        return _fits(given.value_type, declared)
    if isinstance(declared, t.StructType):
        names = [field.name for field in given] if pa.types.is_struct(given) else []
        return all(names.count(f.name) == 1 and _fits(given.field(f.name).type, f.dataType) for f in declared)
    if isinstance(declared, t.ArrayType):
        is_list = pa.types.is_list(given) or pa.types.is_large_list(given)
        return is_list and _fits(given.value_type, declared.elementType)
    if isinstance(declared, t.MapType):
        is_map = pa.types.is_map(given)
        return is_map and _fits(given.key_type, declared.keyType) and _fits(given.item_type, declared.valueType)
    kept = next((tests for kinds, tests in _KEEP if isinstance(declared, kinds)), None)
    return bool(given == arrow_type(declared) if kept is None else any(test(given) for test in kept))
