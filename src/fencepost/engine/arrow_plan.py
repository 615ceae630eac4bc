"""A chain of transforms as Arrow evaluates it, in the stage that reads and writes the rows: they never leave Python.

    reader's rows ──> filters and projections, as Catalyst's optimizer left them ──> rows to convert

Made by `fencepost.engine.spark.arrow_plans`, from expressions that Arrow evaluates exactly as Spark does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import types as t

from fencepost.engine.arrow_expressions import ArrowExpression, PlanRows
from fencepost.engine.batch_columns import as_declared


@dataclass(frozen=True, slots=True)
class PlanColumn:
    """A column of rows: its name, its number in the plan, and its declared type."""

    name: str
    number: int
    kind: t.DataType


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
        """Return the rows that are kept, with the columns of the result. The rows are as `fitted` to the reader's schema."""
        rows = PlanRows(batch.num_rows, dict(zip((one.number for one in self.given), batch.columns, strict=True)))
        for step in self.steps:
            rows = step.applied(rows)
        made = pa.RecordBatch.from_pydict({column.name: rows.column((column.number,)) for column in self.result})
        return as_declared(made, {column.name: column.kind for column in self.result})
