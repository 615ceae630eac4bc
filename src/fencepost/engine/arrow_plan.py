"""A chain of transforms that Arrow evaluates in the stage that reads and writes the rows: the rows never leave Python.

    reader's rows ──> filters and projections, in the form that Catalyst's optimizer gave them ──> rows to convert

`fencepost.engine.spark.arrow_plans` makes such a plan from expressions that Arrow evaluates exactly as Spark does.
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
        """Return the rows for which the condition is true."""
        return rows.filter(self.condition.value(rows))


@dataclass(frozen=True, slots=True)
class ProjectionStep:
    """Computes columns. They are stored by their numbers."""

    columns: Sequence[tuple[int, ArrowExpression]]

    def applied(self, rows: PlanRows) -> PlanRows:
        """Return the rows with the computed columns."""
        return PlanRows(
            rows.count, {number: rows.filled(expression.value(rows)) for number, expression in self.columns}
        )


@dataclass(frozen=True, slots=True)
class ArrowPlan:
    """Filters and projections that lead from a reader's columns to the `result`. It is pickled to executors."""

    given: Sequence[PlanColumn]
    steps: Sequence[FilterStep | ProjectionStep]
    result: Sequence[PlanColumn]

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows that pass the filters, with the columns of the result.

        The given rows must be `fitted` to the reader's schema.
        """
        rows = PlanRows(batch.num_rows, dict(zip((one.number for one in self.given), batch.columns, strict=True)))
        for step in self.steps:
            rows = step.applied(rows)
        result = pa.RecordBatch.from_pydict({column.name: rows.column((column.number,)) for column in self.result})
        return as_declared(result, {column.name: column.kind for column in self.result})
