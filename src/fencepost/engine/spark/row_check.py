"""Finds all rows of a batch that a chain of expressions refuses, each with its error, in one pass of the driver's JVM.

With bisection each refused row costs some attempts, and each attempt plans and evaluates rows anew. Here the
expressions that Spark's optimizer made are evaluated row by row, and after an error the pass goes on with the next row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any, Final

import numpy as np
import pyarrow as pa
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from fencepost.engine.errors import SparkDataError
from fencepost.engine.job_failure import JobFailure
from fencepost.engine.spark.arrow_rows import may_use_files, rows_from_arrow

_NUMBER: Final = "__fencepost_number"


@dataclass(frozen=True, slots=True)
class RowCheck:
    """Expressions as functions of Scala from row to row, one after the other. `given` are the columns, as Java's StructType.

    `projections` makes these functions. After an error those that are `stateful` may refuse any row: a map's expression
    keeps the keys of the row that it refused.
    """

    session: SparkSession
    projections: Callable[[], Sequence[Any]]
    stateful: bool
    given: Any

    @classmethod
    def of(cls, table: DataFrame, selection: DataFrame) -> RowCheck | None:
        """Return the check for a selection from a table that Spark does not evaluate while it plans.

        None if the plan is more than projections and filters.
        """
        session = selection.sparkSession
        steps: list[Any] = []
        plan = selection._jdf.queryExecution().optimizedPlan()  # noqa: SLF001 - pyspark shows no plan
        while plan.nodeName() in ("Project", "Filter"):
            steps.insert(0, plan)
            plan = plan.child()
        if plan.nodeName() != "LogicalRDD" or not may_use_files(session):
            return None
        given = table._jdf.schema().add(_NUMBER, "long")  # noqa: SLF001 - types are the JVM's
        projections = partial(_projections, session, plan.output(), steps)
        return cls(session, projections, _are_stateful(session, steps), given)

    def refused(self, batch: pa.RecordBatch) -> list[tuple[int, Exception]]:
        """Return the positions of the rows that are refused, in order, each with a SparkDataError.

        Raises Spark's error if it may not be one of a row: bisection tells.
        """
        numbered = batch.append_column(_NUMBER, pa.array(np.arange(batch.num_rows)))
        rows = rows_from_arrow(self.session, numbered, self.given)
        try:
            return self._refused(rows, batch)
        except Exception:
            # Counting consumes the remaining rows, and so frees their memory.
            with suppress(Py4JError, PySparkException):
                rows.size()
            raise

    def _refused(self, rows: Any, batch: pa.RecordBatch) -> list[tuple[int, Exception]]:
        refused: list[tuple[int, Exception]] = []
        alone: Any = None
        projections, checked = self._checked(rows)
        while True:
            try:
                if alone is None:
                    checked.size()
                    return refused
                reduce(lambda row, projection: projection.apply(row), projections, alone)
                alone = None
            except (Py4JJavaError, PySparkException) as error:
                # The row is gone. The next one says which it was.
                alone = rows.next() if rows.hasNext() else None
                following = batch.num_rows if alone is None else alone.getLong(batch.num_columns)
                refused.append((following - 1, _of_row(error)))
                if alone is None:
                    return refused
                if self.stateful:
                    projections, checked = self._checked(rows)

    def _checked(self, rows: Any) -> tuple[Sequence[Any], Any]:
        projections = self.projections()
        return projections, reduce(lambda found, projection: found.map(projection), projections, rows)


def _are_stateful(session: SparkSession, steps: Sequence[Any]) -> bool:
    """Whether an expression keeps something from row to row."""
    identity = session._jvm.java.lang.System.identityHashCode  # type: ignore[union-attr]  # noqa: SLF001 - objects are the JVM's
    made = (one for step in steps for one in _expressions(step))
    return any(identity(one) != identity(one.freshCopyIfContainsStatefulExpression()) for one in made)


def _expressions(step: Any) -> list[Any]:
    found = step.expressions()
    return [found.apply(number) for number in range(found.size())]


def _of_row(error: Exception) -> SparkDataError:
    failure = JobFailure.of(error)
    if not failure.is_of_data:
        raise error
    reason = SparkDataError(failure.one_line, reason=failure.one_line)
    reason.__cause__ = error
    return reason


def _projections(session: SparkSession, columns: Any, steps: Sequence[Any]) -> list[Any]:
    """The steps of a plan, from its table on. A row that a filter drops passes the rest unevaluated.

    After a filter, the last column says whether a row passes.
    """
    jvm: Any = session._jvm  # noqa: SLF001 - expressions are the JVM's
    catalyst: Any = jvm.org.apache.spark.sql.catalyst.expressions
    boolean: Any = getattr(getattr(jvm.org.apache.spark.sql.types, "BooleanType$"), "MODULE$")
    passes: Any = None
    found = []
    for step in steps:
        filters = step.nodeName() == "Filter"
        made = [one.freshCopyIfContainsStatefulExpression() for one in _expressions(step)]
        if passes is not None:
            made = [catalyst.If(passes, _content(one), catalyst.Literal(None, one.dataType())) for one in made]
        if filters:
            made = [columns.apply(number) for number in range(columns.size())] + made
        elif passes is not None:
            made.append(passes)
        found.append(catalyst.InterpretedProjection(_sequence(jvm, made), columns))
        found[-1].initialize(0)
        columns = step.output()
        if filters or passes is not None:
            passes = catalyst.BoundReference(columns.size(), boolean, True)
    return found


def _content(expression: Any) -> Any:
    return expression.child() if expression.nodeName() == "Alias" else expression


def _sequence(jvm: Any, items: Sequence[Any]) -> Any:
    return jvm.org.apache.spark.api.python.PythonUtils.toSeq(list(items))
