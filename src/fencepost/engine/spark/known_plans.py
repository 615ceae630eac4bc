"""Plans of transforms, which are kept for later batches with the same columns.

Spark takes much longer to plan a select than to evaluate it for a hundred rows. So the expressions that its optimizer
made are kept, and evaluated for later batches in the driver's JVM. A batch is converted from Arrow to Spark's rows,
goes through Spark's projections, and is converted back to Arrow. Arrays are exploded on Arrow data, between two such
passes. When a plan has evaluated many rows, Spark compiles its projections.

A kept plan is correct only if planning again would result in the same plan. So a plan's key contains everything that
the plan depends on: the session and its settings, the transforms, and the types of the columns. Transforms that depend
on more are planned for each batch (`planned_by_schema`).

Expressions have buffers and other state. So a plan has only one user at a time, and is dropped after an error.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from enum import Enum, auto
from functools import lru_cache, reduce
from typing import Any, Final, Generic, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from fencepost.engine.spark.arrow_rows import TIME_ZONE, may_use_files, rows_from_arrow, rows_to_arrow

P = TypeVar("P")

_CAPACITY: Final = 64
_COMPILED_AFTER: Final = 50_000
"""A plan is compiled after this number of rows. That takes some tenths of a second, and saves at least 1 us per row."""
PASSES: Final = "__fencepost_passes"
ARRAY: Final = "__fencepost_array"


class _Use(Enum):
    """Counts the uses of a key that has no plan yet."""

    NEVER = auto()
    ONCE = auto()


class KnownPlans(Generic[P]):
    """Keeps the most recently used plans, by keys. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._plans: dict[Hashable, P | _Use | None] = {}

    @contextmanager
    def borrowed(self, key: Hashable, make: Callable[[], P | None]) -> Iterator[P | None]:
        """Lend the plan for a key to the block exclusively. The plan is kept if the block ends without an exception.

        `make` is called at the second use of a key: if the columns of a source always change, most keys are used only
        once. `make` returns None if no plan can be kept. The block gets None for a new key, and while the plan is in
        use.
        """
        with self._lock:
            known = self._plans.pop(key, _Use.NEVER)
        plan = make() if known is _Use.ONCE else known
        yield None if isinstance(plan, _Use) else plan
        with self._lock:
            self._plans[key] = _Use.ONCE if isinstance(plan, _Use) else plan
            if len(self._plans) > _CAPACITY:
                del self._plans[next(iter(self._plans))]


@dataclass(frozen=True, slots=True)
class _Part:
    """A part of a plan: projections, which are Scala functions from row to row.

    If the part `filters`, a filter precedes the projections.

    In this case, the last column of the result shows whether a row passes: to filter an iterator, a Scala function
    would be needed, and Spark's conditions are not Scala functions. `given` and `result` are the columns before and
    after, as Java's StructType. If the part `explodes`, the last column of the result is an array (before the column
    that shows whether a row passes). `steps` are the expressions of the projections, each with the columns before it.
    """

    projections: Sequence[Any]
    steps: Sequence[tuple[Any, Any]]
    filters: bool
    explodes: bool
    given: Any
    result: Any
    result_schema: pa.Schema

    def rows(self, session: SparkSession, batch: pa.RecordBatch) -> pa.Table:
        """Return the rows that pass the filter.

        If the part explodes arrays, return one row for each item of the arrays.
        """
        given = rows_from_arrow(session, batch, self.given)
        try:
            selected = reduce(lambda rows, projection: rows.map(projection), self.projections, given)
            table = rows_to_arrow(session, selected, self.result, self.result_schema)
        except Exception:
            # Counting consumes the remaining rows, which frees their memory.
            with suppress(Py4JError, PySparkException):
                given.size()
            raise
        if self.filters:
            table = table.filter(table[PASSES]).drop_columns([PASSES])
        return exploded(table) if self.explodes else table

    def compiled(self, session: SparkSession) -> _Part:
        """Return the part with projections that Spark has compiled.

        A projection that cannot be compiled stays interpreted.
        """
        projection: Any = getattr(getattr(_expressions(session), "UnsafeProjection$"), "MODULE$")
        return replace(self, projections=[projection.create(*step) for step in self.steps])


@dataclass(slots=True, kw_only=True)
class LocalPlan:
    """The optimized expressions of a selection from a table, which can be evaluated for later batches.

    Only one thread may use it at a time.

    `given` are the columns of the table, `result` the columns of the selection. `limit` is the number of bytes up to
    which Spark itself would evaluate the selection in the driver. `evaluated` is the number of rows that were evaluated
    so far; None after Spark has compiled the parts.
    """

    session: SparkSession
    parts: Sequence[_Part]
    limit: int
    given: pa.Schema
    result: pa.Schema
    evaluated: int | None = 0

    @classmethod
    def of(cls, table: DataFrame, selection: DataFrame) -> LocalPlan | None:
        """Return the plan of a selection from a table; None if the plan cannot be kept.

        The table must not be a LocalRelation: Spark would evaluate the selection while it plans. A plan can be kept if
        each of its parts has only projections, and at most one filter before them. Two parts are separated by an
        explode of an array. No plan can be kept if Spark encrypts its files. Raises Py4JError or TypeError if Spark's
        internals are not as expected.
        """
        session = selection.sparkSession
        parts = _parts(session, selection)
        if parts is None or not may_use_files(session):
            return None
        return cls(
            session=session,
            parts=parts,
            limit=int(_conf(session).arrowLocalRelationThreshold()),
            given=arrow_schema(table.schema),
            result=arrow_schema(selection.schema),
        )

    def takes(self, batch: pa.RecordBatch) -> bool:
        """Return whether the batch is small enough, and has columns that Spark can read without a conversion."""
        return bool(batch.nbytes <= self.limit and batch.schema.types == self.given.types)

    def rows(self, batch: pa.RecordBatch) -> pa.Table:
        """Return the selection evaluated for a batch.

        Raises Spark's error for a row that an expression refuses, even if a filter drops it.
        """
        _set_active(self.session)
        if self.evaluated is not None:
            self.evaluated += batch.num_rows
            if self.evaluated > _COMPILED_AFTER:
                self.parts, self.evaluated = [part.compiled(self.session) for part in self.parts], None
        table = pa.Table.from_arrays(batch.columns, schema=self.given)
        for part in self.parts:
            (whole,) = table.combine_chunks().to_batches() or [None]
            if whole is None:
                return self.result.empty_table()
            table = part.rows(self.session, whole)
        return pa.Table.from_arrays(table.columns, schema=self.result)


def exploded(table: pa.Table) -> pa.Table:
    """Return one row for each item of the arrays in the last column. The item replaces the array."""
    arrays = table.columns[-1].combine_chunks()
    rows, items = pc.list_parent_indices(arrays), pc.list_flatten(arrays)
    kept = table.select(range(table.num_columns - 1)).take(rows)
    return kept.append_column(table.schema.names[-1], items)


def _parts(session: SparkSession, selection: DataFrame) -> list[_Part] | None:
    """Return the parts of a plan, in order; None if the plan has steps of other kinds.

    The last column of each part is an array, except for the last part.
    """
    plan = selection._jdf.queryExecution().optimizedPlan()  # noqa: SLF001 - pyspark shows no plan
    parts: list[_Part] = []
    result = selection._jdf.schema()  # noqa: SLF001 - likewise
    last: list[tuple[Any, Any]] = []
    while True:
        steps = last
        while plan.nodeName() == "Project":
            steps.insert(0, (plan.projectList(), plan.output()))
            plan = plan.child()
        passes, plan = (plan.condition(), plan.child()) if plan.nodeName() == "Filter" else (None, plan)
        parts.insert(0, _part(session, plan.output(), steps, passes, result, explodes=len(parts) > 0))
        if plan.nodeName() == "LogicalRDD":
            return parts
        if not is_explode(plan):
            return None
        kept, array = plan.requiredChildOutput(), plan.generator().child()
        last = [(kept.appended(array), None)]
        result = struct_of(session, kept).add(ARRAY, array.dataType(), True)
        plan = plan.child()


def is_explode(plan: Any) -> bool:
    """Whether a step of a plan makes one row of each item of an array, and no row of an empty array."""
    if plan.nodeName() != "Generate" or plan.outer():
        return False
    array = plan.generator().child().dataType().getClass().getSimpleName()
    return (plan.generator().getClass().getSimpleName(), array) == ("Explode", "ArrayType")


def struct_of(session: SparkSession, attributes: Any) -> Any:
    """Return the columns of a plan's attributes as Java's StructType."""
    jvm: Any = session._jvm  # noqa: SLF001 - types are the JVM's
    return jvm.org.apache.spark.sql.catalyst.types.DataTypeUtils.fromAttributes(attributes)


def _part(
    session: SparkSession, columns: Any, steps: Sequence[tuple[Any, Any]], passes: Any, result: Any, *, explodes: bool
) -> _Part:
    """Return the part that leads from `columns` to `result`.

    Each of the `steps` is a pair: its expressions, and the columns that result from them.
    """
    catalyst = _expressions(session)
    given, filters = struct_of(session, columns), passes is not None
    boolean = passes.dataType() if filters else None
    complete = []
    for expressions, output_columns in steps or [(columns, columns)]:
        complete.append((expressions.appended(passes) if filters else expressions, columns))
        columns = output_columns
        passes = catalyst.BoundReference(expressions.size(), boolean, True) if filters else None
    schema = arrow_schema(StructType.fromJson(json.loads(result.json())))
    if filters:
        schema, result = schema.append(pa.field(PASSES, pa.bool_())), result.add(PASSES, "boolean")
    projections = [catalyst.InterpretedProjection(*step) for step in complete]
    return _Part(projections, complete, filters, explodes, given, result, schema)


def _expressions(session: SparkSession) -> Any:
    jvm: Any = session._jvm  # noqa: SLF001 - expressions are the JVM's
    return jvm.org.apache.spark.sql.catalyst.expressions


def settings_hash(session: SparkSession) -> int:
    """A number that changes when the session's settings change, because plans depend on the settings."""
    return int(_settings(session).hashCode())


@lru_cache(maxsize=1)
def _settings(session: SparkSession) -> Any:
    return _conf(session).settings()


def _conf(session: SparkSession) -> Any:
    return session._jsparkSession.sessionState().conf()  # noqa: SLF001 - pyspark asks for single ones, and gives their texts


@lru_cache(maxsize=1)
def _active_setter(session: SparkSession) -> Any:
    jvm: Any = session._jvm  # noqa: SLF001 - expressions look for the settings of the thread's session
    return jvm.org.apache.spark.sql.classic.SparkSession.setActiveSession


def _set_active(session: SparkSession) -> None:
    _active_setter(session)(session._jsparkSession)  # noqa: SLF001 - see above


def arrow_schema(schema: StructType) -> pa.Schema:
    """Return the Arrow schema for the columns."""
    return to_arrow_schema(schema, error_on_duplicated_field_names_in_struct=True, timezone=TIME_ZONE)
