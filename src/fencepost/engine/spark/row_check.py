"""Finds all rows of a batch that a chain of expressions refuses, each with its error, in one pass in the driver's JVM.

If arrays are exploded, there is one pass before the explosion and one over the items: a row is refused if one of its
items is refused.

With bisection, each refused row costs several attempts, and each attempt plans and evaluates rows anew. Here the
expressions that Spark's optimizer made are evaluated row by row, and after an error the pass continues with the next
row. A Java class does that, because for Python each error would mean tens of calls to the JVM.
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
"""Exploded rows are evaluated at once only up to this number of bytes."""


@dataclass(frozen=True, slots=True)
class RowCheck:
    """The expressions of a plan, in parts. Arrays are exploded between two parts."""

    parts: Sequence[_Part]

    @classmethod
    def of(cls, selection: DataFrame, table: DataFrame) -> RowCheck | None:
        """Return the check for a selection from a table; None if the plan cannot be checked in this way.

        The table must not be a LocalRelation: Spark would evaluate the selection while it plans. The plan must not read
        rows of another table, and must have only projections, filters and explodes of arrays. Spark must not encrypt
        its files.
        """
        session = selection.sparkSession
        plan = selection._jdf.queryExecution().optimizedPlan()  # noqa: SLF001 - pyspark shows no plan
        parts: list[_Part] = []
        explode_node: Any = None
        while True:
            steps: list[Any] = []
            while plan.nodeName() in ("Project", "Filter"):
                steps.insert(0, plan)
                plan = plan.child()
            parts.insert(0, _Part.of(session, plan.output(), steps, explode_node))
            if plan.children().isEmpty():
                of_table = plan.output().equals(table._jdf.queryExecution().analyzed().output())  # noqa: SLF001 - see above
                return cls(parts) if of_table and may_use_files(session) else None
            if not is_explode(plan):
                return None
            explode_node, plan = plan, plan.child()

    def refused(self, batch: pa.RecordBatch) -> list[tuple[int, Exception]]:
        """Return the positions of the refused rows, in order, each with a SparkDataError.

        The result is empty if exploded arrays would need much memory, or if an error may not be caused by a row. Then
        bisection is needed.
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
    """Expressions as Scala functions from row to row, one after the other.

    `given` are the columns, as Java's StructType.

    `projections` creates these functions. If they are `stateful`, they may refuse any row after an error: for example,
    a map expression keeps the keys of the row that it refused. `exploded` are the columns of the result if it has an
    array that is exploded.
    """

    session: SparkSession
    projections: Callable[[], Sequence[Any]]
    stateful: bool
    given: Any
    exploded: Any

    @classmethod
    def of(cls, session: SparkSession, columns: Any, plans: Sequence[Any], explode_node: Any) -> _Part:
        """Return the part for neighbouring nodes of a plan, given from the lowest to the highest node.

        `explode_node` is the node that explodes the part's array, None if there is no such node.
        """
        steps = [_Step(_items(plan.expressions()), plan.output(), plan.nodeName() == "Filter") for plan in plans]
        exploded: Any = None
        if explode_node is not None:
            kept, array = explode_node.requiredChildOutput(), explode_node.generator().child()
            steps.append(_Step([*_items(kept), array], kept, filters=False))
            exploded = struct_of(session, kept).add(ARRAY, array.dataType(), True).add(_NUMBER, "long")
            if any(step.filters for step in steps):
                exploded = exploded.add(PASSES, "boolean")
        identity = session._jvm.java.lang.System.identityHashCode  # type: ignore[union-attr]  # noqa: SLF001 - objects are the JVM's
        expressions = (one for step in steps for one in step.expressions)
        stateful = any(identity(one) != identity(one.freshCopyIfContainsStatefulExpression()) for one in expressions)
        given = struct_of(session, columns).add(_NUMBER, "long")
        return cls(session, partial(_projections, session, columns, steps), stateful, given, exploded)

    def refused(self, batch: pa.RecordBatch) -> list[tuple[int, Exception]] | None:
        """Return the positions of the refused rows, in order, each with a SparkDataError.

        The result is None if an error may have another cause than a row.
        """
        with self._numbered(batch) as rows:
            return self._refused(rows, batch)

    def arrays(self, batch: pa.RecordBatch) -> pa.Table:
        """Return the rows before their explosion, without rows that a filter drops.

        The last columns are position and array.
        """
        with self._numbered(batch) as rows:
            schema = arrow_schema(StructType.fromJson(json.loads(self.exploded.json())))
            projected = reduce(lambda found, projection: found.map(projection), self.projections(), rows)
            table = rows_to_arrow(self.session, projected, self.exploded, schema)
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
            # Counting consumes the remaining rows, which frees their memory.
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
    """A projection or a filter: its expressions, and the columns that result from them."""

    expressions: Sequence[Any]
    output: Any
    filters: bool


def _exploded_bytes(table: pa.Table) -> int:
    """The approximate size in bytes after explosion of the arrays in the last column: each item gets a whole row."""
    counts = pc.fill_null(pc.list_value_length(table.columns[-1]), 0).to_pylist()
    kept = table.select(range(table.num_columns - 1))
    return int(sum(count * kept.slice(row, 1).nbytes for row, count in enumerate(counts)) + table.nbytes)


def _items_of(table: pa.Table) -> tuple[pa.RecordBatch, np.ndarray]:
    """Return one row for each item of the arrays in the last column, and the row numbers from the column before it."""
    table = exploded(table)
    number = table.num_columns - 2
    items = table.remove_column(number)
    columns = [column.combine_chunks() for column in items.columns]
    return pa.RecordBatch.from_arrays(columns, schema=items.schema), table.columns[number].to_numpy()


@lru_cache(maxsize=1)
def _java(session: SparkSession) -> Any:
    """Return an instance of the Java class RefusedRows, which is compiled in the driver's JVM."""
    jvm: Any = session._jvm  # noqa: SLF001 - rows are the JVM's
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.cook((files("fencepost.engine.spark") / "RefusedRows.java").read_text())
    return compiler.getClassLoader().loadClass("RefusedRows").newInstance()


def _projections(session: SparkSession, columns: Any, steps: Sequence[_Step]) -> list[Any]:
    """The steps of a plan as projections, starting at the plan's table.

    Later steps do not evaluate rows that a filter drops. Each row has additional last columns: its number, and after a
    filter whether the row passes.
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
        expressions = [one.freshCopyIfContainsStatefulExpression() for one in step.expressions]
        if passes is not None:
            expressions = [
                catalyst.If(passes, _content(one), catalyst.Literal(None, one.dataType())) for one in expressions
            ]
        if step.filters:
            expressions = [*_items(columns), number, *expressions]
        else:
            expressions = [*expressions, number, *([] if passes is None else [passes])]
        found.append(
            catalyst.InterpretedProjection(jvm.org.apache.spark.api.python.PythonUtils.toSeq(expressions), columns)
        )
        found[-1].initialize(0)
        columns = step.output
        if step.filters or passes is not None:
            passes = catalyst.BoundReference(columns.size() + 1, boolean, True)
    return found


def _items(sequence: Any) -> list[Any]:
    return [sequence.apply(number) for number in range(sequence.size())]


def _content(expression: Any) -> Any:
    return expression.child() if expression.nodeName() == "Alias" else expression
