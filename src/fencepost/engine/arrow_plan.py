"""A chain of transforms as Arrow evaluates it, in the stage that reads and writes the rows: they never leave Python.

    reader's rows ──> completed types ──> filters and projections, as Catalyst's optimizer left them ──> rows to convert

Made by `fencepost.engine.spark.arrow_plans`, from expressions that Arrow evaluates exactly as Spark does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import types as t

from fencepost.engine.arrow_expressions import ArrowExpression, PlanRows
from fencepost.engine.batch_columns import as_declared
from fencepost.engine.reader_rows import fitted


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
        """Return the rows that are kept, with the columns of the result. The rows have the columns of the reader's schema.

        Raises DataError for columns of other types than the reader declares, and for nulls that it does not declare.
        """
        declared = t.StructType([t.StructField(one.name, one.kind, one.nullable) for one in self.given])
        arrays = fitted(batch, declared).columns
        rows = PlanRows(batch.num_rows, dict(zip((one.number for one in self.given), arrays, strict=True)))
        for step in self.steps:
            rows = step.applied(rows)
        made = pa.RecordBatch.from_pydict({column.name: rows.column((column.number,)) for column in self.result})
        return as_declared(made, {column.name: column.kind for column in self.result})
