"""Finds all rows of a batch that a chain of expressions refuses, each with its error, in one pass of the driver's JVM.

Where arrays are exploded there is a pass before and one over their items: a row is refused if one of its items is.

With bisection each refused row costs some attempts, and each attempt plans and evaluates rows anew. Here the
expressions that Spark's optimizer made are evaluated row by row, and after an error the pass goes on with the next row. A
class of Java does that: for Python each error would be tens of calls of the JVM.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache, partial, reduce
from importlib.resources import files
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from fencepost.engine.errors import SparkDataError
from fencepost.engine.job_failure import JobFailure, Throwable
from fencepost.engine.spark.arrow_rows import may_use_files, rows_from_arrow, rows_to_arrow
from fencepost.engine.spark.known_plans import ARRAY, PASSES, arrow_schema, exploded, is_explode, struct_of

_NUMBER: Final = "__fencepost_number"

_LARGEST: Final = 16 * 1024 * 1024
"""The bytes of exploded rows up to which they are evaluated at once."""


@dataclass(frozen=True, slots=True)
class RowCheck:
    """The expressions of a plan, in parts: between two of them, arrays are exploded."""

    parts: Sequence[_Part]

    @classmethod
    def of(cls, selection: DataFrame, table: DataFrame) -> RowCheck | None:
        """Return the check for a selection from a table that Spark does not evaluate while it plans.

        None if the plan is of other rows, or more than projections, filters and arrays that are exploded.
        """
        session = selection.sparkSession
        plan = selection._jdf.queryExecution().optimizedPlan()  # noqa: SLF001 - pyspark shows no plan
        parts: list[_Part] = []
        above: Any = None
        while True:
            steps: list[Any] = []
            while plan.nodeName() in ("Project", "Filter"):
                steps.insert(0, plan)
                plan = plan.child()
            parts.insert(0, _Part.of(session, plan.output(), steps, above))
            if plan.children().isEmpty():
                of_table = plan.output().equals(table._jdf.queryExecution().analyzed().output())  # noqa: SLF001 - see above
                return cls(parts) if of_table and may_use_files(session) else None
            if not is_explode(plan):
                return None
            above, plan = plan, plan.child()

    def refused(self, batch: pa.RecordBatch) -> list[tuple[int, Exception]]:
        """Return the positions of the rows that are refused, in order, each with a SparkDataError.

        None are returned if exploded arrays would need much memory, or an error may not be one of a row: bisection tells.
        """
        found: dict[int, Exception] = {}
        origins = np.arange(batch.num_rows)
        for part in self.parts:
            if not batch.num_rows:
                break
            refused = part.refused(batch)
            if refused is None:
                return []
            for position, error in refused:
                found.setdefault(int(origins[position]), error)
            if part.exploded is None:
                break
            left = np.flatnonzero(~np.isin(origins, list(found)))
            arrays = part.arrays(batch.take(pa.array(left)))
            if _exploded_bytes(arrays) > _LARGEST:
                return []
            batch, positions = _items_of(arrays)
            origins = origins[left][positions]
        return sorted(found.items())


@dataclass(frozen=True, slots=True)
class _Part:
    """Expressions as functions of Scala from row to row, one after the other. `given` are the columns, as Java's StructType.

    `projections` makes these functions. After an error those that are `stateful` may refuse any row: a map's expression
    keeps the keys of the row that it refused. `exploded` are the columns of the result if its array is exploded.
    """

    session: SparkSession
    projections: Callable[[], Sequence[Any]]
    stateful: bool
    given: Any
    exploded: Any

    @classmethod
    def of(cls, session: SparkSession, columns: Any, plans: Sequence[Any], above: Any) -> _Part:
        """Return the part of some plans, from the lowest one on. `above` is the one that explodes its array, None for none."""
        steps = [_Step(_items(plan.expressions()), plan.output(), plan.nodeName() == "Filter") for plan in plans]
        exploded: Any = None
        if above is not None:
            kept, array = above.requiredChildOutput(), above.generator().child()
            steps.append(_Step([*_items(kept), array], kept, filters=False))
            exploded = struct_of(session, kept).add(ARRAY, array.dataType(), True).add(_NUMBER, "long")
            if any(step.filters for step in steps):
                exploded = exploded.add(PASSES, "boolean")
        identity = session._jvm.java.lang.System.identityHashCode  # type: ignore[union-attr]  # noqa: SLF001 - objects are the JVM's
        made = (one for step in steps for one in step.expressions)
        stateful = any(identity(one) != identity(one.freshCopyIfContainsStatefulExpression()) for one in made)
        given = struct_of(session, columns).add(_NUMBER, "long")
        return cls(session, partial(_projections, session, columns, steps), stateful, given, exploded)

    def refused(self, batch: pa.RecordBatch) -> list[tuple[int, Exception]] | None:
        """Return the positions of the rows that are refused, in order, each with a SparkDataError.

        None if an error may not be one of a row.
        """
        with self._numbered(batch) as rows:
            return self._refused(rows, batch)

    def arrays(self, batch: pa.RecordBatch) -> pa.Table:
        """Return rows up to their explosion, without those that a filter drops: the last columns are position and array."""
        with self._numbered(batch) as rows:
            schema = arrow_schema(StructType.fromJson(json.loads(self.exploded.json())))
            made = reduce(lambda found, projection: found.map(projection), self.projections(), rows)
            table = rows_to_arrow(self.session, made, self.exploded, schema)
        if PASSES in table.schema.names:
            table = table.filter(table[PASSES]).drop_columns([PASSES])
        others = [name for name in range(table.num_columns) if table.schema.names[name] != ARRAY]
        return table.select([*others, table.schema.names.index(ARRAY)])

    @contextmanager
    def _numbered(self, batch: pa.RecordBatch) -> Iterator[Any]:
        numbers = pa.array(np.arange(batch.num_rows))
        numbered = pa.RecordBatch.from_arrays([*batch.columns, numbers], [*batch.schema.names, _NUMBER])
        rows = rows_from_arrow(self.session, numbered, self.given)
        try:
            yield rows
        finally:
            # Counting consumes the remaining rows, and so frees their memory.
            with suppress(Py4JError, PySparkException):
                rows.size()

    def _refused(self, rows: Any, batch: pa.RecordBatch) -> list[tuple[int, Exception]] | None:
        refused: list[tuple[int, Exception]] = []
        limit = 1 if self.stateful else batch.num_rows
        while True:
            found = json.loads(_java(self.session).find(rows, self.projections(), batch.num_columns, limit))
            for position, causes in found:
                failure = JobFailure(tuple(Throwable(kind, text or "", *more) for kind, text, *more in causes), "")
                if not failure.is_of_data:
                    return None
                refused.append((position, SparkDataError(failure.one_line, reason=failure.one_line)))
            if len(found) < limit:
                return refused


@dataclass(frozen=True, slots=True)
class _Step:
    """A projection or a filter: its expressions, and the columns that they make."""

    expressions: Sequence[Any]
    output: Any
    filters: bool


def _exploded_bytes(table: pa.Table) -> int:
    """About how many bytes rows will have once the arrays in their last column are exploded: each item gets a whole row."""
    counts = pc.fill_null(pc.list_value_length(table.columns[-1]), 0).to_pylist()
    kept = table.select(range(table.num_columns - 1))
    return int(sum(count * kept.slice(row, 1).nbytes for row, count in enumerate(counts)) + table.nbytes)


def _items_of(table: pa.Table) -> tuple[pa.RecordBatch, np.ndarray]:
    """Return a row for each item of the arrays in the last column, and the rows' numbers, from the column before it."""
    table = exploded(table)
    number = table.num_columns - 2
    items = table.remove_column(number)
    columns = [column.combine_chunks() for column in items.columns]
    return pa.RecordBatch.from_arrays(columns, schema=items.schema), table.columns[number].to_numpy()


@lru_cache(maxsize=1)
def _java(session: SparkSession) -> Any:
    """Return a RefusedRows of the driver's JVM, compiled there."""
    jvm: Any = session._jvm  # noqa: SLF001 - rows are the JVM's
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.cook((files("fencepost.engine.spark") / "RefusedRows.java").read_text())
    return compiler.getClassLoader().loadClass("RefusedRows").newInstance()


def _projections(session: SparkSession, columns: Any, steps: Sequence[_Step]) -> list[Any]:
    """The steps of a plan, from its table on, as projections. A row that a filter drops is not evaluated by later ones.

    Behind the columns each row has its number, and after a filter whether it passes.
    """
    jvm: Any = session._jvm  # noqa: SLF001 - expressions are the JVM's
    catalyst: Any = jvm.org.apache.spark.sql.catalyst.expressions
    boolean, long = (
        getattr(getattr(jvm.org.apache.spark.sql.types, kind), "MODULE$") for kind in ("BooleanType$", "LongType$")
    )
    passes: Any = None
    found = []
    for step in steps:
        number = catalyst.BoundReference(columns.size(), long, False)
        made = [one.freshCopyIfContainsStatefulExpression() for one in step.expressions]
        if passes is not None:
            made = [catalyst.If(passes, _content(one), catalyst.Literal(None, one.dataType())) for one in made]
        if step.filters:
            made = [*_items(columns), number, *made]
        else:
            made = [*made, number, *([] if passes is None else [passes])]
        found.append(catalyst.InterpretedProjection(jvm.org.apache.spark.api.python.PythonUtils.toSeq(made), columns))
        found[-1].initialize(0)
        columns = step.output
        if step.filters or passes is not None:
            passes = catalyst.BoundReference(columns.size() + 1, boolean, True)
    return found


def _items(sequence: Any) -> list[Any]:
    return [sequence.apply(number) for number in range(sequence.size())]


def _content(expression: Any) -> Any:
    return expression.child() if expression.nodeName() == "Alias" else expression
